"""Doing what handlers and conversations ask: commands and queries go to the core, actions to their performers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final, TypeVar

from fairlead.auth.api import accounts
from fairlead.auth.api.credentials import RevokeCredential
from fairlead.model import commands
from fairlead.model.auth import Identity
from fairlead.model.gateway import Gateway
from fairlead.model.requests import ServiceCall, Step
from fairlead.model.scopes import check_scopes
from fairlead.model.store import Documents
from fairlead.sessions.api.folders import Admin, InspectFolder, ListTrusted, TrustFolder, UntrustFolder

T = TypeVar("T")

Performer = Callable[[Identity, Any], Awaitable[Any]]
Performers = Mapping[type[ServiceCall], Performer]

NOTHING_MORE: Final[Performers] = {}


def trust_performers(admin: Admin) -> Performers:
    """The actions on trusted folders, by the core's port."""

    async def listed(who: Identity, action: ListTrusted) -> Any:
        return await admin.trusted(who)

    async def inspected(who: Identity, action: InspectFolder) -> Any:
        return await admin.inspect(who, action.path)

    async def trusted(who: Identity, action: TrustFolder) -> Any:
        return await admin.trust(who, action.path, action.digest)

    async def untrusted(who: Identity, action: UntrustFolder) -> Any:
        return await admin.untrust(who, action.path)

    return {
        ListTrusted: listed,
        InspectFolder: inspected,
        TrustFolder: trusted,
        UntrustFolder: untrusted,
    }


LEAVING: Final = "leaving"
"""Documents that name the users who were removed and of whom something may still be there."""


class Leaving:
    """Those who keep something for a credential or for a user are told when it is valid no more: the next user who has
    that name is somebody else. A gateway that dies in between goes on with it at its next start."""

    def __init__(
        self,
        documents: Documents,
        is_user: Callable[[str], bool],
        revoked: Sequence[Callable[[str], Awaitable[None]]],
        removed: Sequence[Callable[[str], Awaitable[None]]],
    ) -> None:
        self._documents = documents
        self._is_user = is_user
        self._revoked = revoked
        self._removed = removed

    async def start(self) -> None:
        for name, credentials in (await self._documents.list(LEAVING)).items():
            if self._is_user(name):
                await self._documents.delete(LEAVING, name)
            else:
                await self._forget(name, credentials)

    def performers(self, performers: Performers) -> Performers:
        """The same, and whatever is to be forgotten is."""
        revoke, remove = performers[RevokeCredential], performers[accounts.RemoveUser]

        async def revoke_one(who: Identity, action: RevokeCredential) -> Any:
            view = await revoke(who, action)
            await self._forget_credential(action.id)
            return view

        async def remove_one(who: Identity, action: accounts.RemoveUser) -> Any:
            await self.start()
            if self._is_user(action.name):
                # Before the user is gone: a gateway that dies here knows what to do.
                await self._documents.put(LEAVING, action.name, [])
            ended = await remove(who, action)
            await self._documents.put(LEAVING, action.name, list(ended))
            await self._forget(action.name, ended)
            return ended

        return {**performers, RevokeCredential: revoke_one, accounts.RemoveUser: remove_one}

    async def _forget(self, name: str, credentials: Sequence[str]) -> None:
        for credential in credentials:
            await self._forget_credential(credential)
        for tell in self._removed:
            await tell(name)
        await self._documents.delete(LEAVING, name)

    async def _forget_credential(self, credential: str) -> None:
        for tell in self._revoked:
            await tell(credential)


class Dispatcher:
    def __init__(self, gateway: Gateway, performers: Performers) -> None:
        self.gateway = gateway
        self._performers = performers
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that outlives the connection that asked for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self) -> None:
        """Nothing that was spawned is under way any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def do(self, who: Identity, step: Step, more: Performers = NOTHING_MORE) -> Any:
        if isinstance(step, ServiceCall):
            performer = more.get(type(step)) or self._performers[type(step)]
            return await performer(who, step)
        if isinstance(step, commands.CommandBase):
            # The core checks too; here it holds whatever stands behind the port.
            check_scopes(who, step)
            return await self.gateway.command(who, step)
        return await self.gateway.ask(who, step)

    async def run(self, who: Identity, steps: Generator[Step, Any, T], more: Performers = NOTHING_MORE) -> T:
        """Drive a handler to its response. What a step raises is raised inside the handler, which may catch it.
        `more`: what can be done for this request alone."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self.do(who, step, more)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            response: T = end.value
            return response
