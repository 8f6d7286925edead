"""Handlers of the service calls on credentials and users."""

from fairlead.auth.api import credentials as act
from fairlead.auth.credentials import Credentials
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import ServiceHandlers


class CredentialActions:
    """Access is checked before these handlers are called. `page` is the URL at which an invitation is opened."""

    def __init__(self, credentials: Credentials, page: str = "") -> None:
        self._credentials = credentials
        self._accounts = credentials.accounts
        self._page = page

    def handlers(self) -> ServiceHandlers:
        return {
            act.AcceptInvitation: self.accept,
            act.AddUser: self.add_user,
            act.CreateInvitation: self.invite,
            act.CreateLoginCode: self.create_login_code,
            act.CreateToken: self.create_token,
            act.IssueTicket: self.issue_ticket,
            act.ListCredentials: self.list_credentials,
            act.ListUsers: self.list_users,
            act.Login: self.login,
            act.RemoveUser: self.remove_user,
            act.RenewToken: self.renew,
            act.RevokeCredential: self.revoke,
            act.SetPassword: self.set_password,
            act.SignDownload: self.sign,
            act.SignIn: self.sign_in,
        }

    async def create_token(self, who: Identity, action: act.CreateToken) -> act.NewCredential:
        return await self._credentials.create("token", action.name, action.scopes, action.user or who.user)

    async def list_credentials(self, who: Identity, action: act.ListCredentials) -> tuple[act.CredentialView, ...]:
        return tuple(record.view() for record in self._credentials.list(action.kind))

    async def revoke(self, who: Identity, action: act.RevokeCredential) -> act.CredentialView:
        return (await self._credentials.revoke(action.kind, action.id)).view()

    async def create_login_code(self, who: Identity, action: act.CreateLoginCode) -> act.LoginCode:
        user = self._credentials.users.check(action.user or who.user)
        scopes = tuple(who.scopes) if action.scopes is None else action.scopes
        if not scopes:
            raise BadRequest("A login link needs at least one scope.")
        return await self._credentials.codes.create(action.name, user, scopes)

    async def login(self, who: Identity, action: act.Login) -> act.NewCredential:
        return await self._credentials.login(action.code, action.name)

    async def issue_ticket(self, who: Identity, action: act.IssueTicket) -> act.Ticket:
        return self._credentials.tickets.issue(who.credential)

    async def sign(self, who: Identity, action: act.SignDownload) -> act.SignedUrl:
        path, _, query = action.path.partition("?")
        if not path.startswith("/") or path.startswith("//") or "#" in action.path or not action.path.isprintable():
            raise BadRequest("A download is named by its path on this gateway.")
        return self._credentials.sign(who.credential, path, query)

    async def add_user(self, who: Identity, action: act.AddUser) -> act.UserView:
        return (await self._accounts.add(action.name, action.password, action.scopes)).view()

    async def list_users(self, who: Identity, action: act.ListUsers) -> tuple[act.UserView, ...]:
        return self._credentials.users.list()

    async def set_password(self, who: Identity, action: act.SetPassword) -> act.UserView:
        return (await self._accounts.set_password(action.name, action.password)).view()

    async def remove_user(self, who: Identity, action: act.RemoveUser) -> tuple[str, ...]:
        return await self._credentials.remove_user(action.name)

    async def invite(self, who: Identity, action: act.CreateInvitation) -> act.UserInvitation:
        made = await self._accounts.invite(action.scopes)
        # In the fragment: browsers never send it to a server or put it into a Referer.
        return act.UserInvitation(url=f"{self._page}#{made.code}", code=made.code, expires=made.expires)

    async def accept(self, who: Identity, action: act.AcceptInvitation) -> act.SignedIn:
        return await self._accounts.accept(action.code, action.name, action.password)

    async def sign_in(self, who: Identity, action: act.SignIn) -> act.SignedIn:
        return await self._accounts.sign_in(action.name, action.password, action.peer)

    async def renew(self, who: Identity, action: act.RenewToken) -> act.SignedIn | None:
        return self._accounts.renew(who, now=action.now)
