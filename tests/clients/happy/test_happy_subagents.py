"""The mapper's rules one by one: which subagent a record belongs to, on the wire and in transcripts."""

from typing import Any

import pytest

from clients.happy.envelopes import (
    MappedSession,
    assert_balanced,
    assistant,
    bare,
    call,
    kinds,
    over,
    prompt,
    result,
    row,
    text,
)
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id

P1, P2 = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def subagent_of(made: list[dict[str, Any]]) -> set[Any]:
    return {envelope.get("subagent") for envelope in made}


@pytest.mark.rules("S001-037", "S001-039", "S001-040", "S001-053", "S001-055", "S001-095")
def test_a_root_is_matched_by_its_prompt_and_later_rows_belong_to_the_subagent() -> None:
    session = MappedSession()
    asked = {"prompt": " Search the docs ", "description": "Search TypeScript docs"}
    assert session.add(row("assistant", [call("Task", "task-1", **asked)], "a-1", stop="tool_use")) == []
    root = session.add(row("user", "Search the docs", "u-2", isSidechain=True, parentUuid=None))
    mine = subagent_id("task-1")
    assert bare(root) == [
        ("agent", None, {"t": "turn-start"}),
        ("agent", mine, {"t": "start", "title": "Search TypeScript docs"}),
        ("agent", mine, {"t": "text", "text": "Search the docs"}),
    ]
    child = session.add(row("assistant", [text("found")], "a-2", isSidechain=True, parentUuid="u-2", stop=None))
    assert bare(child) == [("agent", mine, {"t": "text", "text": "found"})]
    end = session.add(row("user", [result("task-1")], "u-3"))
    assert bare(end) == [("agent", mine, {"t": "stop"})]


@pytest.mark.rules("S001-039", "S001-055")
def test_a_root_given_as_blocks_matches_too() -> None:
    session = MappedSession().run([row("assistant", [call("Task", "task-1", prompt="count")], "a-1", stop="tool_use")])
    root = session.add(row("user", [text("count")], "u-2", isSidechain=True, parentUuid=None))
    assert root[-1]["subagent"] == subagent_id("task-1")
    assert root[-1]["role"] == "agent"


@pytest.mark.rules("S001-041", "S001-057")
def test_two_tasks_of_one_prompt_get_a_root_each() -> None:
    session = MappedSession()
    session.add(row("assistant", [call("Task", "task-1", prompt="count")], "a-1", stop="tool_use"))
    session.add(row("assistant", [call("Task", "task-2", prompt="count")], "a-2", stop="tool_use"))
    first = session.add(row("user", "count", "u-1", isSidechain=True, parentUuid=None))
    second = session.add(row("user", "count", "u-2", isSidechain=True, parentUuid=None))
    assert [first[-1]["subagent"], second[-1]["subagent"]] == [subagent_id("task-1"), subagent_id("task-2")]
    # The turn that the first root opened stays open and is not opened again.
    assert kinds(second) == ["start", "text"]
    assert {envelope["turn"] for envelope in [*first, *second]} == {first[0]["turn"]}


@pytest.mark.rules("S001-056")
def test_the_parent_call_takes_precedence_over_the_parent_row_and_that_over_the_prompt() -> None:
    calls = [call("Task", f"task-{n}", prompt=f"job {n}") for n in (1, 2, 3)]
    session = MappedSession().run([row("assistant", [one], f"a-{n}", stop="tool_use") for n, one in enumerate(calls)])
    session.add(row("user", "job 1", "u-1", isSidechain=True, parentUuid=None))
    by_call = session.add(row("user", "job 3", "u-2", isSidechain=True, parentUuid="u-1", parent_tool_use_id="task-2"))
    assert by_call[-1]["subagent"] == subagent_id("task-2")
    by_row = session.add(row("user", "job 3", "u-3", isSidechain=True, parentUuid="u-1"))
    assert by_row[-1]["subagent"] == subagent_id("task-1")


@pytest.mark.rules("S001-053", "S001-100")
def test_only_a_sidechains_row_inherits_from_the_row_before_it() -> None:
    session = MappedSession().run([row("assistant", [call("Task", "task-1", prompt="job")], "a-1", stop="tool_use")])
    session.add(row("user", "job", "u-1", isSidechain=True, parentUuid=None))
    main = session.add(row("assistant", [text("the main answer")], "a-2", isSidechain=False, parentUuid="u-1"))
    assert subagent_of(main) == {None}


@pytest.mark.rules("S001-091")
def test_the_parent_call_is_also_read_in_camel_case() -> None:
    session = MappedSession().run([assistant(call("Task", "task-1", prompt="job"))])
    assert subagent_of(session.add(assistant(text("x"), parentToolUseId="task-1"))[1:]) == {subagent_id("task-1")}


@pytest.mark.rules("S001-038", "S001-072")
def test_a_subagent_starts_once_in_a_turn_and_keeps_its_name_when_its_call_is_repeated() -> None:
    session = MappedSession().run([assistant(call("Task", "task-1", description="Job"))])
    first = session.add(assistant(text("one"), parent_tool_use_id="task-1"))
    assert kinds(first) == ["turn-start", "start", "text"]
    assert session.add(assistant(call("Task", "task-1", description="Job"))) == []
    second = session.add(assistant(text("two"), parent_tool_use_id="task-1"))
    assert kinds(second) == ["text"]
    assert second[0]["subagent"] == first[1]["subagent"]


@pytest.mark.rules("S001-070", "S001-098", "S001-099")
def test_orphans_of_two_calls_follow_their_own_call_in_order() -> None:
    session = MappedSession()
    for number in range(3):
        for name in ("x", "y"):
            assert session.add(assistant(text(f"{name}{number}"), parent_tool_use_id=name)) == []
    freed = session.add(assistant(call("Agent", "x", description="X")))
    assert [item["ev"].get("text") for item in freed if item["ev"]["t"] == "text"] == ["x0", "x1", "x2"]
    assert subagent_of(freed[2:]) == {subagent_id("x")}
    freed = session.add(assistant(call("Agent", "y", description="Y")))
    assert [item["ev"].get("text") for item in freed if item["ev"]["t"] == "text"] == ["y0", "y1", "y2"]
    assert subagent_of(freed[1:]) == {subagent_id("y")}


LAUNCHED = {"isAsync": True, "status": "async_launched", "agentId": "a1"}


@pytest.mark.rules("S001-135")
@pytest.mark.parametrize(
    ("ending", "more"),
    [([], {}), ([row("user", [result("x")], "u-2", toolUseResult=LAUNCHED)], {"agentId": "a1"})],
    ids=["by prompt and parent row", "by the agent's id"],
)
def test_rows_still_belong_to_the_subagent_when_the_turn_of_its_call_is_over(
    ending: list[Any], more: dict[str, Any]
) -> None:
    session = MappedSession().run(
        [
            row("user", "go", "u-1"),
            row("assistant", [call("Agent", "x", prompt="job")], "a-1", stop="tool_use"),
            *ending,
            row("assistant", [text("it runs")], "a-2"),
            row("user", "next", "u-3"),
        ]
    )
    (ended,) = [item["turn"] for item in session.envelopes if item["ev"]["t"] == "turn-end"]
    session.add(row("user", "job", "s-1", isSidechain=True, parentUuid=None, **more))
    session.add(row("assistant", [text("deep")], "s-2", isSidechain=True, parentUuid="s-1", stop=None, **more))
    (asked,) = [item for item in session.envelopes if item["ev"].get("text") == "job"]
    (deep,) = [item for item in session.envelopes if item["ev"].get("text") == "deep"]
    assert asked["subagent"] == deep["subagent"] == subagent_id("x")
    assert deep["turn"] != ended


def test_an_orphan_without_a_call_is_emitted_in_the_main_thread_before_the_turn_ends() -> None:
    session = MappedSession().run(
        [prompt("go", P1), assistant(text("hm")), assistant(text("lost"), parent_tool_use_id="nobody")]
    )
    assert bare(session.add(over()))[-2:] == [
        ("agent", None, {"t": "text", "text": "lost"}),
        ("agent", None, {"t": "turn-end", "status": "completed"}),
    ]


def test_a_subagents_late_messages_go_into_the_open_turn() -> None:
    """Rows of a subagent's own file may be read after the next prompt; a closed turn is never opened again."""
    session = MappedSession().run(
        [row("user", "go", "u-1"), row("assistant", [call("Agent", "x", prompt="job")], "a-1", stop="tool_use")]
    )
    session.add(row("user", [result("x")], "u-2"))
    session.add(row("assistant", [text("done")], "a-2"))
    session.add(row("user", "next", "u-3"))
    session.add(row("assistant", [text("working")], "a-3", stop="tool_use"))
    late = session.add(row("assistant", [text("late")], "s-1", isSidechain=True, parent_tool_use_id="x", stop=None))
    assert kinds(late)[-1] == "text"
    assert late[-1]["turn"] == session.envelopes[-len(late) - 1]["turn"]
    session.add({"exit": ""})
    assert_balanced(session.envelopes)


def test_a_subagents_messages_outside_any_turn_get_a_separate_turn() -> None:
    session = MappedSession().run(
        [row("user", "go", "u-1"), row("assistant", [call("Agent", "x", prompt="job")], "a-1", stop="tool_use")]
    )
    session.add(row("user", [result("x")], "u-2"))
    session.add(row("assistant", [text("done")], "a-2"))
    session.take(session.interpreter.end_quiet_turn().events)
    late = session.add(row("assistant", [text("late")], "s-1", isSidechain=True, parent_tool_use_id="x", stop=None))
    assert kinds(late) == ["turn-start", "start", "text", "stop", "turn-end"]
    assert_balanced(session.envelopes)
