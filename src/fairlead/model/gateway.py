"""The port between the server and the core: commands, queries and watching. `server` runs protocols against it."""

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
    """A client's place: a seq of the log, or an ordinal of a view. `log_id` empty: the client does not know it (its
    first subscription).

    What depends on the reader is here and never in its variant, which others share. `frame`: the last frame that it
    has, in a protocol that numbers the frames of an entry; `seq` is then before that entry. `context`: what a
    `Contextual` variant needs to know of the entries up to `seq`; that of a later place is as good."""

    seq: int
    log_id: str = ""
    frame: int = 0
    context: Any = None


class Sink(Protocol):
    """Where a watcher's bytes go. `send` never blocks; `backlog` is what it has not got rid of yet, in bytes.

    `fail`: nothing more will come, though it should, and why; the client is to notice and come again."""

    def send(self, data: bytes) -> None: ...
    def backlog(self) -> int: ...
    def fail(self, error: FairleadError) -> None: ...


class FrameEncoder(Protocol):
    """One encoding of a log: protocol and options. Equal variants are one: its bytes are made once for all watchers.

    So it has no memory. Make it a frozen struct: those are equal when their fields are, and cannot change. Two objects
    of any other class are never equal, and never share."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        """The entry's frames, joined, ready for the socket; empty where this protocol shows nothing."""
        ...

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        """A passing matter that is in no log: who is here, who types."""
        ...


class CatchUpEncoder(Protocol):
    """One watcher's reading of the log, from the place where it left off until it is live again. Nobody shares it: it
    may remember. That of a `Contextual` variant is `Contextual`."""

    def encode(self, session: SessionId, entry: Entry) -> bytes: ...


@runtime_checkable
class Contextual(Protocol):
    """A variant, or a reading, whose frames depend on what went before. It keeps none of that: the context is part of
    each watcher's place, an immutable value that the feed hands in and takes back. The first is None."""

    def step(self, context: Any, session: SessionId, entry: Entry) -> tuple[Any, bytes]:
        """The context after this entry, and the entry's frames."""
        ...


@runtime_checkable
class ResumableEncoder(Protocol):
    """A variant that tells a block that was streamed before only as far as the watcher lacks it.

    Who is live has had every piece, and `encode` goes by that. Who reads the log may have had some: the pieces are gone
    from it once the block is there."""

    def reading(self, position: int, frame: int) -> CatchUpEncoder:
        """For a watcher that was told everything up to `position`, and the frames up to `frame` (of `Cursor`), and is
        handed the entries that are left after it."""
        ...


class SubscriptionHandle(Protocol):
    """A running subscription. `verdict` gap: the cursor meant nothing here, the replay is from the first entry."""

    @property
    def verdict(self) -> Literal["ok", "gap"]: ...
    @property
    def log_id(self) -> str: ...
    @property
    def head(self) -> int: ...
    @property
    def position(self) -> int:
        """All up to here was sent."""
        ...

    @property
    def place(self) -> Cursor:
        """Where another watch goes on after this one."""
        ...

    def start(self) -> None:
        """Begin to send (after the caller has told its client the verdict)."""
        ...

    def drained(self) -> None:
        """The sink has room again."""
        ...

    def close(self) -> None: ...


class Gateway(Protocol):
    async def command(self, who: Identity, command: Command) -> Reply:
        """Durable when it returns. Checks that the credential's scopes allow the command."""
        ...

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
        """No cursor: live from the head on. Of a `view`: its rows instead of the log; places and head are ordinals."""
        ...

    def signal(self, who: Identity, session: SessionId, kind: str, data: Any) -> None:
        """Tell the session's other watchers a passing matter (typing)."""
        ...

    def export(self, who: Identity, session: SessionId) -> AsyncIterator[Entry]:
        """The whole log, for the exports; deltas that a block repeats are gone already."""
        ...
