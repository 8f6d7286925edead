"""The interpreter's memory: plain data, so that a snapshot is its encoding. No behaviour beyond keeping it bounded.

Rule: nothing here grows with the length of a session. What belongs to a turn goes with it; what must outlive it
(ids seen, calls that are over) is kept for the last few thousand only.
"""

import hashlib
from typing import Any, Final, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")

RECORDS_SEEN: Final = 2048
"""More than the CLI's own buffer of 1000 messages, which 2.1.120 sends again whole at every reconnect."""
STREAMED_SEEN: Final = 1024
CALLS_SEEN: Final = 1024
MESSAGES_KEPT: Final = 64
THREADS_KEPT: Final = 256
CALLS_OPEN: Final = 4096
"""Far above any real turn: past it the oldest are forgotten, so that no agent can fill our memory."""
STREAMS_OPEN: Final = 64
PIECES_OPEN: Final = 1024
HELD_RECORDS: Final = 256
HELD_BYTES: Final = 1 << 20
ORPHANS_KEPT: Final = 64
ANCESTRY_KEPT: Final = 4096
"""Rows of sidechains whose thread is remembered for those that name them as their parent."""


class SeenSet(msgspec.Struct):
    """Ids seen lately, as hashes, in two generations: at least the last `limit`, at most twice as many."""

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


def trim(table: dict[K, V], limit: int) -> None:
    """Forget the older half of a table that has outgrown its limit."""
    if len(table) > limit:
        for key in list(table)[: limit // 2]:
            del table[key]


class OpenTurn(msgspec.Struct):
    """`final`: the answer that ends it was seen, though no result yet. `error`: the agent said it as an error.
    `stopped`: a hook has told that it is over; its last row may still be on its way."""

    id: str
    cancelled: bool = False
    final: bool = False
    error: str = ""
    stopped: bool = False


class PendingPrompt(msgspec.Struct):
    """A prompt on its way into the agent's terminal: the transcript has not shown it yet."""

    message: str
    text: str


class OpenCall(msgspec.Struct):
    """An open tool call; `thread` is the call whose subagent made it, empty for the main thread."""

    name: str
    thread: str = ""
    plan: str = ""


class OpenSubagent(msgspec.Struct):
    """An open subagent, by the call that started it. `noted`: how its task ended, before its result came."""

    thread: str = ""
    background: bool = False
    noted: str = ""


class OpenTask(msgspec.Struct):
    """Work that the CLI calls a task: a subagent or a shell."""

    call: str = ""
    background: bool = False
    about: str = ""


class StreamedBlock(msgspec.Struct):
    """A content block while the model writes it. `marks` are the deltas told so far: (seq, characters up to it)."""

    kind: str
    call: str = ""
    name: str = ""
    length: int = 0
    checksum: int = 0
    """Of the text streamed so far: a block is recognised by it."""
    marks: list[tuple[int, int]] = []
    told: bool = False


class MessageStream(msgspec.Struct):
    """A message while it is written. `kept` are the seqs of its records that are no deltas; `torn`: some of it was
    lost on the way."""

    message: str
    pieces: dict[int, StreamedBlock] = {}
    kept: list[int] = []
    stop: str = ""
    over: bool = False
    torn: bool = False


class DeferredRecord(msgspec.Struct):
    """A record whose parent is not known yet."""

    raw: bytes
    source: str
    origin: str


class UnresolvedRecords(msgspec.Struct):
    """Records that were told in the main thread, since nobody knew whose they are: what they said, and their names."""

    messages: list[str] = []
    calls: list[str] = []
    rows: list[str] = []


class CostBaseline(msgspec.Struct):
    """The running totals of a process as of its last result; `..._before` are those of the process before it."""

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
    """Subagents that are over: call to parent thread; they may speak again."""
    agents: dict[str, str] = {}
    """The CLI's own ids of subagents, to the call that started each."""
    began: dict[str, str] = {}
    """The turn in which each subagent's call was made: what its transcript's rows belong to, whenever they are read."""
    prompts: dict[str, str] = {}
    """Calls whose subagent is not linked yet, each with the prompt that its first row must have."""
    roots: dict[str, str] = {}
    """Subagents (the CLI's own ids) that wait for a call with this prompt."""
    ancestry: dict[str, str] = {}
    """Rows of sidechains (uuid) and their threads, where nothing but the parent tells whose a row is."""
    tasks: dict[str, OpenTask] = {}
    streams: dict[str, MessageStream] = {}
    messages: dict[str, list[int]] = {}
    """The blocks told of each message."""
    held: dict[str, list[DeferredRecord]] = {}
    held_bytes: int = 0
    orphans: dict[str, UnresolvedRecords] = {}
    """By the key under which they were held: should their call come, they go where they belong."""
    said: dict[str, list[int]] = {}
    """What the blocks told of each message say, as hashes: a transcript may have a block twice."""
    base: CostBaseline = msgspec.field(default_factory=CostBaseline)
    records: SeenSet = msgspec.field(default_factory=SeenSet)
    streamed: SeenSet = msgspec.field(default_factory=SeenSet)
    ended: SeenSet = msgspec.field(default_factory=SeenSet)
    anonymous: int = 0
    expecting: dict[str, str] = {}
    """Kept stream records of the last step that wait for their seq: event id to thread."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(InterpreterState)


def encode(state: InterpreterState) -> bytes:
    return _encoder.encode(state)


def decode(data: bytes) -> InterpreterState:
    return _decoder.decode(data)
