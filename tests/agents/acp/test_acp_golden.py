"""The recorded traffic of real agents, and the events that it becomes (`FAIRLEAD_WRITE=1` writes them)."""

import json
import os
from pathlib import Path

import pytest

from agents.acp.acp_log import GOLDEN, AcpLog
from fairlead.model import events as ev

TRACES = sorted(GOLDEN.glob("*/*.txt"))


def name_of(trace: Path) -> str:
    return f"{trace.parent.name}-{trace.stem}"


@pytest.mark.parametrize("trace", TRACES, ids=name_of)
def test_the_events_of_recorded_traffic(trace: Path) -> None:
    log = AcpLog(trusts_titles=trace.parent.name == "gemini")
    log.replay(trace)
    written = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in log.written())
    expected = trace.with_suffix(".events.jsonl")
    if os.environ.get("FAIRLEAD_WRITE"):
        expected.write_text(written, "utf-8")
    assert expected.read_text("utf-8") == written


@pytest.mark.parametrize("trace", TRACES, ids=name_of)
def test_every_turn_and_call_of_recorded_traffic_ends(trace: Path) -> None:
    log = AcpLog()
    log.replay(trace)
    assert log.interpreter.turn is None
    events = log.events.values()
    started = [event.turn for event in events if isinstance(event, ev.TurnStarted)]
    assert started and started == [event.turn for event in events if isinstance(event, ev.TurnEnded)]
    called = [event.call for event in events if isinstance(event, ev.ToolCalled)]
    assert sorted(called) == sorted(event.call for event in events if isinstance(event, ev.ToolEnded))
    assert not [event for event in events if isinstance(event, ev.TextDelta | ev.ThinkingDelta)]
