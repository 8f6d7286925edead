"""The store port itself."""

from collections.abc import Callable, Sequence
from typing import Protocol

from fairlead.model.ids import SessionId
from fairlead.model.store.documents import Documents
from fairlead.model.store.peers import Peers, Stop
from fairlead.model.store.types import (
    Batch,
    Checkpoint,
    ForkPoint,
    Lease,
    LogChange,
    Page,
    ProjectionState,
    ProjectionWrite,
    RowPage,
    SearchHit,
    SessionFilter,
    SessionPage,
    Summary,
)
from fairlead.model.usage_stats import UsageStats


class Store(Protocol):
    """Errors: Conflict, Fenced, OwnedElsewhere, Unavailable, NotFound, Damaged (all in `model.errors`)."""

    @property
    def node(self) -> str:
        """The name of this node, which its leases have."""

    @property
    def documents(self) -> Documents: ...

    @property
    def here(self) -> Documents:
        """Documents of this node alone (its processes, its folders). A store of one node has them in `documents`."""

    @property
    def peers(self) -> Peers: ...

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

    async def home(self, session: SessionId) -> str:
        """The node that owns the log or owned it last; empty: none has yet, or the store has one node."""

    async def owned_by(self, node: str) -> Sequence[SessionId]:
        """The sessions whose logs this node owns now."""

    # --- other nodes

    async def caught_up(self, session: SessionId, seq: int | None = None, timeout_s: float = 10.0) -> None:
        """Wait until reads here show the entry `seq`; None: everything that any node had acknowledged before this call.
        Unavailable if that takes too long. At once in a store of one node."""

    def follow(self, heard: Callable[[LogChange], None]) -> Stop:
        """Call `heard` on the loop for every change of a log that another node made, in the order of each log, after
        reads here show it."""

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
