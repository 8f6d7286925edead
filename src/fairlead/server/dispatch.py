"""Executes the steps of routes and socket protocols: commands and queries by the core, service calls by handlers."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

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


class _Removal(msgspec.Struct, frozen=True, omit_defaults=True):
    """`nodes` still have data of the user; empty while the user is being removed."""

    credentials: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


def _removal(value: Any) -> _Removal:
    # Earlier versions stored the credentials alone.
    return _Removal(tuple(value)) if isinstance(value, list) else msgspec.convert(value, _Removal)


@dataclass(frozen=True, kw_only=True)
class RemovalCleanup:
    """Notifies services that store data of a credential or a user when that credential or user is removed.

    The next user with the same name is a different person. If the gateway dies in between, it continues at its next
    start. Every node deletes its own data, as soon as it hears of the removal; one that is away, at its next start.
    """

    documents: Documents
    is_user: Callable[[str], bool]
    revoked: Sequence[Callable[[str], Awaitable[None]]]
    removed: Sequence[Callable[[str], Awaitable[None]]]
    node: str = ""
    nodes: Callable[[], Sequence[str]] = lambda: ("",)
    """The names of all nodes, with this one."""
    _tasks: TaskSet = field(default_factory=TaskSet)
    _forgetting: set[str] = field(default_factory=set)

    async def start(self) -> None:
        for name, value in (await self.documents.list(REMOVED_USERS)).items():
            removal = _removal(value)
            if removal.nodes:
                await self._forget(name, removal)
            elif self.is_user(name):
                # The gateway died before it removed the user.
                await self.documents.delete(REMOVED_USERS, name)
            else:
                await self._removed(name, removal.credentials)

    def follow(self) -> Callable[[], None]:
        """Delete the data of users that are removed on another node; the returned function ends it."""
        return self.documents.listen(REMOVED_USERS, self._on_removal)

    async def stop(self) -> None:
        await self._tasks.close()

    def _on_removal(self, name: str, value: Any) -> None:
        if value is not None:
            self._tasks.spawn(self._forget(name, _removal(value)))

    def with_cleanup(self, handlers: ServiceHandlers) -> ServiceHandlers:
        """Return the same handlers, with cleanup after revoking a credential and removing a user."""
        revoke, remove = handlers[RevokeCredential], handlers[RemoveUser]

        async def revoke_one(who: Identity, action: RevokeCredential) -> Any:
            view = await revoke(who, action)
            await self._forget_credential(action.id)
            return view

        async def remove_one(who: Identity, action: RemoveUser) -> Any:
            await self.start()
            if self.is_user(action.name):
                # Stored before the user is removed, so that a gateway that dies here finishes at its next start.
                await self.documents.put(REMOVED_USERS, action.name, msgspec.to_builtins(_Removal()))
            ended = await remove(who, action)
            await self._removed(action.name, ended)
            return ended

        return {**handlers, RevokeCredential: revoke_one, RemoveUser: remove_one}

    async def _removed(self, name: str, credentials: Sequence[str]) -> None:
        removal = _Removal(tuple(credentials), tuple(self.nodes()))
        # Not by the listener: the caller waits for the end.
        self._forgetting.add(name)
        try:
            await self.documents.put(REMOVED_USERS, name, msgspec.to_builtins(removal))
            await self._clean(name, removal)
        finally:
            self._forgetting.discard(name)

    async def _forget(self, name: str, removal: _Removal) -> None:
        if self.node in removal.nodes and name not in self._forgetting:
            self._forgetting.add(name)
            try:
                await self._clean(name, removal)
            finally:
                self._forgetting.discard(name)

    async def _clean(self, name: str, removal: _Removal) -> None:
        """Delete the data on this node."""
        for credential in removal.credentials:
            await self._forget_credential(credential)
        for notify in self.removed:
            await notify(name)
        await self._done(name)

    async def _done(self, name: str) -> None:
        """This node has nothing of the user any more; the last node deletes the document."""
        while True:
            value = await self.documents.get(REMOVED_USERS, name)
            if value is None:
                return
            removal = _removal(value)
            left = tuple(node for node in removal.nodes if node != self.node)
            new = msgspec.to_builtins(msgspec.structs.replace(removal, nodes=left)) if left else None
            if await self.documents.swap(REMOVED_USERS, name, new, value):
                return

    async def _forget_credential(self, credential: str) -> None:
        for notify in self.revoked:
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
