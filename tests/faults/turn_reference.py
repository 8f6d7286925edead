"""Turns of an undisturbed session, to compare others with: equal but for ids, times and the way they were streamed."""

import re
from collections.abc import Sequence
from typing import Any

from faults.log_checks import DELTAS, Line

NOT_COMPARED = frozenset({"seq", "prev", "at", "id", "marks", "session", "agent_session", "duration_ms", "api_ms"})
"""Ids and times; `marks` depends on the batches in which a text was read."""
_BY_TIME = frozenset({*DELTAS, "tool.progress"})
"""Events whose number depends on the time that something took."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?:call|msg)_[0-9a-f]{24}|t[0-9a-z]{23}")


def turn_of(stored: Sequence[Line], message: str) -> list[Line]:
    """The events of the turn that a message started, without those that depend on time; ids are replaced by their
    order."""
    turn = next(line["turn"] for line in stored if line["type"] == "user.message" and line["message"] == message)
    known: dict[str, str] = {}
    lines = (line for line in stored if line.get("turn") == turn and line["type"] not in _BY_TIME)
    return [_plain({key: line[key] for key in line if key not in NOT_COMPARED}, known) for line in lines]


def _plain(value: Any, known: dict[str, str]) -> Any:
    match value:
        case str():
            return _ID.sub(lambda found: known.setdefault(found[0], f"<{len(known)}>"), value)
        case dict():
            return {key: _plain(each, known) for key, each in value.items() if key not in NOT_COMPARED}
        case list():
            return [_plain(each, known) for each in value]
        case _:
            return value
