"""The port between the server and the core: commands, queries and subscriptions. `server` runs protocols against it."""

from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.commands import Command, Reply
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.queries import Query
from fairlead.model.store import Entry


class Cursor(msgspec.Struct, frozen=True):
    """A client's position: a seq of the log, or an ordinal of a projection. `log_id` empty: the client does not know it
    (its first subscription).

    State of one reader is here and never in its encoder, which other readers share. `frame`: the last frame that the
    client has, in a protocol that numbers the frames of an entry; `seq` is then before that entry. `context`: the state
    that a `Contextual` encoder derived from the entries up to `seq`; the context of a later position serves as well."""

    seq: int
    log_id: str = ""
    frame: int = 0
    context: Any = None


class Sink(Protocol):
    """Destination of a subscription's bytes. `send` never blocks; `backlog` is the number of unsent bytes.

    `fail`: the subscription broke off with this error; the client must notice and subscribe again."""

    def send(self, data: bytes) -> None: ...
    def backlog(self) -> int: ...
    def fail(self, error: FairleadError) -> None: ...


class FrameEncoder(Protocol):
    """One encoding of a log: protocol and options. Subscriptions with equal encoders share the bytes, encoded once.

    So an encoder has no state. Make it a frozen struct: two of them are equal when their fields are, and cannot change.
    Two objects of any other class are never equal, and never share."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        """The entry's frames, joined, ready for the socket; empty where this protocol shows nothing."""

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        """Encode a transient signal that is in no log: presence, typing."""


class EncoderWithoutSignals(msgspec.Struct, frozen=True):
    """Base of the encoder of a protocol that has no frames for signals."""

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return b""


class CatchUpEncoder(Protocol):
    """Encoder of one subscription while it reads the log, from its position until it is live again. It is not shared,
    so it may have state. The catch-up encoder of a `Contextual` encoder is `Contextual`."""

    def encode(self, session: SessionId, entry: Entry) -> bytes: ...


@runtime_checkable
class Contextual(Protocol):
    """An encoder, or catch-up encoder, whose frames depend on earlier entries. It stores no state: the context is part
    of each subscription's position, an immutable value that the hub passes in and stores. The first one is None."""

    def step(self, context: Any, session: SessionId, entry: Entry) -> tuple[Any, bytes]:
        """The context after this entry, and the entry's frames."""


@runtime_checkable
class ResumableEncoder(Protocol):
    """An encoder that sends only the missing rest of a block that was already streamed.

    A live subscription has received every piece, and `encode` relies on that. A subscription that reads the log may
    have received some of them: the pieces are gone from the log once the block is in it."""

    def catch_up(self, position: int, frame: int) -> CatchUpEncoder:
        """An encoder for a subscription that has received all entries up to `position`, and the frames up to `frame`
        (see `Cursor`). It encodes the entries that remain after that."""


class SubscriptionHandle(Protocol):
    """A running subscription. `verdict` gap: the cursor was not valid here, so the replay is from the first entry."""

    @property
    def verdict(self) -> Literal["ok", "gap"]: ...
    @property
    def log_id(self) -> str: ...
    @property
    def head(self) -> int: ...
    @property
    def position(self) -> int:
        """Everything up to this seq or ordinal was sent."""

    @property
    def cursor(self) -> Cursor:
        """The cursor from which another subscription can continue this one."""

    def start(self) -> None:
        """Start sending (after the caller has sent its client the verdict)."""

    def drained(self) -> None:
        """The sink has room again."""

    def close(self) -> None: ...


class Gateway(Protocol):
    async def command(self, who: Identity, command: Command) -> Reply:
        """Durable when it returns. Checks that the credential's scopes allow the command."""

    async def ask(self, who: Identity, query: Query) -> Any: ...

    async def watch(
        self,
        who: Identity,
        session: SessionId,
        cursor: Cursor | None,
        variant: FrameEncoder,
        sink: Sink,
        view: str = "",
    ) -> SubscriptionHandle:
        """Subscribe. No cursor: live from the head on. With `view`: the rows of that projection instead of the log;
        positions and head are ordinals."""

    def signal(self, who: Identity, session: SessionId, kind: str, data: Any) -> None:
        """Send a transient signal (typing) to the session's other subscribers."""

    def export(self, who: Identity, session: SessionId) -> AsyncIterator[Entry]:
        """The whole log, for the exports; deltas that a block repeats are gone already."""


class GatewayWrapper:
    """A gateway that passes everything on to another one; base of those that do more."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def command(self, who: Identity, command: Command) -> Reply:
        return await self.gateway.command(who, command)

    async def ask(self, who: Identity, query: Query) -> Any:
        return await self.gateway.ask(who, query)

    async def watch(
        self,
        who: Identity,
        session: SessionId,
        cursor: Cursor | None,
        variant: FrameEncoder,
        sink: Sink,
        view: str = "",
    ) -> SubscriptionHandle:
        return await self.gateway.watch(who, session, cursor, variant, sink, view)

    def signal(self, who: Identity, session: SessionId, kind: str, data: Any) -> None:
        self.gateway.signal(who, session, kind, data)

    def export(self, who: Identity, session: SessionId) -> AsyncIterator[Entry]:
        return self.gateway.export(who, session)
