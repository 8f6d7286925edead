"""REST for administration: login, credentials, users, folders and trust."""

import io
from typing import Final

import segno

from fairlead.auth.api import credentials as act
from fairlead.clients.native import schemas as b
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


@routes.post("/v1/login", access="public", name="login", body=b.LoginBody, answer=act.NewCredential, status=201)
def login(request: Request) -> Steps:
    """Exchange a one-time code for a device key. The key is shown only once."""
    body = request.json(b.LoginBody)
    return json_response((yield act.Login(body.code, body.name)), 201)


@routes.get("/v1/me", access="any", name="me", answer=b.Me)
def me(request: Request) -> Response:
    """The credential of this request, with its user and scopes."""
    who = request.who
    scopes = tuple(scope for scope in SCOPES if scope in who.scopes)
    return json_response(b.Me(credential=who.credential, user=who.user, name=who.name, scopes=scopes))


@routes.post("/v1/tickets", access="any", name="tickets.create", answer=act.Ticket, status=201)
def ticket(request: Request) -> Steps:
    """Issue a single-use ticket that opens a WebSocket (?ticket=) within 30 seconds."""
    return json_response((yield act.IssueTicket()), 201)


@routes.post("/v1/downloads", access="view", name="downloads.sign", body=b.Download, answer=act.SignedUrl, status=201)
def download(request: Request) -> Steps:
    """Sign a link to a download (an export). It is valid for five minutes."""
    return json_response((yield act.SignDownload(request.json(b.Download).path)), 201)


@routes.get("/v1/tokens", access="admin", name="tokens.list", answer=b.TokenList)
def list_tokens(request: Request) -> Steps:
    """List all tokens, including revoked ones, without their secrets."""
    return json_response(b.TokenList((yield act.ListCredentials("token"))))


@routes.post("/v1/tokens", access="admin", name="tokens.create", body=b.NewToken, answer=act.NewCredential, status=201)
def create_token(request: Request) -> Steps:
    """Create a token. Its secret is shown only once."""
    body = request.json(b.NewToken)
    return json_response((yield act.CreateToken(body.name, body.scopes, body.user)), 201)


@routes.delete("/v1/tokens/{id}", access="admin", name="tokens.revoke", answer=act.CredentialView)
def revoke_token(request: Request) -> Steps:
    """Revoke a token and close its sockets."""
    return json_response((yield act.RevokeCredential("token", request.params["id"])))


@routes.get("/v1/devices", access="admin", name="devices.list", answer=b.Devices)
def list_devices(request: Request) -> Steps:
    """List the browsers that signed in."""
    return json_response(b.Devices((yield act.ListCredentials("device"))))


@routes.delete("/v1/devices/{id}", access="admin", name="devices.revoke", answer=act.CredentialView)
def revoke_device(request: Request) -> Steps:
    """Revoke a device's key and close its sockets."""
    return json_response((yield act.RevokeCredential("device", request.params["id"])))


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
    made = yield from do(act.CreateLoginCode(body.name, body.scopes, body.user))
    # In the fragment: browsers do not send it to servers or include it in the Referer.
    url = f"{request.base}/#login={made.code}"
    link = b.LoginLink(url=url, code=made.code, expires=made.expires, qr=qr_code(url))
    return json_response(link, 201)


def qr_code(url: str) -> str:
    """Return a link as a QR code for a phone's camera: an SVG, dark on white with the margin that readers need,
    independent of the page's style."""
    drawn = io.BytesIO()
    segno.make(url, error="m", micro=False).save(
        drawn, kind="svg", border=4, light="#fff", xmldecl=False, svgclass=None, lineclass=None
    )
    return drawn.getvalue().decode()


@routes.get("/v1/users", access="admin", name="users.list", answer=b.UserList)
def list_users(request: Request) -> Steps:
    """List all users."""
    return json_response(b.UserList((yield act.ListUsers())))


@routes.post("/v1/users", access="admin", name="users.add", body=b.NewUser, answer=act.UserView, status=201)
def add_user(request: Request) -> Steps:
    """Add a user. With a password, the user can sign in."""
    body = request.json(b.NewUser)
    return json_response((yield act.AddUser(body.name, body.password, body.scopes)), 201)


@routes.put(
    "/v1/users/{name}/password", access="admin", name="users.set_password", body=b.NewPassword, answer=act.UserView
)
def set_password(request: Request) -> Steps:
    """Set a user's password, and revoke the tokens that the previous one opened."""
    return json_response((yield act.SetPassword(request.params["name"], request.json(b.NewPassword).password)))


@routes.delete("/v1/users/{name}", access="admin", name="users.remove", answer=b.RemovedUser)
def remove_user(request: Request) -> Steps:
    """Remove a user with all their credentials, and close their sockets."""
    name = request.params["name"]
    yield act.RemoveUser(name)
    return json_response(b.RemovedUser(name))


@routes.post(
    "/v1/invitations",
    access="admin",
    name="invitations.create",
    body=b.NewInvitation,
    answer=act.UserInvitation,
    status=201,
)
def invite(request: Request) -> Steps:
    """Create a one-time link with which a person creates an account. It is valid for a day."""
    return json_response((yield act.CreateInvitation(request.json(b.NewInvitation).scopes)), 201)


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
