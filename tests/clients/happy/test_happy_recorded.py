"""Every recorded session as envelopes. Each envelope passes the schema of Happy's own package (conftest.py)."""

from itertools import pairwise
from typing import Any

import pytest

from agents.claude.golden_claude import cases, inputs
from clients.happy.envelopes import MappedSession, assert_balanced, bare, map_envelopes
from fairlead_testing.happy_client import CUID


@pytest.mark.parametrize("case", cases())
@pytest.mark.rules("S001-047", "S001-048", "S001-049", "S001-051", "S001-052", "S001-108")
def test_a_recorded_session_is_balanced_and_its_envelopes_are_the_same_each_time(case: str) -> None:
    session = MappedSession().run(inputs(case))
    assert_balanced(session.envelopes)
    ids = [envelope["id"] for envelope in session.envelopes]
    assert len(set(ids)) == len(ids)
    assert all(CUID.fullmatch(name) for name in ids)
    times = [envelope["time"] for envelope in session.envelopes]
    assert all(earlier < later for earlier, later in pairwise(times))
    assert map_envelopes(inputs(case)) == session.envelopes
    assert all(CUID.fullmatch(envelope["turn"]) for envelope in session.envelopes if envelope["role"] == "agent")
    subagents = [envelope["subagent"] for envelope in session.envelopes if "subagent" in envelope]
    assert all(CUID.fullmatch(name) and not name.startswith("toolu") for name in subagents)


def _agent_envelopes(case: str) -> list[dict[str, Any]]:
    """Text and calls of the agent and its subagents, without turn bounds and envelopes that only the wire has."""
    shown = [item for item in map_envelopes(inputs(case)) if item["role"] == "agent"]
    return [item for item in shown if item["ev"]["t"] in ("text", "tool-call-start", "tool-call-end")]


@pytest.mark.parametrize(
    ("wire", "transcript"),
    [
        ("2.1.325-simple", "2.1.325-transcript-simple"),
        ("2.1.325-thinking", "2.1.325-transcript-thinking"),
        ("2.1.120-perm_deny", "2.1.120-transcript-perm_deny"),
        ("2.1.37-perm_allow_bash", "2.1.37-transcript-perm_allow_bash"),
        ("2.1.120-subagent", "2.1.120-transcript-subagent"),
        ("2.1.37-subagent", "2.1.37-transcript-subagent"),
        ("2.1.325-subagent", "2.1.325-transcript-subagent"),
    ],
)
@pytest.mark.rules("S001-002")
def test_the_same_records_give_the_same_envelopes_by_either_path(wire: str, transcript: str) -> None:
    """Ids included. The order may differ where the transcript's files were read one after the other. Usage differs
    because only the transcript has all of it. A subagent's task is the transcript's own record there."""

    def by_id(case: str) -> dict[str, Any]:
        envelopes = [item for item in _agent_envelopes(case) if item.get("claudeUuid") or item["ev"]["t"] != "text"]
        return {item["id"]: bare([item]) for item in envelopes}

    live, read = by_id(wire), by_id(transcript)
    shared = live.keys() & read.keys()
    assert {name: live[name] for name in shared} == {name: read[name] for name in shared}
    # Only a subagent's prompt may appear in one of the two alone: live, the gateway may have had to add it.
    for rest in live.keys() ^ read.keys():
        ((_, subagent, event),) = (live | read)[rest]
        assert subagent is not None and event["t"] == "text"


@pytest.mark.parametrize("case", [case for case in cases() if case.endswith("subagent")])
@pytest.mark.rules("S001-085")
def test_a_subagents_prompt_is_emitted_once(case: str) -> None:
    """2.1.37 and 2.1.120 send the prompt themselves, 2.1.325 does not, and every transcript has it."""
    envelopes = map_envelopes(inputs(case))
    first = next(item for item in envelopes if item["ev"]["t"] == "start")
    mine = [item for item in envelopes if item.get("subagent") == first["subagent"] and item["ev"]["t"] == "text"]
    prompts = [item for item in mine if item["ev"]["text"].startswith("SCRIPT:bashcmd")]
    assert len(prompts) == 1
    assert mine[0] == prompts[0]


TOLD_BY_CHOICE = {
    "local_command": "what a person typed beside the conversation",
    "local_command_output": "and what it said",
    "hook_response": "a hook that failed",
    "task_notification": "the real end of a subagent: its stop",
}


@pytest.mark.rules("S001-042")
def test_a_system_record_gives_no_envelope() -> None:
    """Covers every subtype in the recordings, except the few that are emitted by choice."""
    seen = set()
    for case in cases():
        session = MappedSession()
        for given in inputs(case):
            record = given.get("agent") or given.get("transcript") or {}
            fresh = session.add(given)
            if isinstance(record, dict) and record.get("type") == "system":
                seen.add(record["subtype"])
                assert record["subtype"] in TOLD_BY_CHOICE or fresh == [], (case, record["subtype"])
    assert len(seen) > 20
