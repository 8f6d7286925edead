"""The store port: the session logs, their ownership, and small documents.

Vocabulary
    log       the ordered entries of one session, one writer
    seq       an entry's number; given by the writer, grows strictly, may have holes; 0 is before the first
    prev      the seq of the entry before it: a reader that last saw `s` and gets `prev > s` has a hole
    log_id    names the storage that holds these seqs; another one makes every old seq meaningless
    head      the last seq of a log
    epoch     fencing token of an ownership; larger is later
    ordinal   a row's number in a derived table; grows by one, from 1

An adapter does NOT guarantee that reads see an append of another process at once, any order between sessions, or that
entries named in `drop` are gone before `append` returns.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.usage_stats import UsageStats

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


class Documents(Protocol):
    """Small documents outside the logs (credentials, trusted folders, children): JSON values by namespace and key."""

    async def get(self, space: str, key: str) -> Any | None: ...
    async def put(self, space: str, key: str, value: Any) -> None: ...
    async def add(self, space: str, key: str, value: Any) -> bool:
        """Put the value unless the key exists; exactly one of many callers gets True."""

    async def delete(self, space: str, key: str) -> bool:
        """True for exactly one of many callers, as a single-use code needs."""

    async def list(self, space: str) -> dict[str, Any]: ...


class Store(Protocol):
    """Errors: Conflict, Fenced, OwnedElsewhere, Unavailable, NotFound, Damaged (all in `model.errors`)."""

    @property
    def documents(self) -> Documents: ...

    # --- the log

    async def append(self, lease: Lease, batch: Batch, expected_head: int) -> int:
        """Store the batch if `lease` still owns the log and its head is `expected_head`; return the new head.

        Durable when it returns. Repeating the same call after Unavailable stores nothing twice. Seqs of the
        batch must be ascending and above the head (Conflict otherwise). One append in flight per session is
        the caller's duty. A batch without entries writes the rest and leaves the head. Cancelling the call
        does not undo it: the outcome is then unknown."""

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> Page:
        """Up to `limit` entries with seq > after, ascending; at least one if there is any, else until `max_bytes`.

        A fork's pages begin in its parent. NotFound for a session without a log."""

    async def tail(self, session: SessionId, before: int | None, limit: int, kinds: Sequence[str] = ()) -> Page:
        """The last `limit` entries with seq < before (None: from the end), ascending; only `kinds` if given."""

    async def find(self, session: SessionId, key: str) -> bytes | None:
        """The reply stored for an idempotency key."""

    async def checkpoint(self, session: SessionId, name: str) -> Checkpoint | None: ...

    # --- derived tables: the rows of projections, all of which can be made again from the log

    async def write_projection(self, session: SessionId, view: str, derived: ProjectionWrite, expected: int) -> None:
        """Store the rows if the projection has been reduced up to `expected` and no further; Conflict otherwise.

        Ordinals follow the projection's last one, without a hole. A key belongs to the first row that has it. Durable
        when it returns; repeating the same call stores nothing twice. NotFound for a session without a log."""

    async def projection_state(self, session: SessionId, view: str) -> ProjectionState: ...

    async def rows(self, session: SessionId, view: str, after: int, limit: int, max_bytes: int = 4 << 20) -> RowPage:
        """Up to `limit` rows with ordinal > after, ascending; at least one if there is any, else until `max_bytes`."""

    async def rows_tail(
        self, session: SessionId, view: str, before: int | None, limit: int, max_bytes: int = 4 << 20
    ) -> RowPage:
        """The last rows with ordinal < before (None: from the end), ascending; bounded like `rows`."""

    async def row_of(self, session: SessionId, view: str, key: str) -> int | None:
        """The ordinal of the row that has `key`."""

    # --- ownership

    async def claim(self, session: SessionId, fork: ForkPoint | None = None) -> tuple[Lease, str, int]:
        """Become the owner; return (lease, log_id, head). Creates the log if it does not exist, as a fork if given.

        OwnedElsewhere while another live node owns it. The same node claiming again gets a later epoch. Exactly one of
        many claimers wins."""

    async def release(self, lease: Lease) -> None: ...

    # --- lists

    async def sessions(self, wanted: SessionFilter, seen_by: str | None = None) -> SessionPage:
        """Sessions by `updated`, newest first, without tombstones. `seen_by`: only sessions that this user sees, by the
        rule of `auth.Identity.sees`; None: all."""

    async def summary(self, session: SessionId) -> Summary | None:
        """The summary of a session; for a deleted one, its tombstone."""

    async def list_found(self, found: Sequence[Summary], gone: Sequence[SessionId] = ()) -> None:
        """Add sessions without a log (state `transcript`) to the lists, and remove those that are `gone`.

        A session that has a log or a tombstone, or is the `agent_session` of another one, stays as it is."""

    async def session_of(self, agent_session: str) -> SessionId | None:
        """The session with this agent session id, whether or not it equals the session's own id."""

    async def search(
        self, words: str, limit: int = 20, session: SessionId | None = None, seen_by: str | None = None
    ) -> Sequence[SearchHit]:
        """Full-text search over messages, best hit first; the last appended entries may not be indexed yet. `seen_by`:
        only in sessions that this user sees."""

    async def usage_stats(self, since: int, until: int, offset: int = 0, seen_by: str | None = None) -> UsageStats:
        """Usage statistics of the log entries between two times, by days in a time zone `offset` minutes east of
        Greenwich; the last appended entries may not be counted yet. `seen_by`: only of sessions that this user sees."""

    async def wait_indexed(self) -> None:
        """Wait until the index and the counts have caught up with the log as it is now."""

    async def erase(self, session: SessionId) -> None:
        """Remove a log's entries and keep its summary as a tombstone. Entries that a fork shows stay until the fork is
        erased."""

    async def close(self) -> None: ...
