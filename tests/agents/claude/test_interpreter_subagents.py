"""Calls, subagents and tasks: their owners, their ends, and the records that wait for their parent."""

from typing import Any

import pytest

from agents.claude.golden_claude import Input, Log
from agents.claude.record_builders import (
    agent,
    all_of,
    assistant,
    init,
    interpret,
    kinds,
    permission,
    piece,
    prompt,
    result,
    result_of,
    start,
    system,
    text,
    the,
    use,
    user,
)
from fairlead.agents.claude.interpreter.state import CALLS_OPEN, HELD_RECORDS
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.model import events as ev

T = "toolu_task"
CHILD = subagent_id(T)


def task(call: str = T, tool: str = "Task", parent: str | None = None, **arguments: Any) -> Input:
    facts = {"description": "job", "prompt": "do it", "subagent_type": "general-purpose"}
    return assistant(use(call, tool, **{**facts, **arguments}), message=f"msg_{call}", parent=parent)


def launched(call: str = T, agent_id: str = "a1") -> Input:
    return result_of(
        call, "launched", tool_use_result={"isAsync": True, "status": "async_launched", "agentId": agent_id}
    )


def started(task_id: str = "a1", call: str = T, **fields: Any) -> Input:
    return system("task_started", task_id=task_id, tool_use_id=call, task_type="local_agent", **fields)


def notified(task_id: str = "a1", call: str | None = T, status: str = "completed") -> Input:
    return system("task_notification", task_id=task_id, tool_use_id=call, status=status, summary="done it")


# --- calls -------------------------------------------------------------------------------------------------


@pytest.mark.rules("S004-319")
def test_the_text_of_a_message_is_its_text_blocks_joined() -> None:
    log = interpret(prompt(), assistant(text("It is "), use("toolu_1"), text("high "), text("tide.")))
    texts = all_of(log, ev.Text)
    assert {event.message for event in texts} == {"msg_1"}
    assert "".join(event.text for event in sorted(texts, key=lambda event: event.block)) == "It is high tide."


@pytest.mark.rules("S004-345")
def test_a_result_ends_its_call_with_both_content_and_data() -> None:
    blocks = [{"type": "text", "text": "listed"}]
    log = interpret(
        prompt(),
        assistant(use("toolu_1", command="ls")),
        result_of("toolu_1", blocks, tool_use_result={"stdout": "listed"}),
        assistant(use("toolu_2"), message="msg_2"),
        result_of("toolu_2", "no", is_error=True),
    )
    good, bad = all_of(log, ev.ToolEnded)
    assert (good.name, good.content, good.data, good.status) == ("Bash", blocks, {"stdout": "listed"}, "done")
    assert (bad.content, bad.is_error, bad.status) == ("no", True, "failed")


def test_a_second_result_of_a_call_is_only_stored() -> None:
    log = interpret(prompt(), assistant(use("toolu_1")), result_of("toolu_1"), result_of("toolu_1", "again"))
    assert the(log, ev.ToolEnded).content == "ok"
    assert all_of(log, ev.RecordStored)[-1].subtype == "tool_result"


def test_a_result_of_an_unknown_earlier_call_is_emitted() -> None:
    log = interpret(prompt(), result_of("toolu_old"))
    assert (the(log, ev.ToolEnded).call, the(log, ev.ToolEnded).name) == ("toolu_old", "")


def test_several_results_in_one_record_end_several_calls_without_guessed_data() -> None:
    results = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": str(number)} for number in (1, 2)]
    log = interpret(
        prompt(), assistant(use("toolu_1"), use("toolu_2")), user(results, tool_use_result={"whose": "unknown"})
    )
    assert [(event.call, event.data) for event in all_of(log, ev.ToolEnded)] == [("toolu_1", None), ("toolu_2", None)]


def test_calls_left_open_end_with_the_turn() -> None:
    log = interpret(
        prompt(), assistant(use("toolu_1"), use("toolu_2")), result_of("toolu_1"), result("error_during_execution")
    )
    assert kinds(log)[-2:] == ["tool.ended", "turn.ended"]
    closed = all_of(log, ev.ToolEnded)[-1]
    assert (closed.call, closed.status, closed.is_error) == ("toolu_2", "interrupted", True)
    assert the(log, ev.TurnEnded).closed == ("toolu_2",)


def test_no_agent_can_fill_our_memory_with_calls() -> None:
    log = interpret(prompt(), *(assistant(use(f"toolu_{number}"), message="m") for number in range(CALLS_OPEN + 1)))
    assert len(log.interpreter.snapshot()) < 1 << 20


# --- subagents in the foreground -------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["Task", "Agent"])
def test_a_subagent_begins_with_its_call_and_ends_with_its_result(tool: str) -> None:
    done = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "its words"}]}
    log = interpret(
        prompt(),
        task(tool=tool),
        user([text("do it")], T),
        assistant(text("working"), message="msg_s", parent=T),
        result_of(T, "its words and notes", tool_use_result=done),
    )
    begun = the(log, ev.SubagentStarted)
    assert (begun.child, begun.call, begun.subagent) == (CHILD, T, None)
    assert (begun.title, begun.kind, begun.prompt, begun.background) == ("job", "general-purpose", "do it", False)
    root = all_of(log, ev.UserMessage)[1]
    assert (root.subagent, root.via, root.synthetic) == (CHILD, "agent", False)
    assert the(log, ev.Text).subagent == CHILD
    assert kinds(log)[-2:] == ["tool.ended", "subagent.ended"]
    assert (the(log, ev.SubagentEnded).status, the(log, ev.SubagentEnded).summary) == ("completed", "its words")


@pytest.mark.rules("S004-114")
@pytest.mark.parametrize(
    ("noted", "status"),
    [("completed", "completed"), ("failed", "failed"), ("stopped", "stopped"), ("killed", "stopped")],
)
def test_the_notification_of_a_foreground_subagent_waits_for_its_result(noted: str, status: str) -> None:
    log = interpret(prompt(), task(), started(), notified(status=noted), result_of(T, "words"))
    assert kinds(log)[-2:] == ["tool.ended", "subagent.ended"]
    assert (the(log, ev.SubagentEnded).status, the(log, ev.SubagentEnded).summary) == (status, "words")
    assert len(log.interpreter.background_work) == 0


def test_failed_and_interrupted_subagents_have_their_own_status() -> None:
    failed = interpret(prompt(), task(), result_of(T, "no", is_error=True))
    assert the(failed, ev.SubagentEnded).status == "failed"
    stopped = interpret(prompt(), task(), result_of(T, "x [Request interrupted by user for tool use]", is_error=True))
    assert the(stopped, ev.SubagentEnded).status == "stopped"
    assert the(stopped, ev.ToolEnded).status == "interrupted"


def test_subagents_nest() -> None:
    inner = subagent_id("toolu_inner")
    log = interpret(
        prompt(),
        task(),
        task("toolu_inner", parent=T),
        assistant(text("deep"), message="msg_d", parent="toolu_inner"),
        result_of("toolu_inner", parent=T),
        result_of(T),
    )
    assert [(event.child, event.subagent) for event in all_of(log, ev.SubagentStarted)] == [
        (CHILD, None),
        (inner, CHILD),
    ]
    assert the(log, ev.Text).subagent == inner
    assert [(event.child, event.subagent) for event in all_of(log, ev.SubagentEnded)] == [(inner, CHILD), (CHILD, None)]


def test_an_interrupted_turn_stops_its_subagents_after_their_calls() -> None:
    log = interpret(
        prompt(),
        task(),
        assistant(use("toolu_in"), message="msg_s", parent=T),
        {"interrupt": "i"},
        result("error_during_execution"),
    )
    assert kinds(log)[-4:] == ["tool.ended", "tool.ended", "subagent.ended", "turn.ended"]
    assert the(log, ev.SubagentEnded).status == "stopped"
    assert set(the(log, ev.TurnEnded).closed) == {T, "toolu_in"}


def test_a_tool_with_another_name_may_have_a_subagent() -> None:
    log = interpret(
        prompt(),
        assistant(use("toolu_s", "Skill")),
        assistant(text("inside"), message="msg_s", parent="toolu_s"),
        result_of("toolu_s"),
    )
    assert kinds(log)[2:] == ["tool.called", "subagent.started", "text", "tool.ended", "subagent.ended"]
    assert the(log, ev.SubagentStarted).title == "Skill"


# --- in the background ----------------------------------------------------------------------------------------


def test_a_background_subagent_outlives_its_result_and_the_turn() -> None:
    log = interpret(
        prompt(),
        init(),
        task("toolu_task", "Agent", run_in_background=True),
        started(is_backgrounded=True),
        launched(),
        assistant(use("toolu_in"), message="msg_s", parent=T),
        result(),
    )
    assert the(log, ev.SubagentStarted).background
    assert all_of(log, ev.SubagentEnded) == []
    assert the(log, ev.TurnEnded).closed == ()
    assert len(log.interpreter.background_work) == 1
    assert (log.interpreter.turn, log.interpreter.busy) == (None, False)
    log.run([result_of("toolu_in", parent=T)])
    assert (log.interpreter.turn is None, log.interpreter.busy) == (False, False)
    assert all_of(log, ev.ToolEnded)[-1].status == "done"
    log.run([notified(), init()])
    assert log.interpreter.busy
    log.run([result()])
    assert (the(log, ev.SubagentEnded).status, the(log, ev.SubagentEnded).summary) == ("completed", "done it")
    assert [turn.trigger for turn in all_of(log, ev.TurnStarted)] == ["prompt", "agent"]
    assert len(log.interpreter.background_work) == 0


def background(*more: Input) -> Log:
    return interpret(prompt(), task(), started(is_backgrounded=True), launched(), result(), *more)


def test_a_prompt_during_background_work_opens_its_own_turn() -> None:
    log = background(assistant(text("still at it"), message="msg_s", parent=T), prompt("next"))
    first, own, second = all_of(log, ev.TurnStarted)
    assert (first.trigger, own.trigger, second.trigger) == ("prompt", "agent", "prompt")
    assert [turn.status for turn in all_of(log, ev.TurnEnded)] == ["completed", "completed"]
    assert all_of(log, ev.UserMessage)[-1].via == "prompt"
    assert log.interpreter.busy
    assert all_of(log, ev.SubagentEnded) == []


def test_a_stopped_background_subagent_ends_the_turn_it_opened() -> None:
    log = background(assistant(text("at it"), message="msg_s", parent=T), notified(status="stopped"))
    assert kinds(log)[-2:] == ["subagent.ended", "turn.ended"]
    assert log.interpreter.turn is None


def test_last_records_of_a_stopped_subagent_open_no_turn() -> None:
    """2.1.325 reports interrupted background work like this: the end of its call and the interruption come last."""
    log = interpret(
        prompt(),
        task(),
        started(is_backgrounded=True),
        launched(),
        assistant(use("toolu_in"), message="m", parent=T),
        result(),
        notified(status="stopped"),
        result_of("toolu_in", "rejected", parent=T, is_error=True),
        user([text("[Request interrupted by user for tool use]")], T),
    )
    assert log.interpreter.turn is None
    assert len(all_of(log, ev.TurnStarted)) == 1
    assert (all_of(log, ev.ToolEnded)[-1].call, all_of(log, ev.ToolEnded)[-1].status) == ("toolu_in", "interrupted")


def test_one_of_two_stopped_subagents_leaves_the_turn_open() -> None:
    other = "toolu_other"
    log = interpret(
        prompt(),
        task(),
        task(other),
        launched(),
        launched(other, "a2"),
        result(),
        assistant(text("x"), message="m", parent=T),
        notified(status="stopped"),
    )
    assert log.interpreter.turn is not None
    assert len(log.interpreter.background_work) == 1


def test_a_subagent_moved_to_the_background_keeps_running() -> None:
    log = interpret(prompt(), task(), started(), system("task_updated", task_id="a1", patch={"is_backgrounded": True}))
    assert len(log.interpreter.background_work) == 1
    log.run([result_of(T, "now in the background"), result()])
    assert all_of(log, ev.SubagentEnded) == []


def test_a_subagent_that_gets_another_message_starts_again() -> None:
    log = background(notified(), started(description="more", is_backgrounded=True))
    again = all_of(log, ev.SubagentStarted)[1]
    assert (again.child, again.title, again.background) == (CHILD, "more", True)
    log.run([notified()])
    assert len(all_of(log, ev.SubagentEnded)) == 2


def test_the_list_of_background_tasks_is_authoritative() -> None:
    tasks: list[Any] = [{"task_id": "b1", "description": "npm run dev"}, {"task_id": "b2"}, {"x": 1}]
    log = interpret(prompt(), system("background_tasks_changed", tasks=tasks))
    assert list(log.interpreter.background_work) == ["npm run dev", "b2"]
    log.run([system("background_tasks_changed", tasks=[{"task_id": "b2"}])])
    assert list(log.interpreter.background_work) == ["b2"]
    log.run([system("task_started", task_id="b2", description="the docs", is_backgrounded=True)])
    assert list(log.interpreter.background_work) == ["the docs"]


def test_a_background_shell_counts_until_its_end_is_notified() -> None:
    log = interpret(
        prompt(),
        assistant(use("toolu_b", run_in_background=True)),
        result_of("toolu_b", tool_use_result={"backgroundTaskId": "b1"}),
        result(),
    )
    assert list(log.interpreter.background_work) == ["Bash"]
    log.run([system("task_notification", task_id="b1", status="completed", summary="Background command done")])
    assert not list(log.interpreter.background_work)
    assert (the(log, ev.Notice).kind, the(log, ev.Notice).text) == ("task_notification", "Background command done")


def test_a_foreground_shell_is_not_background_work() -> None:
    log = interpret(
        prompt(),
        assistant(use("toolu_b")),
        system("task_started", task_id="b1", tool_use_id="toolu_b", task_type="local_bash", is_backgrounded=False),
        result_of("toolu_b"),
    )
    assert len(log.interpreter.background_work) == 0
    log.run([system("task_notification", task_id="b1", tool_use_id="toolu_b", status="completed")])
    assert all_of(log, ev.Notice) == []


def test_a_task_output_result_can_end_a_background_task() -> None:
    log = interpret(
        prompt(),
        assistant(use("toolu_b")),
        result_of("toolu_b", tool_use_result={"backgroundTaskId": "b1"}),
        assistant(use("toolu_o", "TaskOutput"), message="m2"),
        result_of("toolu_o", tool_use_result={"task": {"task_id": "b1", "status": "running"}}),
    )
    assert len(log.interpreter.background_work) == 1
    log.run(
        [
            assistant(use("toolu_p", "TaskOutput"), message="m3"),
            result_of("toolu_p", tool_use_result={"task": {"task_id": "b1", "status": "completed"}}),
        ]
    )
    assert len(log.interpreter.background_work) == 0


def test_versions_without_task_messages_end_a_subagent_by_the_text_for_the_model() -> None:
    words = (
        f"<task-notification><task-id>a1</task-id><tool-use-id>{T}</tool-use-id><status>failed</status>"
        "<summary>x</summary></task-notification>"
    )
    log = interpret(prompt(), task(), launched(), user(words))
    assert the(log, ev.SubagentEnded).status == "failed"
    assert len(all_of(log, ev.UserMessage)) == 1


def test_progress_of_a_task_is_progress_of_its_call() -> None:
    usage = {"duration_ms": 1500}
    log = interpret(
        prompt(),
        task(),
        started(),
        system("task_progress", task_id="a1", tool_use_id=T, description="Reading", usage=usage),
        launched(),
        system("task_progress", task_id="a1", description="Writing"),
        system("task_progress", task_id="zz"),
    )
    first, second = all_of(log, ev.ToolProgress)
    assert (first.call, first.name, first.elapsed_s, first.note) == (T, "Task", 1.5, "Reading")
    assert (second.call, second.note) == (T, "Writing")


def test_a_permission_request_of_a_subagent_is_matched_by_call_or_agent_id() -> None:
    log = background(
        permission("r1", call="toolu_unseen", agent_id="a1"),
        assistant(use("toolu_in"), message="m", parent=T),
        permission("r2", call="toolu_in"),
    )
    assert [event.subagent for event in all_of(log, ev.PermissionRequested)] == [CHILD, CHILD]
    assert all_of(log, ev.TurnStarted)[-1].trigger == "agent"


# --- records that wait for their parent --------------------------------------------------------------------------


def test_a_record_before_its_parent_is_stored_at_once_and_emitted_after_the_parent() -> None:
    early = assistant(text("early"), message="msg_s", parent=T)
    log = interpret(prompt(), early)
    assert kinds(log, kept=True)[2:] == ["record"]
    log.add(task())
    assert kinds(log)[2:] == ["tool.called", "subagent.started", "text"]
    event = the(log, ev.Text)
    assert (event.subagent, event.text) == (CHILD, "early")
    assert event.id.startswith(early["agent"]["uuid"])


def test_a_record_before_its_parent_call_makes_that_call_a_subagent() -> None:
    log = interpret(
        prompt(), assistant(text("early"), message="msg_s", parent="toolu_s"), assistant(use("toolu_s", "Skill"))
    )
    assert kinds(log)[2:] == ["tool.called", "subagent.started", "text"]


@pytest.mark.parametrize("end", [result(), {"exit": "gone"}])
def test_records_without_a_parent_go_to_the_main_thread_with_an_unresolved_notice(end: Input) -> None:
    log = interpret(prompt(), assistant(text("whose"), message="msg_s", parent="toolu_never"), end)
    notice = the(log, ev.Notice)
    assert (notice.kind, notice.data) == ("unresolved", {"parent": "toolu_never", "records": 1})
    assert the(log, ev.Text).subagent is None
    assert kinds(log)[-1] == "turn.ended"


def test_the_stream_of_an_unknown_thread_is_stored_and_dropped_with_its_message() -> None:
    log = interpret(
        prompt(),
        start("msg_s", T),
        piece(0, "early", parent=T),
        agent("stream_event", event={"type": "message_stop"}, parent_tool_use_id=T),
        task(),
    )
    assert not any(isinstance(event, ev.Delta) for event in log.events)
    assert len(log.dropped) == 3


def test_deferred_records_are_bounded() -> None:
    log = interpret(
        prompt(),
        *(assistant(text("x"), message=f"m{number}", parent="toolu_never") for number in range(HELD_RECORDS + 3)),
    )
    assert len(all_of(log, ev.Text)) == 3
    big = interpret(prompt(), assistant(text("x" * (2 << 20)), message="m", parent="toolu_never"))
    assert len(all_of(big, ev.Text)) == 1


# --- the end of the process -------------------------------------------------------------------------------------


def test_the_exit_ends_everything_in_order() -> None:
    log = background(
        assistant(use("toolu_in"), message="m", parent=T), prompt(), assistant(use("toolu_1"), message="m1")
    )
    log.add({"exit": "killed"})
    assert kinds(log)[-4:] == ["tool.ended", "tool.ended", "subagent.ended", "turn.ended"]
    ended = all_of(log, ev.TurnEnded)[-1]
    assert (ended.status, ended.reason) == ("failed", "killed")
    assert set(ended.closed) == {"toolu_in", "toolu_1"}
    assert the(log, ev.SubagentEnded).status == "stopped"
    assert len(log.interpreter.background_work) == 0
    log.add({"exit": "again"})
    assert kinds(log)[-1] == "turn.ended"


def test_an_exit_without_a_turn_still_ends_background_work() -> None:
    log = background({"exit": "idle"})
    assert kinds(log)[-1] == "subagent.ended"
    assert all_of(log, ev.SubagentEnded)[0].turn is None
