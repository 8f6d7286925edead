"""The interpreter's state: plain data, so that a snapshot is its encoding. No behaviour except keeping it bounded.

Rule: nothing here grows with the length of a session. The data of a turn is dropped with the turn; data that must
outlive it (seen ids, ended calls) is kept only for the last few thousand entries.
"""

import hashlib
from typing import Any, Final

import msgspec

RECORDS_SEEN: Final = 2048
"""More than the CLI's own buffer of 1000 messages, which 2.1.120 resends completely at every reconnect."""
STREAMED_SEEN: Final = 1024
CALLS_SEEN: Final = 1024
MESSAGES_KEPT: Final = 64
THREADS_KEPT: Final = 256
CALLS_OPEN: Final = 4096
"""Far above any real turn. Beyond it the oldest entries are dropped, so that no agent can fill our memory."""
STREAMS_OPEN: Final = 64
PIECES_OPEN: Final = 1024
HELD_RECORDS: Final = 256
HELD_BYTES: Final = 1 << 20
ORPHANS_KEPT: Final = 64
ANCESTRY_KEPT: Final = 4096
"""How many sidechain rows keep their thread for later rows that name them as their parent."""


class SeenSet(msgspec.Struct):
    """Recently seen ids, as hashes, in two generations: at least the last `limit`, at most twice as many."""

    young: set[int] = set()
    old: set[int] = set()

    def __contains__(self, name: str) -> bool:
        key = _hash(name)
        return key in self.young or key in self.old

    def add(self, name: str, limit: int) -> None:
        if len(self.young) >= limit:
            self.old, self.young = self.young, set()
        self.young.add(_hash(name))


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class OpenTurn(msgspec.Struct):
    """`final`: the turn's last answer was seen, but not its result yet. `error`: the kind of error, if that answer was
    an error. `stopped`: a hook has reported its end; its last row may still be on its way."""

    id: str
    cancelled: bool = False
    final: bool = False
    error: str = ""
    stopped: bool = False


class PendingPrompt(msgspec.Struct):
    """A prompt that is being typed into the agent's terminal and is not in the transcript yet."""

    message: str
    text: str


class OpenCall(msgspec.Struct):
    """An open tool call; `thread` is the call whose subagent made it, empty for the main thread."""

    name: str
    thread: str = ""
    plan: str = ""


class OpenSubagent(msgspec.Struct):
    """An open subagent, keyed by the call that started it. `noted`: its task's end status, if it came before its
    result."""

    thread: str = ""
    background: bool = False
    noted: str = ""


class OpenTask(msgspec.Struct):
    """Work that the CLI calls a task: a subagent or a shell."""

    call: str = ""
    background: bool = False
    about: str = ""


class StreamedBlock(msgspec.Struct):
    """A content block while the model writes it. `marks` are the deltas emitted so far, each as (seq, characters up to
    its end). `emitted`: the whole block was emitted."""

    kind: str
    call: str = ""
    name: str = ""
    length: int = 0
    checksum: int = 0
    """Checksum of the text streamed so far, by which the whole block is matched."""
    marks: list[tuple[int, int]] = []
    emitted: bool = msgspec.field(default=False, name="told")


class MessageStream(msgspec.Struct):
    """A message while the model writes it. `kept` are the seqs of its stored records that are not deltas; `torn`: a
    part of the stream was lost."""

    message: str
    pieces: dict[int, StreamedBlock] = {}
    kept: list[int] = []
    stop: str = ""
    over: bool = False
    torn: bool = False


class DeferredRecord(msgspec.Struct):
    """A record whose thread is not known yet."""

    raw: bytes
    source: str
    origin: str


class UnresolvedRecords(msgspec.Struct):
    """Records that were emitted in the main thread because their subagent was unknown: their messages and calls, and
    their own names (`rows`)."""

    messages: list[str] = []
    calls: list[str] = []
    rows: list[str] = []


class CostBaseline(msgspec.Struct):
    """The running totals of a process at its last result; `..._before` are the totals of the previous process."""

    cost: float = 0.0
    api_ms: float = 0.0
    models: dict[str, dict[str, float]] = {}
    cost_before: float = 0.0
    api_before: float = 0.0
    models_before: dict[str, dict[str, float]] = {}


class InterpreterState(msgspec.Struct):
    phase: str = "idle"
    turn: OpenTurn | None = None
    typed: PendingPrompt | None = None
    ready: dict[str, Any] = {}
    mode: str = ""
    compacting: bool = False
    calls: dict[str, OpenCall] = {}
    subagents: dict[str, OpenSubagent] = {}
    threads: dict[str, str] = {}
    """Ended subagents: call to parent thread. They may send output again."""
    agents: dict[str, str] = {}
    """The CLI's own ids of subagents, each with the call that started it."""
    began: dict[str, str] = {}
    """The turn of each subagent's call: the subagent's transcript rows belong to it, whenever they are read."""
    prompts: dict[str, str] = {}
    """Calls whose subagent is not linked yet, each with the prompt that the subagent's first row must have."""
    roots: dict[str, str] = {}
    """Subagents (the CLI's own ids) that wait for a call, each with the prompt of that call."""
    ancestry: dict[str, str] = {}
    """Sidechain rows (uuid) and their threads, for rows whose thread only their parent determines."""
    tasks: dict[str, OpenTask] = {}
    streams: dict[str, MessageStream] = {}
    messages: dict[str, list[int]] = {}
    """The indexes of the emitted blocks of each message."""
    held: dict[str, list[DeferredRecord]] = {}
    held_bytes: int = 0
    orphans: dict[str, UnresolvedRecords] = {}
    """By the key under which they were held: if their call comes later, they are assigned to its thread."""
    block_hashes: dict[str, list[int]] = msgspec.field(default_factory=dict, name="said")
    """Hashes of the emitted blocks of each message: a transcript may contain a block twice."""
    base: CostBaseline = msgspec.field(default_factory=CostBaseline)
    records: SeenSet = msgspec.field(default_factory=SeenSet)
    streamed: SeenSet = msgspec.field(default_factory=SeenSet)
    ended: SeenSet = msgspec.field(default_factory=SeenSet)
    anonymous: int = 0
    expecting: dict[str, str] = {}
    """Stored stream records of the last step that wait for their seq: event id to thread."""
