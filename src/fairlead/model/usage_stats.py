"""Usage statistics: cost and activity of sessions, counted from their logs. Types only; a store counts.

Each entry counts once, at its time, whatever happened to its session later: spent money stays counted. A fork counts
only its own entries.
"""

from typing import Any

import msgspec


class CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of one model in one project on one day. `day` is `2026-11-15`; `project` is a folder."""

    day: str
    project: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost_usd: float


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that ended on one day in one project; `failed` and `cancelled` are among `turns`."""

    day: str
    project: str
    turns: int
    failed: int
    cancelled: int
    duration_ms: int


class ToolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Finished calls of one tool; `total_ms` is from call to end, including the wait for a person. `denied`: by a
    person, a rule or a mode."""

    tool: str
    calls: int
    failed: int
    interrupted: int
    denied: int
    total_ms: int


class LimitWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's last report about one of its limits, and its time; `info` is the agent's data."""

    kind: str
    at: int
    info: dict[str, Any]


class UsageStats(msgspec.Struct, frozen=True, kw_only=True):
    """`spent` and `turns` by day, ascending; `tools` most used first; `limits` are independent of the time span."""

    since: int
    until: int
    spent: tuple[CostRow, ...] = ()
    turns: tuple[TurnRow, ...] = ()
    tools: tuple[ToolUsage, ...] = ()
    limits: tuple[LimitWindow, ...] = ()
