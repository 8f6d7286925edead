"""Handlers of the service calls on credentials and users."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.auth.api.accounts import (
    AcceptInvitation,
    CreateInvitation,
    RemoveUser,
    RenewToken,
    SetPassword,
    SignedIn,
    SignIn,
    UserInvitation,
)
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
from fairlead.auth.credentials import Credentials
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import ServiceCall


class CredentialActions:
    """Access is checked before these handlers are called. `page` is the URL at which an invitation is opened."""

    def __init__(self, credentials: Credentials, page: str = "") -> None:
        self._credentials = credentials
        self._accounts = credentials.accounts
        self._page = page

    def handlers(self) -> Mapping[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return {
            AcceptInvitation: self.accept,
            AddUser: self.add_user,
            CreateInvitation: self.invite,
            CreateLoginCode: self.create_login_code,
            CreateToken: self.create_token,
            IssueTicket: self.issue_ticket,
            ListCredentials: self.list_credentials,
            ListUsers: self.list_users,
            Login: self.login,
            RemoveUser: self.remove_user,
            RenewToken: self.renew,
            RevokeCredential: self.revoke,
            SetPassword: self.set_password,
            SignDownload: self.sign,
            SignIn: self.sign_in,
        }

    async def create_token(self, who: Identity, action: CreateToken) -> NewCredential:
        return await self._credentials.create("token", action.name, action.scopes, action.user or who.user)

    async def list_credentials(self, who: Identity, action: ListCredentials) -> tuple[CredentialView, ...]:
        return tuple(record.view() for record in self._credentials.list(action.kind))

    async def revoke(self, who: Identity, action: RevokeCredential) -> CredentialView:
        return (await self._credentials.revoke(action.kind, action.id)).view()

    async def create_login_code(self, who: Identity, action: CreateLoginCode) -> LoginCode:
        user = self._credentials.users.check(action.user or who.user)
        scopes = tuple(who.scopes) if action.scopes is None else action.scopes
        if not scopes:
            raise BadRequest("A login link needs at least one scope.")
        return await self._credentials.codes.create(action.name, user, scopes)

    async def login(self, who: Identity, action: Login) -> NewCredential:
        return await self._credentials.login(action.code, action.name)

    async def issue_ticket(self, who: Identity, action: IssueTicket) -> Ticket:
        return self._credentials.tickets.issue(who.credential)

    async def sign(self, who: Identity, action: SignDownload) -> SignedUrl:
        path, _, query = action.path.partition("?")
        if not path.startswith("/") or path.startswith("//") or "#" in action.path or not action.path.isprintable():
            raise BadRequest("A download is named by its path on this gateway.")
        return self._credentials.sign(who.credential, path, query)

    async def add_user(self, who: Identity, action: AddUser) -> UserView:
        return (await self._accounts.add(action.name, action.password, action.scopes)).view()

    async def list_users(self, who: Identity, action: ListUsers) -> tuple[UserView, ...]:
        return self._credentials.users.list()

    async def set_password(self, who: Identity, action: SetPassword) -> UserView:
        return (await self._accounts.set_password(action.name, action.password)).view()

    async def remove_user(self, who: Identity, action: RemoveUser) -> tuple[str, ...]:
        return await self._credentials.remove_user(action.name)

    async def invite(self, who: Identity, action: CreateInvitation) -> UserInvitation:
        made = await self._accounts.invite(action.scopes)
        # In the fragment: browsers never send it to a server or put it into a Referer.
        return UserInvitation(url=f"{self._page}#{made.code}", code=made.code, expires=made.expires)

    async def accept(self, who: Identity, action: AcceptInvitation) -> SignedIn:
        return await self._accounts.accept(action.code, action.name, action.password)

    async def sign_in(self, who: Identity, action: SignIn) -> SignedIn:
        return await self._accounts.sign_in(action.name, action.password, action.peer)

    async def renew(self, who: Identity, action: RenewToken) -> SignedIn | None:
        return self._accounts.renew(who, now=action.now)
