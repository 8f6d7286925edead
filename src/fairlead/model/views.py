"""Projections: a client protocol's own numbered rows, made from a session's log. Pure; the core runs them.

A protocol that needs no state is a `gateway.FrameEncoder` over the log itself. A protocol that numbers without holes,
or whose frames depend on earlier entries, declares a `Projection`: a reducer over the entries. Each row is written once
to a derived table, under an ordinal that grows by one, before it is sent to a client. The reducer's checkpoint is
stored with the rows, so that a reconnect continues from there and never from the first entry. Everything in the table
can be made again from the log: rows may not depend on deltas, which a log that is read later no longer has.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, ProjectionRow
from fairlead.model.store import ReplaceRow as ReplaceRow


class NewRow(msgspec.Struct, frozen=True):
    """A row to store: it gets the next ordinal of its session and projection. `key`: a name by which it can be found (a
    uuid); it belongs to the first row that has it."""

    data: bytes
    key: str = ""


class Transient(msgspec.Struct, frozen=True):
    """Sent to live subscriptions between two rows, and not stored (pieces of a message that a row will repeat)."""

    data: bytes


Made = NewRow | ReplaceRow | Transient


class Reducer(Protocol):
    """The running reducer of one session. The same entries give the same rows whenever it runs."""

    def step(self, entry: Entry) -> Sequence[Made]: ...
    def snapshot(self) -> bytes: ...
    def restore(self, data: bytes) -> None: ...


@runtime_checkable
class Resumable(Protocol):
    """A reducer whose transient pieces add up (to the text of a message in progress) and that can emit them again."""

    def running(self, *, fresh: bool) -> Sequence[Transient]:
        """The pieces that a subscription with all rows needs before the next piece. `fresh` false: it was live before
        and lagged, so it may have some of them."""


M = TypeVar("M", bound=msgspec.Struct)


class MemoryReducer(Generic[M]):
    """Base of a reducer whose whole state is one struct, `_memory`."""

    def __init__(self, memory: M) -> None:
        self._memory = memory

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._memory)

    def restore(self, data: bytes) -> None:
        self._memory = msgspec.msgpack.decode(data, type=type(self._memory))


class Projection(Protocol):
    """`name` names the table; a projection that would make different rows from the same log needs another name."""

    @property
    def name(self) -> str: ...
    def fold(self, session: SessionId) -> Reducer: ...


class ReducerProjection(msgspec.Struct, frozen=True):
    """A projection whose reducer needs only the session."""

    name: str
    fold: Callable[[SessionId], Reducer]


ROW: Final = "row"
PASSING: Final = "passing"
"""Subscriptions to a projection use a `gateway.FrameEncoder` like those to the log: it receives each row as an entry
whose `seq` is the ordinal, whose `event` is the row's data and whose kind is `row`. A transient piece has the kind
`passing`, and the ordinal of the row before it."""


def row_entry(row: ProjectionRow) -> Entry:
    return Entry(row.ordinal, row.ordinal - 1, row.at, ROW, row.data)


def transient_entry(head: int, at: int, data: bytes) -> Entry:
    return Entry(head, head, at, PASSING, data)
