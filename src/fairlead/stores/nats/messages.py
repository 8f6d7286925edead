"""The messages of a session's chain: every message is accepted only after the one before it. Pure.

The header `Nats-Expected-Last-Subject-Sequence` is the condition of a message, and is stored with it: it names the
message before it. `Fl-Nonce` names one call, whose sender may not have received the answer. `Fl-Part` is `i/n` if a
body is too large for one message.
"""

from typing import Final

import msgspec

from fairlead.model.store import Batch, Checkpoint, StoredReply, Summary

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
NONCE: Final = "Fl-Nonce"
PART: Final = "Fl-Part"
VERSION: Final = "Fl-V"
SPOKEN: Final = 1
"""The version of the messages that this program writes, and the highest that it reads."""


class Claim(msgspec.Struct, frozen=True, tag="claim", array_like=True):
    """A new owner; the epoch is the sequence of this message. `parent` is the log id of the log that it is forked
    from at `base`."""

    node: str
    run: str
    log_id: str
    parent: str = ""
    base: int = 0


class Append(msgspec.Struct, frozen=True, tag="append", array_like=True):
    """`files`: by seq, the objects that have an event or a record that is too large for a message."""

    node: str
    epoch: int
    head: int
    batch: Batch
    files: dict[int, tuple[str | None, str | None]] = {}


class Release(msgspec.Struct, frozen=True, tag="release", array_like=True):
    node: str
    epoch: int


class Fold(msgspec.Struct, frozen=True, tag="fold", array_like=True):
    """Everything before this message is in the object `blob`. `node` is the owner (empty: none), `home` the last."""

    node: str
    epoch: int
    home: str
    blob: str
    head: int


class Erase(msgspec.Struct, frozen=True, tag="erase", array_like=True):
    """A tombstone. `kept`: an object with the rows that forks still show; empty if there are none."""

    log_id: str
    summary: Summary
    kept: str = ""


class Mend(msgspec.Struct, frozen=True, tag="mend", array_like=True):
    """The whole log of a node whose database has more than the stream, as the object `blob`."""

    node: str
    epoch: int
    home: str
    blob: str
    head: int


Op = Claim | Append | Release | Fold | Erase | Mend


class LogRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of the table `entries`."""

    seq: int
    prev: int
    epoch: int
    at: int
    kind: str
    event: bytes | None
    origin: str
    raw: bytes | None
    event_file: str | None = None
    raw_file: str | None = None


class WholeLog(msgspec.Struct, frozen=True):
    """A log as one object."""

    log_id: str
    session: str
    parent: str
    base: int
    forked_at: int
    rows: list[LogRow]
    checkpoints: list[Checkpoint] = []
    replies: list[StoredReply] = []
    summary: Summary | None = None


class ChainMessage(msgspec.Struct, frozen=True):
    """A message as a follower receives it. `prev` is None without a condition: no node of ours sent it."""

    seq: int
    session: str
    prev: int | None
    op: Op | None


encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Op).decode
_decode_log: Final = msgspec.msgpack.Decoder(WholeLog).decode


def decode(body: bytes) -> Op | None:
    """The message; None if the body is not one."""
    try:
        found: Op = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found


def decode_log(data: bytes) -> WholeLog:
    return _decode_log(data)
