"""The actions on credentials and users, each with what performs it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.auth.credentials import Credentials
from fairlead.model.admin import (
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
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest
from fairlead.model.requests import Action


class CredentialActions:
    """Who may ask is decided before: these only do it."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def performers(self) -> Mapping[type[Action], Callable[[Identity, Any], Awaitable[Any]]]:
        return {
            AddUser: self.add_user,
            CreateLoginCode: self.create_login_code,
            CreateToken: self.create_token,
            IssueTicket: self.issue_ticket,
            ListCredentials: self.list_credentials,
            ListUsers: self.list_users,
            Login: self.login,
            RevokeCredential: self.revoke,
            SignDownload: self.sign,
        }

    async def create_token(self, who: Identity, action: CreateToken) -> NewCredential:
        return await self._credentials.create("token", action.name, action.scopes, action.user or who.user)

    async def list_credentials(self, who: Identity, action: ListCredentials) -> tuple[CredentialView, ...]:
        return tuple(record.view() for record in self._credentials.list(action.kind))

    async def revoke(self, who: Identity, action: RevokeCredential) -> CredentialView:
        return (await self._credentials.revoke(action.kind, action.id)).view()

    async def create_login_code(self, who: Identity, action: CreateLoginCode) -> LoginCode:
        user = await self._credentials.users.check(action.user or who.user)
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
        return await self._credentials.users.add(action.name)

    async def list_users(self, who: Identity, action: ListUsers) -> tuple[UserView, ...]:
        return await self._credentials.users.list()
