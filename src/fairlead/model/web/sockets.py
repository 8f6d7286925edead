"""Sockets as data: the protocol side of an open WebSocket is a `SocketProtocol`, which never waits.

The server calls it with each event (opened, a message) and applies the returned effects in that order. Calls never
overlap, and the protocol has no clock. Anything that takes time is a flow (`RunFlow`): a generator, like the handler of
a route, that yields steps, subscriptions and other effects, and receives the answer of each.

    def _interrupt(self, session: SessionId) -> Flow:
        try:
            reply = yield Interrupt(session=session)
        except AgentNotRunning:
            yield self._error("no run to interrupt")
        else:
            yield Write(self._frame(reply))
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from fairlead.model.auth import Identity, Scope
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import Cursor, FrameEncoder
from fairlead.model.ids import SessionId
from fairlead.model.web.broadcast import BroadcastChannel
from fairlead.model.web.requests import Head, Response, RouteBase, ServiceCall, Step


class Write(msgspec.Struct, frozen=True):
    """Ready frames, from `model.formats.frames`."""

    frames: bytes


class Subscribe(msgspec.Struct, frozen=True):
    """Subscribe this socket to a session, from now on or from a cursor; an existing subscription starts over.

    With a `view` the rows of that projection are sent, in addition to the log or alone. `keep`: an existing
    subscription continues at its position, with this encoder. Answered with `Subscribed`; events follow after the
    effects that the flow yields next, up to one that takes time. `lost` returns the last effects before
    the socket is closed because the session can no longer be read. `sent` is called with the frames of each send, and
    with the subscription's position after them."""

    session: SessionId
    cursor: Cursor | None
    variant: FrameEncoder
    view: str = ""
    keep: bool = False
    lost: "Callable[[FairleadError], Sequence[Effect]] | None" = None
    sent: Callable[[bytes, Cursor], None] | None = None


class Unsubscribe(msgspec.Struct, frozen=True):
    """After its answer, nothing of that session (or that projection of it) is sent."""

    session: SessionId
    view: str = ""


class Signal(msgspec.Struct, frozen=True):
    """A transient signal to the session's other subscribers. Raises Busy unless this socket subscribes to the session
    itself."""

    session: SessionId
    kind: str
    data: Any = None


class CloseSocket(msgspec.Struct, frozen=True):
    code: int
    reason: str


class SocketHandle(Protocol):
    """An open socket for its owner, who may write to it at any time. No call waits; after the end of the socket, calls
    have no effect."""

    def send(self, frames: bytes) -> None: ...
    def backlog(self) -> int:
        """Bytes that were sent here and that the operating system has not accepted yet."""

    def probe(self, answered: Callable[[], None]) -> None:
        """Call `answered` when the peer has received everything sent before; never, if the peer vanishes."""

    def pause(self) -> None:
        """Stop reading; data that was already read may still arrive."""

    def resume(self) -> None: ...
    def close(self, code: int, reason: str) -> None:
        """Close the socket. 1005 is a close without code and reason."""


class SocketOwner(Protocol):
    """The owner of a socket. `attached` is called first and `detached` last, each once; if the client left before the
    owner was attached, only `detached`. Its `reason` is the client's."""

    def attached(self, wire: SocketHandle) -> None: ...
    def received(self, data: bytes, text: bool) -> None: ...
    def drained(self) -> None:
        """The backlog is small again."""

    def detached(self, code: int, reason: str) -> None: ...


class AttachOwner(msgspec.Struct, frozen=True):
    """Give the socket to an owner that writes at any time (an agent's link, a proxy). From now on messages go to the
    owner, and do not count as commands. The messages in `early` came before; the owner receives them first."""

    owner: SocketOwner
    early: Sequence[tuple[bytes, bool]] = ()


class EnterChannel(msgspec.Struct, frozen=True):
    """Join a broadcast channel (`model.web.broadcast`) until the socket closes, in addition to all other traffic."""

    channel: BroadcastChannel


class HoldSubscriptions(msgspec.Struct, frozen=True):
    """The frames of the subscriptions that this socket begins from now on wait, and are sent in their order when `held`
    is false again. The subscriptions are live meanwhile, so that they send the same as they would have sent at once."""

    held: bool


class KeptState(Protocol):
    """State of a protocol that outlives its socket."""

    def forget(self) -> None:
        """It will not be recalled any more: release what it holds."""


class KeepState(msgspec.Struct, frozen=True):
    """Keep a state for the client's next socket: `RecallState` returns it to the same credential, also while this
    socket is open. It is forgotten some minutes after this socket has closed, or when another one is kept under its
    key. A socket keeps one."""

    key: str
    state: KeptState


class RecallState(ServiceCall["KeptState | None"], frozen=True):
    """-> the state that a socket of this credential keeps under this key, or kept until it closed a while ago"""

    key: str


class Pause(ServiceCall[None], frozen=True):
    """Answered after this time."""

    seconds: float


class RunFlow(msgspec.Struct, frozen=True):
    """Run a flow. Flows of one `lane` run one after another; a flow without a lane runs at once.

    `ahead`: the flow starts at once up to its first answer, which it receives after the flows before it have ended."""

    flow: "Flow"
    lane: str = ""
    ahead: bool = False


Effect = Write | Signal | CloseSocket | AttachOwner | EnterChannel | HoldSubscriptions | KeepState | RunFlow
"""Applied at once."""

Flow = Generator[Effect | Subscribe | Unsubscribe | Step, Any, None]
"""What a client's message causes, from top to bottom: each effect is yielded, and the value of the `yield` is its
answer. An error of a step is raised there; an error that the flow does not handle goes to `SocketProtocol.failed`. When
the client leaves, a flow that waits for a query or pauses is ended; commands take effect."""


class Subscribed(msgspec.Struct, frozen=True):
    session: SessionId
    verdict: Literal["ok", "gap"]
    log_id: str
    head: int


class SocketProtocol(Protocol):
    """The protocol state of one client on one socket."""

    def opened(self) -> Sequence[Effect]: ...
    def received(self, data: bytes, text: bool) -> Sequence[Effect]: ...
    def failed(self, error: FairleadError) -> Sequence[Effect]:
        """A flow did not handle this error."""

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        """A message arrived that must not be acted on, because of the rate limit."""


class SilentProtocol:
    """Ignores the client's messages and all errors; base of protocols that only send or only hand the socket over."""

    __slots__ = ()

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        return ()

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return ()

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return ()


class Handing(SilentProtocol):
    """Base of protocols that only hand their socket over (to a terminal, a change feed): gives it to the `SocketOwner`
    that a step returns. Messages before that are kept for the owner, up to `early` bytes; a subclass defines the
    response to a failed step (`failed`)."""

    def __init__(self, step: Step, early: int) -> None:
        self._step = step
        self._room = early
        self._kept: list[tuple[bytes, bool]] = []

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._hand_over()),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        """Keep messages until the owner has the socket; after that it receives them itself."""
        self._room -= len(data)
        if self._room >= 0:
            self._kept.append((data, text))
        return ()

    def _hand_over(self) -> Flow:
        owner: SocketOwner = yield self._step
        yield AttachOwner(owner, self._kept)


class Handshake(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a new `SocketProtocol`. `fresh` returns an unused UUID, `now` the time in milliseconds since
    1970."""

    head: Head
    who: Identity
    version: str
    fresh: Callable[[], str]
    now: Callable[[], int] = lambda: 0
    subprotocol: str = ""
    params: dict[str, str] = {}
    query: dict[str, str] = {}


class AcceptedSubprotocol(msgspec.Struct, frozen=True):
    """The result of a successful check before the upgrade: accept the client with this subprotocol (empty: none), and
    start with the effects of `begin` instead of those of `opened`."""

    begin: tuple[Effect, ...]
    subprotocol: str = ""


Check = Generator[Step, Any, Response | AcceptedSubprotocol | None]
"""Like a route's steps; it returns the rejection that the client gets instead of the upgrade, the accepted subprotocol,
or None."""


class SocketRoute(RouteBase, frozen=True, kw_only=True):
    """One WebSocket path. No socket is public: the gate decides before the upgrade, and `check` after the gate.

    `subprotocols` in the order of our preference, the first also for a client that requests none; a client that
    requests only others is rejected. A single-use ticket opens every socket except an agent's. `message_limit`: maximum
    bytes of one inbound message, if not the default. `compress_query`: a query parameter (`=1`) by which a client
    requests permessage-deflate; it must offer the extension as well."""

    access: Scope | Literal["agent"]
    open: Callable[[Handshake], SocketProtocol]
    subprotocols: tuple[str, ...] = ()
    message_limit: int | None = None
    compress_query: str = ""
    check: Callable[[Handshake], Check] | None = None
