"""What the seed's converter and queue do, where ours does it: raw records with their chains, and the log's order."""

from typing import Any

import pytest

from agents.claude.golden_claude import cases, inputs
from clients.happy.telling import Told, assistant, call, kinds, over, prompt, result, text, user
from clients.mylifedb.showing import Showing


def named(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def chain(showing: Showing) -> dict[str, tuple[Any, Any]]:
    """Each record's parent, and the call whose subagent said it, as clients of raw records get them."""
    shown = (frame for frame in showing.history() if frame["type"] != "result")
    return {frame["uuid"][-1]: (frame["parentUuid"], frame.get("parent_tool_use_id")) for frame in shown}


@pytest.mark.rules("S001-016", "S001-083", "S001-084")
def test_each_subagent_has_a_chain_of_its_own_and_the_main_one_never_runs_through_it() -> None:
    showing = Showing()
    showing.run(
        [
            prompt("go", named(1)),
            assistant(call("Task", "t1", prompt="job"), uuid=named(2)),
            assistant(text("inside"), uuid=named(3), parent_tool_use_id="t1"),
            assistant(text("outside"), uuid=named(4)),
            assistant(text("inside still"), uuid=named(5), parent_tool_use_id="t1"),
            over(uuid=named(6)),
        ]
    )
    assert chain(showing) == {
        "1": (None, None),
        "2": (named(1), None),
        "3": (None, "t1"),
        "4": (named(2), None),
        "5": (named(3), "t1"),
    }


@pytest.mark.rules("S001-130", "S001-131")
def test_a_new_process_goes_on_with_the_sessions_chain_and_another_session_begins_its_own() -> None:
    first = [prompt("go", named(1)), assistant(text("x"), uuid=named(2)), over(uuid=named(3)), {"exit": ""}]
    showing = Showing()
    showing.run([*first, prompt("again", named(4))])
    assert chain(showing)["4"] == (named(2), None)
    other = Showing()
    other.run([prompt("elsewhere", named(5))])
    assert chain(other)["5"] == (None, None)


@pytest.mark.rules("S001-126", "S001-132")
def test_no_call_is_held_back_so_none_is_overtaken() -> None:
    """A call is told with its own record, in the main thread and in a sidechain: nothing needs to release it."""
    session = Told().run([prompt("go", named(1))])
    assert kinds(session.add(assistant(call("Bash", "main"), uuid=named(2)))) == ["turn-start", "tool-call-start"]
    session.add(assistant(call("Task", "t1"), uuid=named(3)))
    inside = assistant(call("Bash", "side"), uuid=named(4), parent_tool_use_id="t1")
    assert kinds(session.add(inside)) == ["start", "tool-call-start"]
    assert kinds(session.add(user([result("main")], uuid=named(5)))) == ["tool-call-end"]


SAYING = {"user", "assistant", "system", "summary"}


@pytest.mark.rules("S001-089")
def test_rows_of_other_kinds_never_become_envelopes() -> None:
    """Every type of row in the recorded transcripts, and a few that no version has written yet."""
    seen = set()
    for case in (case for case in cases() if "transcript" in case):
        session = Told()
        for given in [*inputs(case), {"transcript": {"type": "of-tomorrow", "uuid": "x", "message": {"content": "x"}}}]:
            kind = given.get("transcript", {}).get("type")
            fresh = session.add(given)
            if kind is not None and kind not in SAYING:
                seen.add(kind)
                assert fresh == [], (case, kind)
    assert len(seen) > 5
