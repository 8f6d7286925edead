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

from fairlead.model.store.documents import HERE, DocumentHeard, Documents
from fairlead.model.store.peers import Alone, Channel, Node, NodeInfo, Peers, Stop
from fairlead.model.store.port import Store
from fairlead.model.store.types import (
    TRANSCRIPT,
    Batch,
    Checkpoint,
    Entry,
    ForkPoint,
    Lease,
    LogChange,
    Origin,
    OutputPosition,
    Page,
    ProjectionRow,
    ProjectionState,
    ProjectionWrite,
    ReducerCheckpoint,
    ReplaceRow,
    RowPage,
    SearchHit,
    SessionFilter,
    SessionPage,
    StoredOutput,
    StoredReply,
    Summary,
    entry_of_line,
    event_line,
)

__all__ = [
    "HERE",
    "TRANSCRIPT",
    "Alone",
    "Batch",
    "Channel",
    "Checkpoint",
    "DocumentHeard",
    "Documents",
    "Entry",
    "ForkPoint",
    "Lease",
    "LogChange",
    "Node",
    "NodeInfo",
    "Origin",
    "OutputPosition",
    "Page",
    "Peers",
    "ProjectionRow",
    "ProjectionState",
    "ProjectionWrite",
    "ReducerCheckpoint",
    "ReplaceRow",
    "RowPage",
    "SearchHit",
    "SessionFilter",
    "SessionPage",
    "Stop",
    "Store",
    "StoredOutput",
    "StoredReply",
    "Summary",
    "entry_of_line",
    "event_line",
]
