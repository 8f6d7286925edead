"""A session's state is the result of reducing its events."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import events as ev
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId, SubagentId, TurnId
from fairlead.sessions.state import (
    DECIDED_KEPT,
    Queued,
    SessionState,
    evolve,
)

SESSION = SessionId("11111111-2222-3333-4444-555555555555")


def fold(*events: ev.Event, state: SessionState | None = None) -> SessionState:
    state = state or SessionState(session=SESSION)
    for seq, event in enumerate(events, 1):
        state = evolve(state, msgspec.structs.replace(event, at=seq * 10), seq, ev.encode(event))
    return state


def queued(message: str) -> ev.MessageQueued:
    return ev.MessageQueued(id=EventId(message), message=MessageId(message), content=(TextBlock(message),), by="ann")


def asked(request: str, **fields: object) -> ev.PermissionRequested:
    base = {"id": request, "request": request, "call": f"call-{request}", "tool": "Bash", "input": {"command": "ls"}}
    return msgspec.convert({**base, **fields}, ev.PermissionRequested)


def test_an_opened_session_has_its_folder_agent_and_title() -> None:
    state = fold(ev.SessionOpened(id=EventId("o"), cwd="/srv", agent="demo", title="Hello"))
    assert (state.cwd, state.agent, state.title, state.created, state.phase) == ("/srv", "demo", "Hello", 10, "idle")


def test_the_first_prompt_serves_as_title_until_one_is_given() -> None:
    prompt = ev.UserMessage(id=EventId("u"), message=MessageId("m"), content=(TextBlock("fix the tests"),))
    state = fold(prompt)
    assert state.summary().title == "fix the tests"
    renamed = fold(ev.SessionChanged(id=EventId("c"), title="Tests"), state=state)
    assert renamed.summary().title == "Tests"


def test_a_message_waits_in_the_queue_until_its_turn_comes() -> None:
    state = fold(queued("a"), queued("b"), queued("c"))
    assert [item.message for item in state.queue] == ["a", "b", "c"]
    assert state.phase == "working"
    moved = fold(ev.MessageMoved(id=EventId("v"), message=MessageId("c"), position=0), state=state)
    assert [item.message for item in moved.queue] == ["c", "a", "b"]
    left = fold(
        ev.MessageDequeued(id=EventId("d"), message=MessageId("c")),
        ev.MessageCancelled(id=EventId("x"), message=MessageId("b")),
        state=moved,
    )
    assert left.queue == (Queued(MessageId("a"), (TextBlock("a"),), "ann"),)


def test_moving_a_message_that_left_changes_nothing() -> None:
    state = fold(queued("a"))
    assert fold(ev.MessageMoved(id=EventId("v"), message=MessageId("z"), position=0), state=state) == state


def test_a_request_waits_until_it_is_settled_and_its_decider_is_remembered() -> None:
    state = fold(asked("r1"), asked("r2"))
    assert state.phase == "waiting"
    resolved = ev.PermissionResolved(
        id=EventId("p"),
        request=RequestId("r1"),
        call=CallId("call-r1"),
        tool="Bash",
        behavior="allow",
        how="person",
        by="ann",
        remembered=("Bash(ls:*)",),
    )
    state = fold(resolved, state=state)
    assert [item.request for item in state.pending] == ["r2"]
    assert state.decided[-1] == ("r1", "ann")
    assert state.rules == ("Bash(ls:*)",)
    assert fold(resolved, state=state).rules == ("Bash(ls:*)",)
    state = fold(
        ev.PermissionCancelled(id=EventId("q"), request=RequestId("r2"), reason="the turn has ended"), state=state
    )
    assert state.pending == ()
    assert state.phase == "idle"


def test_only_the_recent_decisions_are_remembered() -> None:
    state = SessionState(session=SESSION)
    for number in range(DECIDED_KEPT * 2):
        cancelled = ev.PermissionCancelled(id=EventId("q"), request=RequestId(str(number)), reason="x")
        state = fold(cancelled, state=state)
    assert len(state.decided) == DECIDED_KEPT
    assert state.decided[-1][0] == str(DECIDED_KEPT * 2 - 1)


def test_questions_and_plans_wait_like_permissions() -> None:
    question = ev.QuestionAsked(
        id=EventId("q"), request=RequestId("q"), call=CallId("c"), questions=({"question": "?"},)
    )
    plan = ev.PlanProposed(id=EventId("p"), request=RequestId("p"), call=CallId("c"), plan="do it")
    waiting = fold(question, plan).pending
    assert [(item.tool, item.question) for item in waiting] == [("Question", True), ("Plan", False)]


def test_a_turn_adds_its_cost_and_tokens() -> None:
    usage = {"m": ev.ModelUsage(input=1, output=2, cache_read=3, cache_write=4)}
    state = fold(
        ev.TurnStarted(id=EventId("s"), turn=TurnId("t1")),
        ev.TurnEnded(id=EventId("e"), turn=TurnId("t1"), status="completed", cost_usd=0.5, usage=usage),
    )
    assert (state.turns, state.turn, state.cost_usd, state.input_tokens, state.output_tokens) == (1, None, 0.5, 8, 2)


def test_settings_follow_the_changes_that_took_effect() -> None:
    state = fold(
        ev.ModeChanged(id=EventId("a"), mode="plan"),
        ev.ModelChanged(id=EventId("b"), model="opus"),
        ev.ThinkingChanged(id=EventId("c"), budget=2000),
    )
    assert state.settings == Settings(mode="plan", model="opus", thinking=2000)
    assert state.summary().model == "opus"
    replaced = fold(ev.SessionChanged(id=EventId("d"), settings={"mode": "default"}, archived=True), state=state)
    assert replaced.settings == Settings()
    assert replaced.archived


def test_a_fork_has_its_parents_history_but_not_its_open_work() -> None:
    parent = fold(
        ev.SessionOpened(id=EventId("o"), cwd="/srv", agent="demo"),
        ev.AgentReady(id=EventId("r"), agent_session="agent-1", model="m"),
        queued("a"),
        asked("r1"),
    )
    child = fold(ev.SessionForked(id=EventId("f"), parent=SESSION, seq=4, message=MessageId("at")), state=parent)
    assert (child.queue, child.pending, child.turn) == ((), (), None)
    assert (child.fork_from, child.fork_at, child.agent_session, child.resumable) == ("agent-1", "at", "", False)
    ready = fold(
        ev.SessionResumed(id=EventId("s"), agent_session="agent-1"),
        ev.AgentReady(id=EventId("r"), agent_session="agent-2"),
        state=child,
    )
    assert (ready.agent_session, ready.fork_from, ready.resumable) == ("agent-2", "", True)
    own = fold(ev.SessionResumed(id=EventId("s"), agent_session="agent-2"), state=child)
    assert (own.agent_session, own.fork_from, own.fork_at, own.resumable) == ("agent-2", "", "", True)


def test_a_session_opened_to_resume_knows_what_to_resume() -> None:
    state = fold(ev.SessionResumed(id=EventId("s"), agent_session="agent-7"))
    assert (state.agent_session, state.resumable) == ("agent-7", True)


def test_a_closed_session_is_open_again_when_its_agent_starts() -> None:
    state = fold(ev.SessionClosed(id=EventId("c"), reason="closed"))
    assert state.phase == "closed"
    assert fold(ev.AgentStarted(id=EventId("a"), agent="demo", pid=1), state=state).phase == "idle"


def test_a_subagents_prompt_is_not_the_sessions_prompt() -> None:
    inner = ev.UserMessage(
        id=EventId("u"),
        message=MessageId("m"),
        content=(TextBlock("x"),),
        subagent=SubagentId("c1"),
        via="agent",
    )
    assert fold(inner).first_prompt == ""


@pytest.mark.parametrize("kind", get_args(ev.Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_can_be_folded(kind: type[ev.Event]) -> None:
    """A new kind without a decision fails here, in addition to the type check."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            fields[field.name] = _example(field.type, field.name)
    event = msgspec.convert({"type": kind.__struct_config__.tag, **fields}, ev.Event)
    state = evolve(fold(queued("a")), event, 5, ev.encode(event))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SessionState) == state


def _example(kind: object, name: str) -> object:
    examples: dict[str, object] = {
        "content": [],
        "questions": [],
        "input": {},
        "info": {},
        "status": "completed",
        "phase": "started",
        "behavior": "allow",
        "how": "person",
        "expected": True,
        "link": "stdio",
        "outcome": "moved",
    }
    if name in examples:
        return examples[name]
    return 1 if kind is int else None if name == "budget" else "x"


@given(st.lists(st.sampled_from([queued("a"), queued("b"), asked("r"), ev.RecordStored(id=EventId("k"), record="x")])))
def test_the_state_survives_its_checkpoint(events: list[ev.Event]) -> None:
    state = fold(*events)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SessionState) == state
