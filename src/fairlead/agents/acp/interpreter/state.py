"""The state of ACP's interpreter: plain data, so that a snapshot is its encoding. Nothing grows with a session."""

from typing import Any, Final

import msgspec

BLOCK_CHARACTERS: Final = 1 << 20
"""A longer block is ended, and another begins: an unfinished block is part of the snapshot."""
CALLS_OPEN: Final = 1024
OUTPUT_CHARACTERS: Final = 1 << 16
"""How much of a terminal's output a call keeps: its end."""
MESSAGES_KEPT: Final = 256


class AcpBlock(msgspec.Struct):
    """The block that the agent is writing. `marks` are its deltas: (seq, characters up to the delta's end)."""

    kind: str
    name: str
    message: str
    index: int
    text: str = ""
    marks: list[tuple[int, int]] = []


class AcpCall(msgspec.Struct):
    """An open call: the fields of its `tool_call`, with all updates merged. `emitted`: its event was emitted.
    `denied`: the reason, if it was denied; then the agent may never mention it again."""

    fields: dict[str, Any] = {}
    name: str = ""
    emitted: bool = False
    denied: str = ""
    output: str = ""
    note: str = ""


class AcpTurn(msgspec.Struct):
    """`steps` counts the records of the turn that had events: their events are named by it. `messages` are the agent's
    messages in this turn with the number of their blocks; `current` is the one that it writes."""

    id: str
    message: str
    cancelled: bool = False
    steps: int = 0
    messages: dict[str, int] = {}
    current: str = ""
    text: str = ""


class AcpState(msgspec.Struct):
    process: str = ""
    steps: int = 0
    """The records outside turns that had events, counted for their names."""
    trusts_titles: bool = False
    ready: dict[str, Any] = {}
    turn: AcpTurn | None = None
    block: AcpBlock | None = None
    calls: dict[str, AcpCall] = {}
    todos: list[dict[str, str]] = []
    window: int = 0
    cost: float = 0.0
    cost_before: float = 0.0
    compacting: bool = False
