"""The types of the store port."""

import re
from typing import Final, Literal

import msgspec

from fairlead.model.ids import SessionId

Origin = Literal["agent", "gateway", "transcript", ""]
"""Source of `raw`: the agent's output, the gateway's line to it, its transcript; empty: an event of the gateway,
without a record."""


class Entry(msgspec.Struct, frozen=True):
    """An encoded event, and the record that it came from, byte for byte. An append ignores `prev`: it depends on the
    entries that the log has when it is read."""

    seq: int
    prev: int
    at: int
    kind: str
    event: bytes
    origin: Origin = ""
    raw: bytes | None = None


def event_line(session: SessionId, entry: Entry) -> bytes:
    """An event as clients receive it: the stored JSON with seq, prev and session in front."""
    return b'{"seq":%d,"prev":%d,"session":"%s",%s' % (entry.seq, entry.prev, session.encode(), entry.event[1:])


class _EventHead(msgspec.Struct):
    type: str
    at: int


_EVENT_LINE: Final = re.compile(rb'{"seq":(\d+),"prev":(\d+),"session":"[^"]*",')
_read_head: Final = msgspec.json.Decoder(_EventHead).decode


def entry_of_line(line: bytes) -> Entry:
    """The entry of an `event_line`, without its record. The seq is read from the front: an event may have a field of
    that name too."""
    front = _EVENT_LINE.match(line)
    if front is None:
        raise ValueError("not an event line")
    event = b"{" + line[front.end() :]
    head = _read_head(event)
    return Entry(int(front[1]), int(front[2]), head.at, head.type, event)


class Page(msgspec.Struct, frozen=True):
    log_id: str
    entries: tuple[Entry, ...]
    head: int


class Lease(msgspec.Struct, frozen=True):
    session: SessionId
    node: str
    epoch: int


class ForkPoint(msgspec.Struct, frozen=True):
    """The origin of a forked log, which shows `parent`'s entries up to and including `seq` as its own first entries."""

    parent: SessionId
    seq: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A session's data in lists, written with the entries that changed it."""

    session: SessionId
    title: str = ""
    cwd: str = ""
    agent: str = ""
    agent_session: str = ""
    state: str = "idle"
    model: str = ""
    mode: str = ""
    archived: bool = False
    deleted: bool = False
    created: int = 0
    updated: int = 0
    turns: int = 0
    pending: int = 0
    queued: int = 0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    parent: SessionId | None = None
    first_prompt: str = ""
    branch: str = ""
    owner: str = ""
    """The user who created it; empty: the user was removed, and only admins see it."""
    shared: tuple[str, ...] = ()
    """The other users who see and steer it, or `auth.EVERYBODY`."""
    node: str = ""
    """The node that owns the log or owned it last, which has the session's files; empty in a store of one node. The
    store sets it."""


TRANSCRIPT = "transcript"
"""`Summary.state` of a session that is known only from its agent's file: it has no log until a client opens it."""


class OutputPosition(msgspec.Struct, frozen=True):
    """How much of the output of a process at the keeper is stored; `offset` is the end of a line. `recall`: lines
    before it that the driver needs again after a restart of the gateway, such as open requests; None if they have not
    changed."""

    offset: int
    recall: tuple[bytes, ...] | None = None


class StoredOutput(msgspec.Struct, frozen=True):
    """The last stored position of a process, with its lines to recall."""

    offset: int = 0
    recall: tuple[bytes, ...] = ()


class Checkpoint(msgspec.Struct, frozen=True):
    """State as of `seq`: reading continues from there instead of from the first entry."""

    name: str
    seq: int
    data: bytes


class ProjectionRow(msgspec.Struct, frozen=True):
    """A row of a projection. `seq` is the entry that it was made from, `at` that entry's time."""

    ordinal: int
    seq: int
    at: int
    data: bytes
    key: str = ""


class ReplaceRow(msgspec.Struct, frozen=True):
    """New data for the row of `key`, at its ordinal; without effect if there is no such row. Clients that received the
    old row are not notified."""

    key: str
    data: bytes


class ReducerCheckpoint(msgspec.Struct, frozen=True):
    """A reducer's state after the entry `seq`, when the projection had `head` rows."""

    seq: int
    head: int
    data: bytes


class ProjectionState(msgspec.Struct, frozen=True):
    """Progress of a projection: its rows up to `head` are all rows of the log up to `seq`."""

    seq: int = 0
    head: int = 0
    memory: ReducerCheckpoint | None = None


class ProjectionWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one `derive`: stored together or not at all. `made` in the order of the entries."""

    made: tuple[ProjectionRow | ReplaceRow, ...]
    seq: int
    head: int
    memory: ReducerCheckpoint | None = None
    """None: the stored checkpoint stays."""


class RowPage(msgspec.Struct, frozen=True):
    """`head` is the last ordinal; `seq` is the last entry that was reduced."""

    rows: tuple[ProjectionRow, ...]
    head: int
    seq: int
    log_id: str = ""


class StoredReply(msgspec.Struct, frozen=True):
    """The reply to a command that carried an idempotency key."""

    key: str
    reply: bytes


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one append: stored together or not at all."""

    entries: tuple[Entry, ...]
    drop: tuple[int, ...] = ()
    summary: Summary | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    replies: tuple[StoredReply, ...] = ()


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """`words` match title and first prompt; `before` is the cursor of the last row of the page before.

    `transcripts` false leaves out the sessions that were never opened here."""

    words: str = ""
    archived: bool | None = False
    cwd: str = ""
    state: str = ""
    before: str = ""
    limit: int = 50
    transcripts: bool = True


class SessionPage(msgspec.Struct, frozen=True):
    sessions: tuple[Summary, ...]
    next: str = ""


class SearchHit(msgspec.Struct, frozen=True):
    """An entry found by full-text search; `snippet` has the words between `\\x02` and `\\x03`. `seq` is 0 for a text of
    a transcript that was never opened: it is in no log yet."""

    session: SessionId
    seq: int
    at: int
    kind: str
    snippet: str
    title: str = ""


class LogChange(msgspec.Struct, frozen=True):
    """A change of a log by another node, which local reads show."""

    session: SessionId
    head: int
    kinds: tuple[str, ...] = ()
    """The kinds of the new entries."""
    node: str = ""
    """The owner after the change; empty: released or erased."""
    erased: bool = False
