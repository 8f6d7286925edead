"""Operation of the gateway by an admin: its state, draining it, stopping it."""

from typing import Literal

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall


class WorkingSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session with a turn or background work. `work` describes it in words. `since`: when its last turn began, in
    milliseconds since 1970."""

    session: SessionId
    title: str
    work: tuple[str, ...]
    since: int


class GatewayState(msgspec.Struct, frozen=True, kw_only=True):
    """`draining`: no turn is started, and the gateway stops when no session works. `working`: the sessions that it
    waits for; a process that a program lends by the shim does not count, since it outlives the gateway.

    `agents` and `terminals` (of people) are the numbers of running processes, `kept` that of the agents that a keeper
    holds, and `queued` that of messages that wait in sessions. `on_stop`: what SIGTERM does with kept agents and with
    terminals: leave them to the next gateway, or end them."""

    state: Literal["running", "draining", "stopping"]
    working: tuple[WorkingSession, ...]
    agents: int
    kept: int
    terminals: int
    queued: int
    on_stop: Literal["detach", "end"]


class ReadGatewayState(ServiceCall["GatewayState"], frozen=True):
    """-> `GatewayState`"""


class DrainGateway(ServiceCall["GatewayState"], frozen=True):
    """Start no more turns; end the agents and stop when no session works. `cancel` takes it back. -> `GatewayState`"""

    cancel: bool = False


class StopGateway(ServiceCall["GatewayState"], frozen=True):
    """Stop the gateway. `agents`: also end its agents and terminals; otherwise they are treated as by SIGTERM.
    -> `GatewayState`, before the gateway has stopped"""

    agents: bool = False
