"""The mapper's rules one by one: how turns end, permission requests, and messages outside the conversation."""

from typing import Any

import pytest

from clients.happy.envelopes import MappedSession, assert_balanced, assistant, call, kinds, over, prompt, text
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.model import events as ev
from fairlead.model.ids import CallId, EventId, RequestId, TurnId

P1, P2 = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


# --- turns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ([over()], "completed"),
        ([over("error_during_execution")], "failed"),
        ([over("success", is_error=True)], "failed"),
        ([{"interrupt": "i"}, over("error_during_execution")], "cancelled"),
        ([{"exit": "it crashed"}], "failed"),
        ([{"interrupt": "i"}, {"exit": "it was ended"}], "cancelled"),
    ],
)
@pytest.mark.rules("S001-004", "S001-005", "S001-021", "S001-023", "S001-136", "S001-139", "S001-140", "S001-141")
@pytest.mark.rules("S001-142")
def test_a_turn_ends_with_its_true_status(last: list[Any], status: str) -> None:
    session = MappedSession().run([prompt("go", P1), assistant(text("x"), call("Bash", "tool-1")), *last])
    end = session.envelopes[-1]
    assert end["ev"] == {"t": "turn-end", "status": status}
    assert end["turn"] == session.envelopes[1]["turn"]
    assert session.add(over()) == [], "no turn is open that could end"
    (begin, _) = session.add(assistant(text("the next")))
    assert begin["ev"] == {"t": "turn-start"} and begin["turn"] != end["turn"]
    session.add(over())
    assert_balanced(session.envelopes)


@pytest.mark.rules("S001-138", "S001-142")
def test_an_end_without_an_emitted_turn_gives_nothing() -> None:
    session = MappedSession()
    assert session.add({"exit": "nothing was going on"}) == []
    assert session.add(over()) == []
    assert session.add({"interrupt": "i"}) == []
    session.add(prompt("go", P1))
    assert session.add(over()) == []


def test_a_turn_that_failed_before_any_output_gives_the_reason() -> None:
    session = MappedSession().run([prompt("go", P1)])
    made = session.add({"exit": "The agent could not be started."})
    assert [item["ev"] for item in made] == [
        {"t": "turn-start"},
        {"t": "service", "text": "The agent could not be started."},
        {"t": "turn-end", "status": "failed"},
    ]


@pytest.mark.rules("S001-137")
def test_a_process_that_ends_leaves_no_turn_open_and_the_next_opens_its_own() -> None:
    session = MappedSession().run([prompt("go", P1), assistant(call("Bash", "tool-1"))])
    assert kinds(session.add({"exit": "it crashed"})) == ["tool-call-end", "service", "turn-end"]
    session.add(prompt("again", P2))
    assert kinds(session.add(assistant(text("here")))) == ["turn-start", "text"]
    session.add(over())
    client = assert_balanced(session.envelopes)
    assert [turn.status for turn in client.state.turns] == ["failed", "completed"]


@pytest.mark.rules("S001-086", "S001-087")
@pytest.mark.parametrize("last", [[{"interrupt": "i"}, over("error_during_execution")], [{"exit": "it crashed"}]])
def test_open_calls_are_ended_inside_the_subagent_that_made_them_and_only_there(last: list[Any]) -> None:
    session = MappedSession().run(
        [
            prompt("go", P1),
            assistant(call("Bash", "top")),
            assistant(call("Task", "task-1", prompt="job")),
            assistant(call("Bash", "inside"), parent_tool_use_id="task-1"),
            *last,
        ]
    )
    ends = [item for item in session.envelopes if item["ev"]["t"] == "tool-call-end"]
    owners = {item["ev"]["call"]: item.get("subagent") for item in ends}
    assert owners == {"top": None, "inside": subagent_id("task-1")}
    assert [item["ev"]["isError"] for item in ends] == [True, True]
    assert_balanced(session.envelopes)


@pytest.mark.rules("S001-018")
def test_envelopes_leave_in_the_order_of_their_records() -> None:
    session = MappedSession().run([assistant(text(str(number)), uuid=f"{P1[:-2]}{number:02}") for number in range(20)])
    assert [item["ev"]["text"] for item in session.envelopes[1:]] == [str(number) for number in range(20)]


# --- permission requests -------------------------------------------------------------------------------------------


def asked(request: str = "r-1") -> ev.PermissionRequested:
    return ev.PermissionRequested(
        id=EventId(f"{request}/0/permission.asked"),
        turn=TurnId("t1"),
        request=RequestId(request),
        call=CallId("tool-1"),
        tool="Bash",
        input={},
        title="List",
    )


def settled(behavior: Any, asked: bool = True) -> ev.PermissionResolved:
    return ev.PermissionResolved(
        id=EventId("c/0/permission.resolved"),
        request=RequestId("r-1"),
        call=CallId("tool-1"),
        tool="Bash",
        behavior=behavior,
        how="person",
        by="ada",
        asked=asked,
    )


@pytest.mark.parametrize(("behavior", "words"), [("allow", "Allowed by ada: Bash"), ("deny", "Denied by ada: Bash")])
@pytest.mark.rules("S001-125")
def test_a_permission_is_emitted_when_requested_and_when_settled(behavior: str, words: str) -> None:
    session = MappedSession().run([prompt("go", P1), assistant(call("Bash", "tool-1"))])
    assert session.envelopes[-1]["ev"]["t"] == "tool-call-start", "the call is told before it is asked about"
    (asked_envelope,) = session.take([asked()])
    assert asked_envelope["ev"]["text"] == "Waiting for permission: Bash: List"
    facts = {"request": "r-1", "call": "tool-1", "tool": "Bash"}
    assert asked_envelope["ev"]["permission"] == {**facts, "state": "asked"}
    (settled_envelope,) = session.take([settled(behavior)])
    assert settled_envelope["ev"]["text"] == words
    assert settled_envelope["ev"]["permission"]["state"] == {"allow": "allowed", "deny": "denied"}[behavior]


def test_a_decision_by_a_rule_is_not_emitted() -> None:
    session = MappedSession().run([prompt("go", P1), assistant(call("Bash", "tool-1"))])
    assert session.take([settled("allow", asked=False)]) == []


def test_a_cancelled_permission_is_reported_inside_its_turn() -> None:
    session = MappedSession().run([prompt("go", P1), assistant(call("Bash", "tool-1"))])
    session.take([asked()])
    made = session.add({"exit": "it crashed"})
    assert [item["ev"].get("text", item["ev"]["t"]) for item in made] == [
        "tool-call-end",
        "No longer asked (the turn has ended): Bash",
        "it crashed",
        "turn-end",
    ]
    cancelled = ev.PermissionCancelled(id=EventId("r-1/0/x"), request=RequestId("r-1"), reason="the turn has ended")
    assert session.take([cancelled]) == []
    session.take([asked("r-2")])
    withdrawn = ev.PermissionCancelled(id=EventId("r-2/0/x"), request=RequestId("r-2"), reason="nobody waits")
    (_, one, _) = session.take([withdrawn])
    assert one["ev"]["permission"]["state"] == "cancelled"


def test_a_question_and_a_plan_are_emitted_too() -> None:
    session = MappedSession().run([prompt("go", P1)])
    name: dict[str, Any] = {"request": RequestId("q"), "call": CallId("c")}
    made = session.take(
        [
            ev.QuestionAsked(id=EventId("q/0/q"), questions=(), **name),
            ev.PlanProposed(id=EventId("p/0/p"), plan="1. do", **name),
        ]
    )
    assert [item["ev"]["t"] for item in made] == ["turn-start", "service", "service"]


# --- outside the conversation --------------------------------------------------------------------------------------


def test_gateway_notices_become_service_messages() -> None:
    session = MappedSession()
    gone = ev.ErrorRaised(id=EventId("f/0/error"), code="x", message="The disk is full.")
    assert [item["ev"] for item in session.take([gone])] == [
        {"t": "turn-start"},
        {"t": "service", "text": "The disk is full."},
        {"t": "turn-end", "status": "completed"},
    ]
    blank = ev.Notice(id=EventId("n/0/notice"), kind="local_command", text=" ")
    assert session.take([blank]) == []


def test_times_come_from_the_record_and_increase_within_it() -> None:
    session = MappedSession(now=5000)
    session.run([assistant(text("x"))])
    session.now = 9000
    session.add(over())
    assert [item["time"] for item in session.envelopes] == [5001, 5002, 9000]
    times = [entry.at for entry in session.entries]
    assert times[0] == 5000
    assert times[-1] == 9000


def test_the_end_of_a_call_is_emitted_with_the_turn_at_the_latest() -> None:
    """A log of an earlier version does not record that a call's subagent continues."""
    session = MappedSession().run([prompt("go", P1), assistant(call("Agent", "x", prompt="job"))])
    ended = ev.ToolEnded(id=EventId("e/0/tool.ended"), turn=TurnId("t1"), call=CallId("x"), name="Agent", content="on")
    assert session.take([ended]) == []
    made = session.take([ev.TurnEnded(id=EventId("e/0/turn.ended"), turn=TurnId("t1"), status="completed")])
    assert kinds(made) == ["tool-call-end", "turn-end"]
