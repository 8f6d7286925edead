"""REST for administration: login, credentials, users, folders and trust."""

from typing import Final

from fairlead.auth.api import accounts
from fairlead.auth.api.credentials import (
    AddUser,
    CreateLoginCode,
    CreateToken,
    CredentialView,
    IssueTicket,
    ListCredentials,
    ListUsers,
    Login,
    LoginCode,
    NewCredential,
    RevokeCredential,
    SignDownload,
    SignedUrl,
    Ticket,
    UserView,
)
from fairlead.clients.native import schemas as b
from fairlead.clients.native.qr import qr_code
from fairlead.model.auth import SCOPES
from fairlead.model.errors import BadRequest
from fairlead.model.web.routes import Param, Request, Route, Steps, json_response
from fairlead.sessions.api.folders import (
    FolderPage,
    FolderReport,
    InspectFolder,
    ListFolders,
    ListTrusted,
    TrustedFolder,
    TrustFolder,
    UntrustFolder,
)

_SMALL: Final = 64 << 10
"""The size limit, in bytes, of a body that carries only names and codes; the public login call never reads more."""


def login(request: Request) -> Steps:
    body = request.json(b.LoginBody)
    return json_response((yield Login(body.code, body.name)), 201)


def me(request: Request) -> Steps:
    who = request.who
    scopes = tuple(scope for scope in SCOPES if scope in who.scopes)
    yield from ()
    return json_response(b.Me(credential=who.credential, user=who.user, name=who.name, scopes=scopes))


def ticket(request: Request) -> Steps:
    return json_response((yield IssueTicket()), 201)


def download(request: Request) -> Steps:
    return json_response((yield SignDownload(request.json(b.Download).path)), 201)


def list_tokens(request: Request) -> Steps:
    return json_response(b.TokenList((yield ListCredentials("token"))))


def create_token(request: Request) -> Steps:
    body = request.json(b.NewToken)
    return json_response((yield CreateToken(body.name, body.scopes, body.user)), 201)


def revoke_token(request: Request) -> Steps:
    return json_response((yield RevokeCredential("token", request.params["id"])))


def list_devices(request: Request) -> Steps:
    return json_response(b.Devices((yield ListCredentials("device"))))


def revoke_device(request: Request) -> Steps:
    return json_response((yield RevokeCredential("device", request.params["id"])))


def folders(request: Request) -> Steps:
    return json_response((yield ListFolders(request.query.get("path", ""))))


def create_login_code(request: Request) -> Steps:
    body = request.json(b.NewLoginCode)
    made: LoginCode = yield CreateLoginCode(body.name, body.scopes, body.user)
    # In the fragment: browsers do not send it to servers or include it in the Referer.
    url = f"{request.base}/#login={made.code}"
    link = b.LoginLink(url=url, code=made.code, expires=made.expires, qr=qr_code(url))
    return json_response(link, 201)


def list_users(request: Request) -> Steps:
    return json_response(b.UserList((yield ListUsers())))


def add_user(request: Request) -> Steps:
    body = request.json(b.NewUser)
    return json_response((yield AddUser(body.name, body.password, body.scopes)), 201)


def set_password(request: Request) -> Steps:
    return json_response((yield accounts.SetPassword(request.params["name"], request.json(b.NewPassword).password)))


def remove_user(request: Request) -> Steps:
    name = request.params["name"]
    yield accounts.RemoveUser(name)
    return json_response(b.RemovedUser(name))


def invite(request: Request) -> Steps:
    return json_response((yield accounts.CreateInvitation(request.json(b.NewInvitation).scopes)), 201)


def trust_report(request: Request) -> Steps:
    path = request.query.get("path")
    if path is None:
        return json_response(b.TrustList((yield ListTrusted())))
    return json_response((yield InspectFolder(path)))


def trust(request: Request) -> Steps:
    body = request.json(b.TrustBody)
    return json_response((yield TrustFolder(body.path, body.digest)), 201)


def untrust(request: Request) -> Steps:
    path = request.query.get("path")
    if not path:
        raise BadRequest("path must name the folder.", field="path")
    return json_response(b.UntrustedBody((yield UntrustFolder(path))))


_PATH = Param("path", str, "The folder; without it, the list of trusted folders.")

ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/login",
        access="public",
        name="login",
        handle=login,
        about="Turn a one-time code into a device key, shown this once.",
        body=b.LoginBody,
        answer=NewCredential,
        status=201,
        body_limit=_SMALL,
    ),
    Route(method="GET", path="/v1/me", access="any", name="me", handle=me, about="Who you are here.", answer=b.Me),
    Route(
        method="POST",
        path="/v1/tickets",
        access="any",
        name="tickets.create",
        handle=ticket,
        about="A single-use ticket to open a WebSocket with (?ticket=), for 30 seconds.",
        answer=Ticket,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="POST",
        path="/v1/downloads",
        access="view",
        name="downloads.sign",
        handle=download,
        about="A signed link to a download (an export), for five minutes.",
        body=b.Download,
        answer=SignedUrl,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="GET",
        path="/v1/tokens",
        access="admin",
        name="tokens.list",
        handle=list_tokens,
        about="All tokens, revoked ones too; never their secrets.",
        answer=b.TokenList,
    ),
    Route(
        method="POST",
        path="/v1/tokens",
        access="admin",
        name="tokens.create",
        handle=create_token,
        about="Make a token, shown this once.",
        body=b.NewToken,
        answer=NewCredential,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="DELETE",
        path="/v1/tokens/{id}",
        access="admin",
        name="tokens.revoke",
        handle=revoke_token,
        about="Revoke a token and close its sockets.",
        answer=CredentialView,
    ),
    Route(
        method="GET",
        path="/v1/devices",
        access="admin",
        name="devices.list",
        handle=list_devices,
        about="Browsers that signed in.",
        answer=b.Devices,
    ),
    Route(
        method="DELETE",
        path="/v1/devices/{id}",
        access="admin",
        name="devices.revoke",
        handle=revoke_device,
        about="Revoke a device's key and close its sockets.",
        answer=CredentialView,
    ),
    Route(
        method="POST",
        path="/v1/login-codes",
        access="admin",
        name="login_codes.create",
        handle=create_login_code,
        about="A one-time link that signs a browser in, for 10 minutes.",
        body=b.NewLoginCode,
        answer=b.LoginLink,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="GET",
        path="/v1/users",
        access="admin",
        name="users.list",
        handle=list_users,
        about="All users.",
        answer=b.UserList,
    ),
    Route(
        method="POST",
        path="/v1/users",
        access="admin",
        name="users.add",
        handle=add_user,
        about="Add a user; with a password, one who can sign in.",
        body=b.NewUser,
        answer=UserView,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="PUT",
        path="/v1/users/{name}/password",
        access="admin",
        name="users.set_password",
        handle=set_password,
        about="Give a user a password, and end what the one before opened.",
        body=b.NewPassword,
        answer=UserView,
        body_limit=_SMALL,
    ),
    Route(
        method="DELETE",
        path="/v1/users/{name}",
        access="admin",
        name="users.remove",
        handle=remove_user,
        about="Remove a user with all their credentials, and close their sockets.",
        answer=b.RemovedUser,
    ),
    Route(
        method="POST",
        path="/v1/invitations",
        access="admin",
        name="invitations.create",
        handle=invite,
        about="A one-time link with which somebody makes their own account, for a day.",
        body=b.NewInvitation,
        answer=accounts.UserInvitation,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="GET",
        path="/v1/folders",
        access="chat",
        name="folders.list",
        handle=folders,
        about="The folders inside an allowed one, to pick one for a session.",
        answer=FolderPage,
        query=(Param("path", str, "Which; without it, the roots."),),
    ),
    Route(
        method="GET",
        path="/v1/trust",
        access="admin",
        name="trust.show",
        handle=trust_report,
        about="Trusted folders, or what one folder's own settings would do.",
        answer=(b.TrustList, FolderReport),
        query=(_PATH,),
    ),
    Route(
        method="POST",
        path="/v1/trust",
        access="admin",
        name="trust.add",
        handle=trust,
        about="Trust a folder as its report showed it.",
        body=b.TrustBody,
        answer=TrustedFolder,
        status=201,
        body_limit=_SMALL,
    ),
    Route(
        method="DELETE",
        path="/v1/trust",
        access="admin",
        name="trust.remove",
        handle=untrust,
        about="Trust a folder no more.",
        answer=b.UntrustedBody,
        query=(Param("path", str, "The folder.", required=True),),
    ),
)
