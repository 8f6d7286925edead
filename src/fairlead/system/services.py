"""Services: capabilities of the gateway that clients use by service calls.

A room declares its services in a module `services` (`SERVICES`, functions that build one each); other packages declare
theirs as entry points of the group `fairlead.services`. All are built, started and stopped in one loop.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from fairlead.model.gateway import Gateway
from fairlead.model.store import Store
from fairlead.model.web.requests import ServiceHandlers
from fairlead.system.clock import Clock

T = TypeVar("T")


async def _do_nothing(*_: Any) -> None:
    pass


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway needs of a service. `stops_first`: it is stopped before the agents are, not after them.

    `forget_user` and `forget_credential` delete the data of a removed user or revoked credential: the next user with
    the same name is a different person."""

    handlers: ServiceHandlers = {}
    start: Callable[[], Awaitable[None]] = _do_nothing
    stop: Callable[[], Awaitable[None]] = _do_nothing
    forget_user: Callable[[str], Awaitable[None]] = _do_nothing
    forget_credential: Callable[[str], Awaitable[None]] = _do_nothing
    stops_first: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class ServiceContext:
    """What a service may be built from: the ports that all share, and settings and parts by their class.

    `resolve_folder` resolves a path and raises an error if it lies outside the allowed roots."""

    store: Store
    clock: Clock
    gateway: Gateway
    resolve_folder: Callable[[str], str]
    _parts: list[Any] = field(default_factory=list)

    def add(self, part: T) -> T:
        self._parts.append(part)
        return part

    def get(self, kind: type[T]) -> T:
        found: T = next(part for part in self._parts if isinstance(part, kind))
        return found


ServiceFactory = Callable[[ServiceContext], Service]
