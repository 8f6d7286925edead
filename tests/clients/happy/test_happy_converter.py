"""Behaviour of the seed's converter and queue that ours shares: raw records with their chains, and the log's order."""

from typing import Any

import pytest

from agents.claude.golden_claude import cases, inputs
from clients.happy.envelopes import MappedSession, assistant, call, kinds, over, prompt, result, text, user
from clients.mylifedb.view_offline import SESSION, ViewRecorder
from fairlead.clients.mylifedb.fold import MyLifeDbReducer
from fairlead.model.ids import SessionId

OTHER = SessionId("22222222-2222-4222-8222-222222222222")


def named(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def chain(showing: ViewRecorder) -> dict[str, tuple[Any, Any]]:
    """Map each record to its parent and to the call whose subagent sent it, as clients of raw records receive them."""
    shown = (frame for frame in showing.history() if frame["type"] != "result")
    return {frame["uuid"][-1]: (frame["parentUuid"], frame.get("parent_tool_use_id")) for frame in shown}


@pytest.mark.rules("S001-083", "S001-084")
def test_each_subagent_has_a_separate_chain_that_the_main_chain_never_enters() -> None:
    showing = ViewRecorder()
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
    """Both run at once in one view: neither continues from the other's records."""
    showing, other = ViewRecorder(), ViewRecorder()
    showing.fold, other.fold = MyLifeDbReducer(SESSION), MyLifeDbReducer(OTHER)
    showing.run([prompt("go", named(1)), assistant(text("x"), uuid=named(2)), over(uuid=named(3)), {"exit": ""}])
    other.run([prompt("elsewhere", named(5))])
    showing.run([prompt("again", named(4))])
    other.run([assistant(text("y"), uuid=named(6))])
    assert chain(showing) == {"1": (None, None), "2": (named(1), None), "4": (named(2), None)}
    assert chain(other) == {"5": (None, None), "6": (named(5), None)}


@pytest.mark.rules("S001-126", "S001-132")
def test_calls_are_never_held_back_or_overtaken() -> None:
    """A call is emitted with its own record, in the main thread and in a sidechain: nothing needs to release it."""
    session = MappedSession().run([prompt("go", named(1))])
    assert kinds(session.add(assistant(call("Bash", "main"), uuid=named(2)))) == ["turn-start", "tool-call-start"]
    session.add(assistant(call("Task", "t1"), uuid=named(3)))
    inside = assistant(call("Bash", "side"), uuid=named(4), parent_tool_use_id="t1")
    assert kinds(session.add(inside)) == ["start", "tool-call-start"]
    assert kinds(session.add(user([result("main")], uuid=named(5)))) == ["tool-call-end"]


@pytest.mark.rules("S001-016")
def test_every_message_of_the_agent_is_in_the_log_and_a_result_is_not_a_message() -> None:
    """Over every recording of the wire. Repeated messages are in the log already; a `result` ends a turn and may give
    the reason, and text that the agent has already sent is not emitted again."""
    for case in (case for case in cases() if "transcript" not in case):
        session = MappedSession()
        uuids = set()
        for given in inputs(case):
            before = len(session.entries)
            fresh = session.add(given)
            message = given.get("agent", {})
            if message.get("type") in ("user", "assistant"):
                repeated = message.get("isReplay") or message.get("uuid") in uuids
                assert repeated or len(session.entries) > before, (case, message)
                uuids.add(message.get("uuid"))
            elif message.get("type") == "result":
                assert not {"text", "tool-call-start"} & {*kinds(fresh)}, (case, message)


SAYING = {"user", "assistant", "system", "summary"}


@pytest.mark.rules("S001-089")
def test_rows_of_other_kinds_never_become_envelopes() -> None:
    """Covers every type of row in the recorded transcripts, and a few that no version has written yet."""
    seen = set()
    for case in (case for case in cases() if "transcript" in case):
        session = MappedSession()
        for given in [*inputs(case), {"transcript": {"type": "of-tomorrow", "uuid": "x", "message": {"content": "x"}}}]:
            kind = given.get("transcript", {}).get("type")
            fresh = session.add(given)
            if kind is not None and kind not in SAYING:
                seen.add(kind)
                assert fresh == [], (case, kind)
    assert len(seen) > 5
