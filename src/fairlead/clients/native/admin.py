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
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response
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
routes = Routes(body_limit=_SMALL)


@routes.post("/v1/login", access="public", name="login", body=b.LoginBody, answer=NewCredential, status=201)
def login(request: Request) -> Steps:
    """Exchange a one-time code for a device key. The key is shown only once."""
    body = request.json(b.LoginBody)
    return json_response((yield Login(body.code, body.name)), 201)


@routes.get("/v1/me", access="any", name="me", answer=b.Me)
def me(request: Request) -> Response:
    """The credential of this request, with its user and scopes."""
    who = request.who
    scopes = tuple(scope for scope in SCOPES if scope in who.scopes)
    return json_response(b.Me(credential=who.credential, user=who.user, name=who.name, scopes=scopes))


@routes.post("/v1/tickets", access="any", name="tickets.create", answer=Ticket, status=201)
def ticket(request: Request) -> Steps:
    """Issue a single-use ticket that opens a WebSocket (?ticket=) within 30 seconds."""
    return json_response((yield IssueTicket()), 201)


@routes.post("/v1/downloads", access="view", name="downloads.sign", body=b.Download, answer=SignedUrl, status=201)
def download(request: Request) -> Steps:
    """Sign a link to a download (an export). It is valid for five minutes."""
    return json_response((yield SignDownload(request.json(b.Download).path)), 201)


@routes.get("/v1/tokens", access="admin", name="tokens.list", answer=b.TokenList)
def list_tokens(request: Request) -> Steps:
    """List all tokens, including revoked ones, without their secrets."""
    return json_response(b.TokenList((yield ListCredentials("token"))))


@routes.post("/v1/tokens", access="admin", name="tokens.create", body=b.NewToken, answer=NewCredential, status=201)
def create_token(request: Request) -> Steps:
    """Create a token. Its secret is shown only once."""
    body = request.json(b.NewToken)
    return json_response((yield CreateToken(body.name, body.scopes, body.user)), 201)


@routes.delete("/v1/tokens/{id}", access="admin", name="tokens.revoke", answer=CredentialView)
def revoke_token(request: Request) -> Steps:
    """Revoke a token and close its sockets."""
    return json_response((yield RevokeCredential("token", request.params["id"])))


@routes.get("/v1/devices", access="admin", name="devices.list", answer=b.Devices)
def list_devices(request: Request) -> Steps:
    """List the browsers that signed in."""
    return json_response(b.Devices((yield ListCredentials("device"))))


@routes.delete("/v1/devices/{id}", access="admin", name="devices.revoke", answer=CredentialView)
def revoke_device(request: Request) -> Steps:
    """Revoke a device's key and close its sockets."""
    return json_response((yield RevokeCredential("device", request.params["id"])))


@routes.get(
    "/v1/folders",
    access="chat",
    name="folders.list",
    answer=FolderPage,
    query=(Param("path", str, "The folder; without it, the roots."),),
)
def folders(request: Request) -> Steps:
    """List the folders inside an allowed folder, to choose one for a session."""
    return json_response((yield ListFolders(request.query.get("path", ""))))


@routes.post(
    "/v1/login-codes", access="admin", name="login_codes.create", body=b.NewLoginCode, answer=b.LoginLink, status=201
)
def create_login_code(request: Request) -> Steps:
    """Create a one-time link that signs a browser in. It is valid for 10 minutes."""
    body = request.json(b.NewLoginCode)
    made = yield from do(CreateLoginCode(body.name, body.scopes, body.user))
    # In the fragment: browsers do not send it to servers or include it in the Referer.
    url = f"{request.base}/#login={made.code}"
    link = b.LoginLink(url=url, code=made.code, expires=made.expires, qr=qr_code(url))
    return json_response(link, 201)


@routes.get("/v1/users", access="admin", name="users.list", answer=b.UserList)
def list_users(request: Request) -> Steps:
    """List all users."""
    return json_response(b.UserList((yield ListUsers())))


@routes.post("/v1/users", access="admin", name="users.add", body=b.NewUser, answer=UserView, status=201)
def add_user(request: Request) -> Steps:
    """Add a user. With a password, the user can sign in."""
    body = request.json(b.NewUser)
    return json_response((yield AddUser(body.name, body.password, body.scopes)), 201)


@routes.put("/v1/users/{name}/password", access="admin", name="users.set_password", body=b.NewPassword, answer=UserView)
def set_password(request: Request) -> Steps:
    """Set a user's password, and revoke the tokens that the previous one opened."""
    return json_response((yield accounts.SetPassword(request.params["name"], request.json(b.NewPassword).password)))


@routes.delete("/v1/users/{name}", access="admin", name="users.remove", answer=b.RemovedUser)
def remove_user(request: Request) -> Steps:
    """Remove a user with all their credentials, and close their sockets."""
    name = request.params["name"]
    yield accounts.RemoveUser(name)
    return json_response(b.RemovedUser(name))


@routes.post(
    "/v1/invitations",
    access="admin",
    name="invitations.create",
    body=b.NewInvitation,
    answer=accounts.UserInvitation,
    status=201,
)
def invite(request: Request) -> Steps:
    """Create a one-time link with which a person creates an account. It is valid for a day."""
    return json_response((yield accounts.CreateInvitation(request.json(b.NewInvitation).scopes)), 201)


@routes.get(
    "/v1/trust",
    access="admin",
    name="trust.show",
    answer=(b.TrustList, FolderReport),
    query=(Param("path", str, "The folder; without it, the list of trusted folders."),),
)
def trust_report(request: Request) -> Steps:
    """List trusted folders, or show what one folder's settings would do."""
    path = request.query.get("path")
    if path is None:
        return json_response(b.TrustList((yield ListTrusted())))
    return json_response((yield InspectFolder(path)))


@routes.post("/v1/trust", access="admin", name="trust.add", body=b.TrustBody, answer=TrustedFolder, status=201)
def trust(request: Request) -> Steps:
    """Trust a folder with the content that its report showed."""
    body = request.json(b.TrustBody)
    return json_response((yield TrustFolder(body.path, body.digest)), 201)


@routes.delete(
    "/v1/trust",
    access="admin",
    name="trust.remove",
    answer=b.UntrustedBody,
    query=(Param("path", str, "The folder.", required=True),),
)
def untrust(request: Request) -> Steps:
    """Stop trusting a folder."""
    path = request.query.get("path")
    if not path:
        raise BadRequest("path must name the folder.", field="path")
    return json_response(b.UntrustedBody((yield UntrustFolder(path))))
