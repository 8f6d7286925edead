"""Records about the CLI itself: init, status, notices, progress, permissions, prompts; and repeated records."""

from typing import Any

import pytest

from agents.claude.golden_claude import SESSION, Log, raw
from agents.claude.record_builders import (
    agent,
    all_of,
    assistant,
    init,
    interpret,
    kinds,
    name,
    permission,
    prompt,
    result,
    result_of,
    system,
    text,
    the,
    use,
    user,
)
from fairlead.agents.claude.interpreter.interpreter import HANDLERS, ClaudeInterpreter
from fairlead.agents.claude.wire import decode
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.markers import MARKERS, InterruptMarker, encode_marker
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Interpreter, Record
from fairlead.model.ids import EventId, turn_id


def test_it_is_an_interpreter() -> None:
    port: Interpreter = ClaudeInterpreter(SESSION)
    assert (port.turn, port.busy, port.background_work) == (None, False, ())


def test_every_decoded_class_has_a_handler() -> None:
    of_the_driver = {wire.ControlResponse, wire.ControlCancel, wire.KeepAlive}
    decoded = {*decode._TYPES.values(), *decode._SYSTEM.values(), wire.UnknownRecord, wire.InvalidRecord}
    assert decoded - set(MARKERS.values()) - of_the_driver == set(HANDLERS)


# --- init and status -----------------------------------------------------------------------------------------


def test_init_is_emitted_only_when_it_contains_changes() -> None:
    log = interpret(prompt(), init(slash_commands=["compact"]), result(), prompt(), init(slash_commands=["compact"]))
    ready = the(log, ev.AgentReady)
    assert (ready.version, ready.mode, ready.tools, ready.commands) == ("2.1.325", "default", ("Bash",), ("compact",))
    assert all_of(log, ev.RecordStored)[-1].subtype == "init"
    log.run([result(), prompt(), init(tools=["Bash", "Read"], slash_commands=["compact"])])
    assert all_of(log, ev.AgentReady)[-1].tools == ("Bash", "Read")
    assert all_of(log, ev.ModeChanged) == []


@pytest.mark.rules("S004-071")
def test_a_mode_that_differs_in_an_init_is_a_change() -> None:
    log = interpret(prompt(), init(), result(), prompt(), init(permissionMode="plan"))
    assert the(log, ev.ModeChanged).mode == "plan"
    assert [ready.mode for ready in all_of(log, ev.AgentReady)] == ["default", "plan"]


def test_a_mode_change_emitted_by_the_core_is_not_emitted_again() -> None:
    """2.1.37 sends no status: the core emits the mode change when its request is answered."""
    log = interpret(prompt(), init(), result())
    log.interpreter.assign_seq(ev.ModeChanged(id=EventId("core"), mode="plan"), 99)
    log.run([prompt(), init(permissionMode="plan")])
    assert all_of(log, ev.ModeChanged) == []
    assert len(all_of(log, ev.AgentReady)) == 1


def test_a_status_without_changes_is_only_stored() -> None:
    log = interpret(
        prompt(),
        init(),
        system("status", status=None, permissionMode="default"),
        system("status", status=None),
        system("status", status="requesting"),
        system("status", status="compacting"),
        system("status", status="compacting"),
        system("status", status="requesting"),
        system("status", status=None, permissionMode="plan"),
    )
    assert kinds(log)[3:] == ["compaction", "compaction", "mode.changed"]


def test_an_exit_ends_a_running_compaction() -> None:
    log = interpret(prompt(), system("status", status="compacting"), {"exit": "gone"})
    assert [event.phase for event in all_of(log, ev.Compaction)] == ["started", "ended"]


# --- notices and progress ------------------------------------------------------------------------------------


def test_a_notice_takes_its_text_from_any_field() -> None:
    log = interpret(
        system("informational", content="a"),
        system("notification", text="b", key="k"),
        system("permission_denied", message="c", tool_name="Write"),
        system("session_title_changed", title="d"),
        system("mirror_error", error="e"),
        system("plugin_install", content=[1]),
        system("local_command", content="<command-name>/x</command-name><command-args>y</command-args>"),
        system("local_command_output", content="plain"),
    )
    notices = all_of(log, ev.Notice)
    assert [notice.text for notice in notices] == ["a", "b", "c", "d", "e", "", "/x y", "plain"]
    assert notices[2].data == {"message": "c", "tool_name": "Write"}
    assert notices[6].kind == notices[7].kind == "local_command"
    assert log.interpreter.turn is None


def test_a_retry_without_text_is_still_a_notice() -> None:
    retry = the(interpret(prompt(), system("api_retry", attempt=2, max_retries=3, error={"type": "x"})), ev.Notice)
    assert retry.text == "error: try 2 of 3"


def test_titles_are_notices() -> None:
    log = interpret(
        {"transcript": {"type": "summary", "summary": "A"}},
        {"transcript": {"type": "custom-title", "customTitle": "B"}},
    )
    assert [(notice.kind, notice.text) for notice in all_of(log, ev.Notice)] == [("title", "A"), ("title", "B")]


def test_progress_of_a_tool_is_emitted_under_its_call() -> None:
    log = interpret(
        prompt(),
        assistant(use("toolu_t", "Task")),
        assistant(use("toolu_1"), message="m", parent="toolu_t"),
        agent("tool_progress", tool_use_id="toolu_1", tool_name="Bash", parent_tool_use_id="toolu_t"),
        agent(
            "tool_progress", tool_use_id="toolu_1-heartbeat-0", parent_tool_use_id="toolu_1", elapsed_time_seconds=30
        ),
        agent("tool_progress", tool_use_id="toolu_x", parent_tool_use_id=None),
        agent(
            "progress", data={"type": "bash_progress", "output": "line", "elapsedTimeSeconds": 3}, toolUseID="toolu_1"
        ),
        agent("progress", data={"type": "bash_progress"}, toolUseID="toolu_y"),
        agent("progress", data={"type": "hook_progress"}, toolUseID="toolu_1"),
        agent("progress", data={"type": 3}),
    )
    child = the(log, ev.SubagentStarted).child
    progress = all_of(log, ev.ToolProgress)
    assert [(event.call, event.subagent) for event in progress] == [
        ("toolu_1", child),
        ("toolu_1", child),
        ("toolu_x", None),
        ("toolu_1", child),
        ("toolu_y", None),
    ]
    assert (progress[3].elapsed_s, progress[3].note, progress[3].name) == (3, "line", "Bash")
    assert [event.subtype for event in all_of(log, ev.RecordStored)] == ["hook_progress", ""]


# --- requests to a person --------------------------------------------------------------------------------------


def test_a_question_keeps_only_questions() -> None:
    asked = permission("r1", "AskUserQuestion", input={"questions": [{"question": "Which?"}, "odd"]})
    assert the(interpret(prompt(), asked), ev.QuestionAsked).questions == ({"question": "Which?"},)
    odd = permission("r1", "AskUserQuestion", input={"questions": "none"})
    assert the(interpret(prompt(), odd), ev.QuestionAsked).questions == ()


def test_a_plan_is_found_in_the_request_or_in_the_call() -> None:
    in_request = permission("r1", "ExitPlanMode", input={"plan": "new"})
    call = assistant(use("toolu_1", "ExitPlanMode", plan="old"))
    assert the(interpret(prompt(), call, in_request), ev.PlanProposed).plan == "new"
    assert the(interpret(prompt(), call, permission("r1", "ExitPlanMode")), ev.PlanProposed).plan == "old"
    assert the(interpret(prompt(), permission("r1", "ExitPlanMode")), ev.PlanProposed).plan == ""


@pytest.mark.parametrize(
    "suggestions",
    [None, ["odd"], [{"type": "addRules", "rules": "all"}], [{"type": "setMode", "mode": "plan"}], [{"rules": []}]],
)
def test_suggestions_that_are_not_rules_are_ignored(suggestions: Any) -> None:
    asked = permission("r1", permission_suggestions=suggestions)
    assert the(interpret(prompt(), asked), ev.PermissionRequested).suggestions == ()


def test_a_repeated_suggestion_is_listed_once() -> None:
    rule = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}]}
    asked = permission("r1", permission_suggestions=[rule, rule])
    assert the(interpret(prompt(), asked), ev.PermissionRequested).suggestions == ("Bash(ls:*)",)


def test_a_repeated_request_is_emitted_once() -> None:
    log = interpret(prompt(), permission("r1"), permission("r1"))
    assert len(all_of(log, ev.PermissionRequested)) == 1


def test_other_and_malformed_control_requests_produce_no_events() -> None:
    log = interpret(
        prompt(),
        {"agent": {"type": "control_request", "request_id": "r1", "request": {"subtype": "hook_callback"}}},
        {"agent": {"type": "control_request", "request_id": "r2", "request": {"subtype": "can_use_tool"}}},
    )
    assert kinds(log, kept=True) == ["turn.started", "user.message"]


# --- prompts and interrupts --------------------------------------------------------------------------------------


def test_a_prompt_opens_a_turn_with_its_id_and_a_second_one_steers() -> None:
    log = interpret(prompt("one", "p1"), prompt("two", "p2"))
    assert kinds(log) == ["turn.started", "user.message", "user.message"]
    first, second = all_of(log, ev.UserMessage)
    assert (first.message, first.via, second.message, second.via) == ("p1", "prompt", "p2", "steer")
    assert log.interpreter.turn == turn_id(SESSION, "p1") == first.turn == second.turn


def test_a_prompt_sent_again_is_emitted_once() -> None:
    log = interpret(prompt("one", "p1"), prompt("one", "p1"), user("one", isReplay=True))
    assert len(all_of(log, ev.UserMessage)) == 1


def test_a_prompt_of_blocks_keeps_them() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": ""}}
    given = prompt()
    given["gateway"]["message"]["content"] = [text("see"), image]
    blocks = the(interpret(given), ev.UserMessage).content
    assert [block.__struct_config__.tag for block in blocks] == ["text", "image"]


def test_other_gateway_lines_produce_no_events() -> None:
    log = interpret({"gateway": {"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}}})
    assert log.events == []


def test_an_interrupt_cancels_the_turn_it_was_asked_in_and_no_other() -> None:
    log = interpret(prompt(), {"interrupt": "i1"}, result(), {"interrupt": "i2"}, prompt(), result())
    assert [turn.status for turn in all_of(log, ev.TurnEnded)] == ["cancelled", "completed"]


def test_an_interrupt_marker_produces_no_event_and_is_unknown_from_the_agent() -> None:
    interpreter = ClaudeInterpreter(SESSION)
    assert interpreter.step(Record(encode_marker(InterruptMarker(cause="c")), "gateway")) == Interpretation()
    (kept,) = interpreter.step(Record(encode_marker(InterruptMarker(cause="c")))).events
    assert isinstance(kept, ev.RecordStored)
    assert not kept.known


def test_the_interruption_text_of_the_cli_cancels_the_turn() -> None:
    log = interpret(prompt(), user([text("[Request interrupted by user]")]), result("error_during_execution"))
    assert the(log, ev.TurnEnded).status == "cancelled"
    assert len(all_of(log, ev.UserMessage)) == 1


def test_an_interrupted_subagent_does_not_cancel_the_turn() -> None:
    log = interpret(prompt(), assistant(use("t", "Task")), user([text("[Request interrupted by user]")], "t"), result())
    assert the(log, ev.TurnEnded).status == "completed"


def test_user_records_written_by_the_cli_are_not_user_messages() -> None:
    log = interpret(
        prompt(),
        user("<local-command-stdout>out</local-command-stdout>\n<local-command-stderr>err</local-command-stderr>"),
        user("<command-name>/compact</command-name>\n<command-args></command-args>"),
        user("<command-message>x</command-message>"),
        user("<local-command-caveat>x</local-command-caveat>"),
        user("<system-reminder>x</system-reminder>"),
        user("meta", isMeta=True),
        user([]),
        user(None),
    )
    assert [(notice.kind, notice.text) for notice in all_of(log, ev.Notice)] == [
        ("local_command", "out\nerr"),
        ("command", "/compact"),
        ("command", ""),
    ]
    assert len(all_of(log, ev.UserMessage)) == 1


def test_a_result_and_a_text_in_one_record_are_both_emitted() -> None:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    log = interpret(prompt(), assistant(use("toolu_1")), user([block, text("and more")]))
    assert kinds(log)[-2:] == ["tool.ended", "user.message"]
    assert all_of(log, ev.UserMessage)[-1].content[0].text == "and more"


def test_a_replayed_output_is_emitted_only_inside_a_turn() -> None:
    output = "<local-command-stdout>x</local-command-stdout>"
    assert interpret(user(output, isReplay=True)).events == []
    assert kinds(interpret(prompt(), user(output, isReplay=True)))[-1] == "notice"


# --- identities -----------------------------------------------------------------------------------------------------


def test_two_equal_wire_lines_are_two_records() -> None:
    interpreter = ClaudeInterpreter(SESSION)
    first = interpreter.step(Record(b"not json")).events
    second = interpreter.step(Record(b"not json")).events
    assert [event.id for event in first] != [event.id for event in second]
    assert isinstance(first[0], ev.RecordStored)
    assert (first[0].record, first[0].known) == ("garbage", False)


def test_a_transcript_row_without_a_uuid_is_emitted_once() -> None:
    interpreter = ClaudeInterpreter(SESSION)
    row = Record(raw({"type": "queue-operation", "operation": "enqueue"}), "transcript")
    assert len(interpreter.step(row).events) == 1
    assert interpreter.step(row) == Interpretation()


def test_repeated_records_are_recognised_by_their_uuid() -> None:
    one = assistant(text("once"))
    log = interpret(prompt(), one, one, result_of("toolu_1"))
    assert len(all_of(log, ev.Text)) == 1


def test_seen_ids_are_remembered_but_bounded() -> None:
    one = system("informational", content="first")
    log = interpret(one, *(system("informational", content="x") for _ in range(2000)), one)
    assert [notice.text for notice in all_of(log, ev.Notice)].count("first") == 1
    log = Log()
    for _ in range(10_000):
        log.interpreter.step(Record(raw(system("thinking_tokens")["agent"])))
    assert len(log.interpreter.snapshot()) < 64 << 10


def test_a_result_without_a_prompt_opens_and_ends_a_turn() -> None:
    log = interpret(result("error_during_execution", errors=["No conversation found with session ID: x"]))
    assert kinds(log) == ["turn.started", "turn.ended"]
    assert the(log, ev.TurnStarted).trigger == "agent"
    assert the(log, ev.TurnEnded).errors == ("No conversation found with session ID: x",)


def test_an_unreadable_result_without_a_turn_is_only_stored() -> None:
    log = interpret({"agent": {"type": "result", "uuid": name()}})
    assert kinds(log, kept=True) == ["record"]
