"""Executes the steps of routes and socket protocols: commands and queries by the core, service calls by handlers."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairlead.auth.api.credentials import RemoveUser, RevokeCredential
from fairlead.model import commands
from fairlead.model.auth import Identity
from fairlead.model.gateway import Gateway
from fairlead.model.scopes import check_scopes
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceCall, ServiceHandlers, Step
from fairlead.system.tasks import TaskSet

T = TypeVar("T")

NO_HANDLERS: Final[ServiceHandlers] = {}

REMOVED_USERS: Final = "leaving"
"""Document space of removed users whose data may not be completely deleted yet."""


@dataclass(frozen=True)
class RemovalCleanup:
    """Notifies services that store data of a credential or a user when that credential or user is removed.

    The next user with the same name is a different person. If the gateway dies in between, it continues at its next
    start.
    """

    _documents: Documents
    _is_user: Callable[[str], bool]
    _revoked: Sequence[Callable[[str], Awaitable[None]]]
    _removed: Sequence[Callable[[str], Awaitable[None]]]

    async def start(self) -> None:
        for name, credentials in (await self._documents.list(REMOVED_USERS)).items():
            if self._is_user(name):
                await self._documents.delete(REMOVED_USERS, name)
            else:
                await self._forget(name, credentials)

    def with_cleanup(self, handlers: ServiceHandlers) -> ServiceHandlers:
        """Return the same handlers, with cleanup after revoking a credential and removing a user."""
        revoke, remove = handlers[RevokeCredential], handlers[RemoveUser]

        async def revoke_one(who: Identity, action: RevokeCredential) -> Any:
            view = await revoke(who, action)
            await self._forget_credential(action.id)
            return view

        async def remove_one(who: Identity, action: RemoveUser) -> Any:
            await self.start()
            if self._is_user(action.name):
                # Stored before the user is removed, so that a gateway that dies here finishes at its next start.
                await self._documents.put(REMOVED_USERS, action.name, [])
            ended = await remove(who, action)
            await self._documents.put(REMOVED_USERS, action.name, list(ended))
            await self._forget(action.name, ended)
            return ended

        return {**handlers, RevokeCredential: revoke_one, RemoveUser: remove_one}

    async def _forget(self, name: str, credentials: Sequence[str]) -> None:
        for credential in credentials:
            await self._forget_credential(credential)
        for notify in self._removed:
            await notify(name)
        await self._documents.delete(REMOVED_USERS, name)

    async def _forget_credential(self, credential: str) -> None:
        for notify in self._revoked:
            await notify(credential)


class Dispatcher:
    def __init__(self, gateway: Gateway, handlers: ServiceHandlers) -> None:
        self.gateway = gateway
        self._handlers = handlers
        self.tasks = TaskSet()
        """Work that outlives the connection that asked for it."""

    async def dispatch(self, who: Identity, step: Step, more: ServiceHandlers = NO_HANDLERS) -> Any:
        if isinstance(step, ServiceCall):
            handler = more.get(type(step)) or self._handlers[type(step)]
            return await handler(who, step)
        if isinstance(step, commands.CommandBase):
            # The core checks too; here the check holds for every implementation of the port.
            check_scopes(who, step)
            return await self.gateway.command(who, step)
        return await self.gateway.ask(who, step)

    async def drive(self, who: Identity, steps: Generator[Step, Any, T], more: ServiceHandlers = NO_HANDLERS) -> T:
        """Drive a route's generator to its response. An error of a step is raised inside the generator, which may
        catch it. `more`: additional handlers for this request alone."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self.dispatch(who, step, more)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            response: T = end.value
            return response
