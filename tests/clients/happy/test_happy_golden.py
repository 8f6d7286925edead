"""Properties of the golden cases of Happy (`golden/cases.py`): each envelope passes the schema (conftest.py).

`example-1` to `-5` are the examples of the protocol's own description; docs/reference/happy.md lists what our output
adds. Their records are cases of the interpreter (`golden/claude/written-*`).
"""

import json

import pytest

from agents.claude.golden_claude import inputs
from clients.happy.envelopes import MappedSession, assert_balanced, bare, kinds
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.clients.happy.mapper import HappyReducer
from golden.cases import case_names, read_log

TASK = "cdbc6ff5ad64b06ccfa061c7"
LATE = "c23ee31a1af7cb8ba085e808"


def mapped(case: str) -> MappedSession:
    session = MappedSession()
    for entry in read_log("happy", case).entries:
        session.step(entry)
    return session


@pytest.mark.parametrize("case", case_names("happy"))
def test_everything_that_was_opened_is_closed(case: str) -> None:
    assert_balanced(mapped(case).envelopes)


@pytest.mark.rules(
    "S001-024", "S001-026", "S001-030", "S001-058", "S001-059", "S001-060", "S001-061", "S001-062", "S001-063"
)
@pytest.mark.rules("S001-005", "S001-009", "S001-064", "S001-065", "S001-100")
def test_example_1_a_turn_without_subagents() -> None:
    envelopes = mapped("example-1").envelopes
    assert bare(envelopes) == [
        ("agent", None, {"t": "turn-start"}),
        ("agent", None, {"t": "text", "text": "I will inspect auth files."}),
        (
            "agent",
            None,
            {
                "t": "tool-call-start",
                "call": "toolu_1",
                "name": "Bash",
                "title": "Bash call",
                "description": "Bash call",
                "args": {"command": "rg auth src"},
            },
        ),
        ("agent", None, {"t": "tool-call-end", "call": "toolu_1", "result": "src/auth/index.ts", "isError": False}),
        ("agent", None, {"t": "turn-end", "status": "completed"}),
    ]
    assert len({envelope["turn"] for envelope in envelopes}) == 1


@pytest.mark.rules("S001-028", "S001-050", "S001-066", "S001-067", "S001-090", "S001-092", "S001-093", "S001-094")
@pytest.mark.rules("S001-027", "S001-031", "S001-032", "S001-038", "S001-051")
def test_example_2_a_subagent_speaks_in_the_turn_of_the_main_thread() -> None:
    envelopes = mapped("example-2").envelopes
    assert bare(envelopes) == [
        ("agent", None, {"t": "turn-start"}),
        ("agent", TASK, {"t": "start", "title": "Find the files"}),
        ("agent", TASK, {"t": "text", "text": "Find the files"}),
        ("agent", TASK, {"t": "text", "text": "Subagent: found 3 files."}),
        ("agent", TASK, {"t": "stop"}),
        ("agent", None, {"t": "turn-end", "status": "completed"}),
    ]
    assert len({envelope["turn"] for envelope in envelopes}) == 1


@pytest.mark.rules("S001-029", "S001-069", "S001-070", "S001-071", "S001-073", "S001-074", "S001-096", "S001-097")
def test_example_3_a_child_that_comes_before_its_call_waits_for_it() -> None:
    session = MappedSession()
    child, call, end = inputs("written-example-3")
    assert session.add(child) == []
    assert [entry.kind for entry in session.entries] == ["record"], "its raw record is logged, without a meaning yet"
    waiting = session.interpreter.snapshot()
    assert b"toolu_late" in waiting and b"child before parent" in waiting
    assert bare(session.add(call)) == [
        ("agent", None, {"t": "turn-start"}),
        ("agent", LATE, {"t": "start", "title": "Inspect auth flow"}),
        ("agent", LATE, {"t": "text", "text": "Inspect auth flow"}),
        ("agent", LATE, {"t": "text", "text": "child before parent"}),
    ]
    assert kinds(session.add(end)) == ["stop", "turn-end"]


@pytest.mark.rules("S001-075", "S001-076", "S001-111")
def test_example_4_a_row_read_again_after_a_restart_is_emitted_once() -> None:
    first, again, _ = inputs("written-example-4")
    session = MappedSession()
    assert kinds(session.add(first)) == ["turn-start", "text"]
    interpreter, fold = session.interpreter.snapshot(), session.fold.snapshot()
    session.interpreter = ClaudeInterpreter(session.fold._session)
    session.interpreter.restore(interpreter)
    session.fold = HappyReducer(session.fold._session)
    session.fold.restore(fold)
    assert session.add(again) == []


@pytest.mark.rules("S001-077", "S001-078", "S001-079", "S001-080", "S001-081", "S001-082", "S001-086")
@pytest.mark.rules("S001-022", "S001-128", "S001-133")
def test_example_5_an_abort_ends_the_calls_then_the_subagents_then_the_turn() -> None:
    envelopes = mapped("example-5").envelopes
    interrupted = {"result": "[Request interrupted by user for tool use]", "isError": True}
    assert bare(envelopes)[-3:] == [
        ("agent", TASK, {"t": "tool-call-end", "call": "toolu_sc_1", **interrupted}),
        ("agent", TASK, {"t": "stop"}),
        ("agent", None, {"t": "turn-end", "status": "cancelled"}),
    ]
    assert len({envelope["turn"] for envelope in envelopes}) == 1
    assert bare(mapped("example-5-told-by-the-cli").envelopes) == bare(envelopes)


@pytest.mark.rules("S001-027", "S001-032", "S001-061")
def test_an_agent_tool_use_is_also_a_call_and_names_its_subagent() -> None:
    envelopes = mapped("agent-visible").envelopes
    started = envelopes[1]["ev"]
    subagent = started["args"].pop("sessionSubagent")
    assert started["args"] == {"description": "Inspect translations", "prompt": "Look at them", "mode": "plan"}
    assert started["title"] == started["description"] == "Inspect translations"
    assert bare(envelopes)[-3:] == [
        ("agent", subagent, {"t": "stop"}),
        ("agent", None, {"t": "tool-call-end", "call": "toolu_agent_1", "result": "done", "isError": False}),
        ("agent", None, {"t": "turn-end", "status": "completed"}),
    ]


@pytest.mark.rules("S001-095")
def test_a_task_without_recorded_work_is_still_emitted() -> None:
    envelopes = mapped("task-without-children").envelopes
    mine = [item for item in envelopes if item.get("subagent")]
    assert bare(mine) == [
        ("agent", TASK, {"t": "start", "title": "A job"}),
        ("agent", TASK, {"t": "text", "text": "Do it"}),
        ("agent", TASK, {"t": "stop"}),
    ]


def test_a_subagent_of_a_subagent_stops_at_its_own_result() -> None:
    envelopes = mapped("nested").envelopes
    outer, inner = (item["subagent"] for item in envelopes if item["ev"]["t"] == "start")
    stops = [item["subagent"] for item in envelopes if item["ev"]["t"] == "stop"]
    assert stops == [inner, outer]
    assert "tool-call-end" not in kinds(envelopes)
    places = [(item.get("subagent"), item["ev"].get("text")) for item in envelopes]
    assert places.index((inner, None)) < places.index((outer, "two it is"))


@pytest.mark.rules("S001-031", "S001-135")
def test_a_background_subagent_continues_in_a_separate_turn_and_keeps_its_name() -> None:
    envelopes = mapped("background").envelopes
    assert [(item["ev"]["t"], item.get("subagent") is not None) for item in envelopes] == [
        ("text", False),
        ("turn-start", False),
        ("tool-call-start", False),
        ("tool-call-end", False),
        ("text", False),
        ("turn-end", False),
        ("turn-start", False),
        ("start", True),
        ("text", True),
        ("text", True),
        ("stop", True),
        ("text", False),
        ("turn-end", False),
    ]
    assert envelopes[2]["ev"]["args"]["sessionSubagent"] == envelopes[8]["subagent"]


@pytest.mark.rules("S001-011", "S001-033", "S001-035", "S001-043")
def test_program_output_in_a_user_record_is_not_user_text() -> None:
    envelopes = mapped("local-commands").envelopes
    texts = [item["ev"]["text"] for item in envelopes if item["role"] == "user"]
    assert texts == ["And now?", "Go on"]
    services = [item["ev"]["text"] for item in envelopes if item["ev"]["t"] == "service"]
    assert services == ["/cost", "Total: 1 $"]
    statuses = [item["ev"]["status"] for item in envelopes if item["ev"]["t"] == "turn-end"]
    assert statuses == ["completed", "completed", "completed", "cancelled"]


@pytest.mark.parametrize("way", ["transcript", "wire"])
def test_text_next_to_a_tool_result_belongs_to_the_agent_and_its_turn(way: str) -> None:
    envelopes = mapped(f"beside-a-result-{way}").envelopes
    sent = next(one for one in envelopes if one["ev"].get("text") == "The tool also said this.")
    ends = [one for one in envelopes if one["ev"]["t"] == "turn-end"]
    assert (sent["role"], sent["turn"]) == ("agent", ends[0]["turn"]) and len(ends) == 1
    assert "Tool loaded." not in json.dumps(envelopes), "what a search for tools says to the model is nothing to tell"


def test_the_shell_mode_of_the_cli_becomes_service_messages_without_tags() -> None:
    envelopes = mapped("shell-mode").envelopes
    assert [one["ev"]["text"] for one in envelopes if one["ev"]["t"] == "service"] == ["! ls -la", "a.txt\nb.txt"]
    assert [one["ev"]["text"] for one in envelopes if one["role"] == "user"] == ["And now?"]


def test_an_assistants_summary_of_a_compaction_is_not_emitted() -> None:
    assert "A summary of all this." not in json.dumps(mapped("compact-summary-of-the-assistant").envelopes)


def test_the_only_waiting_task_accepts_a_first_row_with_a_different_prompt() -> None:
    """Only at the end of the input: until then the row may belong to a call that was not read yet."""
    envelopes = mapped("task-in-other-words").envelopes
    inside = [one["ev"].get("text") for one in envelopes if one.get("subagent") == TASK and one["ev"]["t"] == "text"]
    assert inside == ["Search the docs", "Search all of the docs, please", "Found it."]
    assert [one["ev"]["text"] for one in envelopes if one["role"] == "user"] == ["go"]
