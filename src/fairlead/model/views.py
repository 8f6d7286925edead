"""Views with a memory: a client protocol's own numbered rows, made from a session's log. Pure; the core runs them.

A view that needs no memory is a `gateway.Variant` over the log itself. One that counts without holes, or whose frames
depend on what went before, declares a `View`: a fold over the entries. What it makes is written once to a derived
table, under an ordinal that grows by one, before anybody is sent it; the fold's memory is stored with it, so that
a reconnect reads on from there and never from the first entry. Everything in the table can be made again from the log:
rows may not depend on deltas, which a log that is read later no longer has.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, ProjectionRow, RowPage


class NewRow(msgspec.Struct, frozen=True):
    """To be kept: it gets the next ordinal of its session and view. `key`: a name by which it can be found (a uuid);
    the first row of a key has it."""

    data: bytes
    key: str = ""


class ReplaceRow(msgspec.Struct, frozen=True):
    """The row of `key` is from now on this one, in its old place. Who has been sent the old one is not told."""

    key: str
    data: bytes


class Transient(msgspec.Struct, frozen=True):
    """For those who watch now, between the rows around it; not kept (pieces of a message that a row will repeat)."""

    data: bytes


Made = NewRow | ReplaceRow | Transient


class Reducer(Protocol):
    """One session's running fold. The same entries give the same rows whenever it runs."""

    def step(self, entry: Entry) -> Sequence[Made]: ...
    def snapshot(self) -> bytes: ...
    def restore(self, data: bytes) -> None: ...


@runtime_checkable
class Resumable(Protocol):
    """A fold whose passing pieces add up (to the text of a message that is being written) can tell them again."""

    def running(self, *, anew: bool) -> Sequence[Transient]:
        """What somebody who is level with the rows needs before the next piece. `anew` false: it watched before and
        lagged, so that it may have some of it."""
        ...


class Projection(Protocol):
    """`name` names the table; one that would make other rows of the same log needs another name."""

    @property
    def name(self) -> str: ...
    def fold(self, session: SessionId) -> Reducer: ...


ROW: Final = "row"
PASSING: Final = "passing"
"""A view's watchers are served by a `gateway.Variant` like those of the log: it is handed each row as an entry whose
`seq` is the ordinal, whose `event` is the row's data and whose kind is `row`. What passes has the kind `passing`, and
the ordinal of the row before it."""


def row_entry(row: ProjectionRow) -> Entry:
    return Entry(row.ordinal, row.ordinal - 1, row.at, ROW, row.data)


def passing_entry(head: int, at: int, data: bytes) -> Entry:
    return Entry(head, head, at, PASSING, data)


__all__ = [
    "PASSING",
    "ROW",
    "Made",
    "NewRow",
    "Projection",
    "ProjectionRow",
    "Reducer",
    "ReplaceRow",
    "Resumable",
    "RowPage",
    "Transient",
    "passing_entry",
    "row_entry",
]
