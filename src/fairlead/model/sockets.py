"""Sockets as data: a protocol's side of an open WebSocket is a Conversation, which never waits for anything.

The server calls it with what happened (opened, a message, an answer) and does what it returns, in that order. It
runs in one place at a time and has no clock: whatever takes time is a `Run` whose answer comes back by its tag.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from fairlead.model.auth import Identity, Scope
from fairlead.model.broadcast import BroadcastChannel
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import Cursor, FrameEncoder
from fairlead.model.ids import SessionId
from fairlead.model.requests import Head, Refused, Response, Step, check_token_header


class Write(msgspec.Struct, frozen=True):
    """Ready frames, from `model.frames`."""

    frames: bytes


class Perform(msgspec.Struct, frozen=True):
    """Do a step and bring its answer back. Steps begin in the order given and go on side by side; the answers of
    one `lane` come back in the order of their steps."""

    tag: Any
    step: Step
    lane: str


class Subscribe(msgspec.Struct, frozen=True):
    """Watch a session on this socket, from now on or from a cursor; one that is watched already begins anew.

    With a `view` its rows are watched, beside the log or alone. `keep`: one that is watched goes on where it is, told
    by this variant. Answered with `Subscribed`; events follow when the conversation's answer to that has been written.
    """

    tag: Any
    session: SessionId
    cursor: Cursor | None
    variant: FrameEncoder
    view: str = ""
    keep: bool = False


class Unsubscribe(msgspec.Struct, frozen=True):
    """Answered with None, after which nothing of that session (or that view of it) comes any more."""

    tag: Any
    session: SessionId
    view: str = ""


class Signal(msgspec.Struct, frozen=True):
    """A passing matter for the session's other watchers. Fails unless this socket watches the session itself; a
    success has no answer."""

    tag: Any
    session: SessionId
    kind: str
    data: Any = None


class CloseSocket(msgspec.Struct, frozen=True):
    code: int
    reason: str


class SocketHandle(Protocol):
    """An open socket in somebody's hand: it may be written to at any time. No call waits; after its end none does
    anything."""

    def send(self, frames: bytes) -> None: ...
    def backlog(self) -> int:
        """Bytes that were sent and that the system has not taken yet."""
        ...

    def probe(self, answered: Callable[[], None]) -> None:
        """`answered` is called when the peer has taken all that was sent before; never, if it goes without a word."""
        ...

    def pause(self) -> None:
        """Read no more; what was read already may still come."""
        ...

    def resume(self) -> None: ...
    def hang_up(self, code: int, reason: str) -> None:
        """1005 is an end without a code and a reason."""
        ...


class SocketOwner(Protocol):
    """Who holds a socket. `attached` comes first and `detached` last, each once."""

    def attached(self, wire: SocketHandle) -> None: ...
    def received(self, data: bytes) -> None: ...
    def drained(self) -> None:
        """The backlog has become small again."""
        ...

    def detached(self, code: int) -> None: ...


class AttachOwner(msgspec.Struct, frozen=True):
    """Give the socket to somebody who writes when it likes (an agent's link). Messages go there from now on, and are
    not counted as commands."""

    holder: SocketOwner


class SocketProxy(Protocol):
    """Who passes a socket on to somebody else: a holder that is told each message's kind and the end's words too.

    `detached` comes last, once: also where the client left before there was anything to attach. `reason` is the
    client's own."""

    def attached(self, wire: SocketHandle) -> None: ...
    def received(self, data: bytes, text: bool) -> None: ...
    def drained(self) -> None: ...
    def detached(self, code: int, reason: str) -> None: ...


class AttachProxy(msgspec.Struct, frozen=True):
    """Give the socket to a relay, as `Attach` gives it to a holder."""

    relay: SocketProxy


class EnterChannel(msgspec.Struct, frozen=True):
    """Be told from now on what is told to all in a hall (`model.halls`), beside everything else, until the socket's
    end."""

    hall: BroadcastChannel


Do = Write | Perform | Subscribe | Unsubscribe | Signal | CloseSocket | AttachOwner | AttachProxy | EnterChannel


class Subscribed(msgspec.Struct, frozen=True):
    session: SessionId
    verdict: Literal["ok", "gap"]
    log_id: str
    head: int


class SocketProtocol(Protocol):
    """One client on one socket."""

    def opened(self) -> Sequence[Do]: ...
    def received(self, data: bytes, text: bool) -> Sequence[Do]: ...
    def answered(self, tag: Any, answer: Any) -> Sequence[Do]: ...
    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]: ...
    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        """A message came that is not to be acted on, because there are too many."""
        ...


class Handshake(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation begins with. `fresh` draws an unused UUID, `now` is the time, in milliseconds since 1970."""

    head: Head
    who: Identity
    version: str
    fresh: Callable[[], str]
    now: Callable[[], int] = lambda: 0
    subprotocol: str = ""
    params: dict[str, str] = {}
    query: dict[str, str] = {}


class AcceptedSubprotocol(msgspec.Struct, frozen=True):
    """What was found out before the upgrade: let the client in with this subprotocol (empty: none), and begin with
    this in place of what the conversation would say."""

    begin: tuple[Do, ...]
    subprotocol: str = ""


Check = Generator[Step, Any, Response | AcceptedSubprotocol | None]
"""As a route's steps: it ends with the refusal that the client gets in place of the upgrade, with what was agreed, or
with None."""


class SocketRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One WebSocket path. No socket is public: the gate decides before the upgrade, and after it `check`.

    `subprotocols` in the order of our preference, the first also for a client that asks for none; a client that
    asks only for others is refused. `token_query`, `token_header`, `accounts`, `query_first` and `refused` as of a
    route; a single-use ticket opens every socket, but one of an agent. `message_limit`: bytes of one inbound message,
    where it is to be another than usual.
    `compress_query`: a name of the query by which (`=1`) a client asks for permessage-deflate; it must offer it as
    well."""

    path: str
    access: Scope | Literal["agent"]
    name: str
    open: Callable[[Handshake], SocketProtocol]
    about: str = ""
    subprotocols: tuple[str, ...] = ()
    token_query: str = ""
    token_header: str = ""
    accounts: bool = False
    query_first: bool = False
    refused: Refused | None = None
    message_limit: int | None = None
    compress_query: str = ""
    check: Callable[[Handshake], Check] | None = None

    def __post_init__(self) -> None:
        check_token_header(self.name, self.token_header)
