"""Recorded traffic of the real CLI, and the resulting events. FAIRLEAD_WRITE=1 rewrites them: then review the diff."""

import json
import os
from collections import Counter

import pytest

from agents.claude.golden_claude import GOLDEN, Log, cases, inputs, output, written
from agents.claude.record_builders import all_of, kinds, the
from fairlead.model import events as ev


@pytest.mark.rules("S004-325")
@pytest.mark.parametrize("case", [*cases(), *written()])
def test_golden(case: str) -> None:
    made = output(inputs(case))
    if os.environ.get("FAIRLEAD_WRITE"):
        (GOLDEN / case / "events.jsonl").write_text("".join(line + "\n" for line in made))
    expected = (GOLDEN / case / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in made] == [json.loads(line) for line in expected]


def log_of(case: str) -> Log:
    return Log().run(inputs(case))


VERSIONS = ("2.1.37", "2.1.120", "2.1.325")


@pytest.mark.parametrize("case", cases())
def test_turns_and_calls_are_well_formed(case: str) -> None:
    """Every turn ends once, a call ends at most once, every event belongs to the open turn, every id is unique."""
    log = log_of(case)
    assert max(Counter(event.id for event in log.events).values()) == 1
    open_turn = None
    turns: set[str] = set()
    calls: dict[str, int] = {}
    subagents: set[str] = set()
    for event in log.events:
        if isinstance(event, ev.TurnStarted):
            assert open_turn is None and event.turn is not None and event.turn not in turns
            open_turn = event.turn
            turns.add(event.turn)
        assert event.turn == open_turn
        if isinstance(event, ev.TurnEnded):
            open_turn = None
        elif isinstance(event, ev.ToolCalled):
            assert event.call not in calls
            calls[event.call] = 0
        elif isinstance(event, ev.ToolEnded):
            assert calls[event.call] == 0
            calls[event.call] = 1
        elif isinstance(event, ev.SubagentStarted):
            subagents.add(event.child)
        elif isinstance(event, ev.SubagentEnded):
            assert event.child in subagents
        if event.subagent is not None:
            assert event.subagent in subagents
    assert open_turn is None or "exit" not in inputs(case)[-1]
    assert all(calls.values())


@pytest.mark.parametrize("case", cases())
def test_deltas_are_dropped_once_their_block_is_complete(case: str) -> None:
    log = log_of(case)
    by_seq = dict(log.entries)
    whole = {(event.message, event.block) for event in log.events if isinstance(event, ev.Block)}
    for seq, event in log.entries:
        if isinstance(event, ev.Delta):
            assert (seq in log.dropped) == ((event.message, event.block) in whole)
    for seq in log.dropped:
        gone = by_seq[seq]
        assert isinstance(gone, ev.Delta) or (isinstance(gone, ev.RecordStored) and gone.record == "stream_event")
    for event in log.events:
        if isinstance(event, ev.Text | ev.Thinking):
            marked = [by_seq[seq] for seq, _ in event.marks]
            pieces = [delta.text for delta in marked if isinstance(delta, ev.TextDelta | ev.ThinkingDelta)]
            assert len(pieces) == len(marked), "marks name deltas"
            joined = "".join(pieces)
            assert joined in ("", event.text)
            assert not event.marks or event.marks[-1][1] == len(event.text)


@pytest.mark.rules("S004-077")
def test_a_repeated_init_does_not_start_a_new_session() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-compact")
        inits = [
            given["agent"] for given in inputs(f"{version}-compact") if given.get("agent", {}).get("subtype") == "init"
        ]
        assert len(inits) > 1 and len({init["session_id"] for init in inits}) == 1
        assert len(all_of(log, ev.AgentReady)) == 1
        assert len(all_of(log, ev.TurnStarted)) == 4


@pytest.mark.rules("S004-079")
def test_blocks_of_one_message_are_numbered_in_it() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-subagent")
        answer, called = all_of(log, ev.Text)[0], all_of(log, ev.ToolCalled)[0]
        assert answer.text == "Delegating."
        assert (answer.message, answer.block, called.block) == (called.message, 0, 1)
        assert called.input["description"] == "sub job"


def test_thinking_is_streamed_and_emitted_as_a_block() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-thinking")
        thought = the(log, ev.Thinking)
        assert thought.text == "Let me think about this carefully."
        assert thought.signature == "ZmFrZQ=="
        assert thought.marks
        assert [event.signature for event in all_of(log, ev.ThinkingDelta) if event.signature] == ["ZmFrZQ=="]


def test_events_of_a_subagent_carry_its_id() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-subagent")
        child = the(log, ev.SubagentStarted).child
        inner = [event for event in all_of(log, ev.ToolCalled) if event.subagent is not None]
        assert [event.subagent for event in inner] == [child]
        assert the(log, ev.PermissionRequested).subagent == child
        assert the(log, ev.SubagentEnded).status == "completed"


@pytest.mark.rules("S004-036")
def test_a_background_subagent_ends_in_a_turn_started_by_the_agent() -> None:
    log = log_of("2.1.325-subagent")
    first, second = all_of(log, ev.TurnStarted)
    assert (first.trigger, second.trigger) == ("prompt", "agent")
    ended = the(log, ev.SubagentEnded)
    assert ended.turn == second.turn
    assert ended.summary.startswith("FINAL after tool")
    launched = all_of(log, ev.ToolEnded)[0]
    assert (launched.name, launched.turn) == ("Agent", first.turn)
    assert [turn.status for turn in all_of(log, ev.TurnEnded)] == ["completed", "completed"]


@pytest.mark.rules("S004-164", "S004-166")
def test_an_interrupted_turn_is_cancelled_and_the_next_one_works() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-interrupt_tool")
        cancelled, completed = all_of(log, ev.TurnEnded)
        assert (cancelled.status, cancelled.errors) == ("cancelled", ())
        assert completed.status == "completed"
        assert all_of(log, ev.ToolEnded)[0].status == "interrupted"
        assert not any(event.via == "agent" for event in all_of(log, ev.UserMessage))


def test_an_idle_interrupt_cancels_nothing() -> None:
    for version in ("2.1.37", "2.1.325"):
        statuses = [turn.status for turn in all_of(log_of(f"{version}-interrupt_idle"), ev.TurnEnded)]
        assert statuses == ["completed", "completed"]


@pytest.mark.rules("S004-088", "S004-330")
def test_an_api_error_fails_the_turn_although_its_subtype_is_success() -> None:
    for case in ("2.1.37-api_err400", "2.1.120-api_err529", "2.1.325-api_err400", "2.1.325-api_err529"):
        log = log_of(case)
        ended = all_of(log, ev.TurnEnded)[0]
        answer = next(event for event in all_of(log, ev.Text) if event.error)
        assert answer.model == "<synthetic>"
        assert ended.status == "failed"
        assert ended.reason == answer.error
        assert ended.errors == (answer.text,)


@pytest.mark.rules("S004-100", "S004-267", "S004-268", "S004-320")
def test_reaching_a_limit_fails_the_turn_whatever_is_error_says() -> None:
    for version in ("2.1.37", "2.1.325"):
        for case, reason in [("max_turns", "error_max_turns"), ("max_budget", "error_max_budget_usd")]:
            ended = all_of(log_of(f"{version}-{case}"), ev.TurnEnded)[0]
            assert (ended.status, ended.reason) == ("failed", reason)
    assert all_of(log_of("2.1.37-max_turns"), ev.TurnEnded)[0].errors == ()
    assert all_of(log_of("2.1.325-max_turns"), ev.TurnEnded)[0].errors == ("Reached maximum number of turns (2)",)


@pytest.mark.rules("S004-092", "S004-095")
def test_costs_are_per_turn_in_every_version_and_after_a_resume() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-resume")
        turns = all_of(log, ev.TurnEnded)
        assert len(turns) == 3
        for turn, requests in zip(turns, (1, 2, 1), strict=True):
            usage = max(turn.usage.values(), key=lambda model: model.output)
            assert (usage.input, usage.output) == (11 * requests, 42 * requests)
            assert sum(model.cost_usd for model in turn.usage.values()) == pytest.approx(turn.cost_usd)
        assert turns[0].cost_usd == turns[2].cost_usd


@pytest.mark.rules("S004-263", "S004-104", "S004-105")
def test_compaction_events_keep_the_order_of_the_records() -> None:
    for version in VERSIONS:
        log = log_of(f"{version}-compact")
        assert [event.phase for event in all_of(log, ev.Compaction)] == ["started", "ended", "boundary"]
        boundary = all_of(log, ev.Compaction)[-1]
        assert boundary.trigger == "manual"
        assert boundary.pre_tokens > 0


@pytest.mark.rules("S004-263", "S004-264", "S004-108")
def test_compaction_in_the_order_of_the_seed_is_emitted_too() -> None:
    log = log_of("every-type")
    assert [event.phase for event in all_of(log, ev.Compaction)] == ["started", "boundary", "ended"]
    assert (all_of(log, ev.Compaction)[1].trigger, all_of(log, ev.Compaction)[1].pre_tokens) == ("auto", 1234)


@pytest.mark.rules("S004-106")
def test_a_mode_change_is_emitted_when_the_version_reports_it() -> None:
    new = [event.mode for event in all_of(log_of("2.1.325-set_permission_mode"), ev.ModeChanged)]
    assert new == ["acceptEdits", "plan", "default", "dontAsk", "auto", "acceptEdits"]
    assert [event.mode for event in all_of(log_of("2.1.120-set_permission_mode"), ev.ModeChanged)][:2] == new[:2]
    # 2.1.37 reports it only with the next init.
    assert len(all_of(log_of("2.1.37-set_permission_mode"), ev.ModeChanged)) == 1


def test_a_heartbeat_is_progress_of_its_call() -> None:
    log = log_of("2.1.325-tool_progress")
    progress = the(log, ev.ToolProgress)
    assert (progress.call, progress.elapsed_s) == (the(log, ev.ToolCalled).call, 30)
    assert progress.subagent is None


def test_plans_and_questions_have_their_own_events() -> None:
    for version in VERSIONS:
        assert the(log_of(f"{version}-exit_plan"), ev.PlanProposed).plan == "1. do it"
    for version in ("2.1.37", "2.1.325"):
        (question,) = the(log_of(f"{version}-ask_user_question"), ev.QuestionAsked).questions
        assert question["question"] == "Which colour?"


@pytest.mark.rules("S004-255")
def test_a_replayed_prompt_is_not_emitted_again() -> None:
    for version in ("2.1.120", "2.1.325"):
        messages = all_of(log_of(f"{version}-resume_replay"), ev.UserMessage)
        assert [event.via for event in messages] == ["prompt", "prompt"]


@pytest.mark.rules("S004-279")
def test_a_replayed_buffer_changes_nothing() -> None:
    counts = Counter(
        given["agent"].get("uuid") for given in inputs("2.1.120-ws_reconnect_midstream") if "agent" in given
    )
    assert max(count for name, count in counts.items() if name) == 2, "the version says its buffer again"
    log = log_of("2.1.120-ws_reconnect_midstream")
    streamed = "".join(event.text for event in all_of(log, ev.TextDelta)[:24])
    assert streamed == all_of(log, ev.Text)[0].text
    assert len(all_of(log, ev.TextDelta)) == 24 + 8


def test_prompts_queued_by_the_cli_become_turns_started_by_the_agent() -> None:
    old = all_of(log_of("2.1.37-queue_two"), ev.TurnStarted)
    assert [turn.trigger for turn in old] == ["prompt", "agent", "agent"]
    for version in ("2.1.120", "2.1.325"):
        merged = log_of(f"{version}-queue_two")
        assert [turn.trigger for turn in all_of(merged, ev.TurnStarted)] == ["prompt", "agent"]
        assert [message.via for message in all_of(merged, ev.UserMessage)] == ["prompt", "steer", "steer"]


def test_a_killed_agent_leaves_a_failed_turn_and_its_partial_text() -> None:
    log = log_of("2.1.325-kill9_then_resume")
    assert [turn.status for turn in all_of(log, ev.TurnEnded)] == ["completed", "failed", "completed"]
    failed = all_of(log, ev.TurnEnded)[1]
    partial = [seq for seq, event in log.entries if isinstance(event, ev.TextDelta) and event.turn == failed.turn]
    assert partial and not log.dropped & set(partial)


def test_output_of_a_local_command_is_emitted_in_every_version() -> None:
    assert the(log_of("2.1.37-slash_unknown"), ev.Notice).kind == "local_command"
    for version in ("2.1.120", "2.1.325"):
        answer = the(log_of(f"{version}-slash_unknown"), ev.Text)
        assert answer.text.startswith("## Context Usage")
        assert answer.error == ""


@pytest.mark.rules("S004-055", "S004-056", "S004-057", "S004-066", "S004-255")
def test_records_outside_the_conversation_are_not_shown_as_conversation() -> None:
    log = log_of("every-type")
    words = [event.text for event in all_of(log, ev.Text)]
    assert "hidden" not in " ".join(words)
    (own,) = [event for event in all_of(log, ev.UserMessage) if "an order of the agent" in str(event.content)]
    assert (own.synthetic, own.via) == (True, "agent")
    assert "an old prompt" not in str([event.content for event in all_of(log, ev.UserMessage)])
    kept = {event.record for event in all_of(log, ev.RecordStored)}
    assert kept >= {"streamlined_text", "streamlined_tool_use_summary"}
    assert not kept & {"keep_alive", "control_request", "control_response", "control_cancel_request"}


@pytest.mark.rules("S004-055", "S004-056")
def test_protocol_messages_produce_no_events() -> None:
    """The exception is a control request that needs a person: it produces a permission event."""
    protocol = ("keep_alive", "control_response", "control_cancel_request", "control_request")
    found = [given for given in inputs("every-type") if given.get("agent", {}).get("type") in protocol]
    assert {given["agent"]["type"] for given in found} == set(protocol)
    log = Log().run(inputs("every-type")[:1])
    assert {event.__struct_config__.tag for given in found for event in log.add(given).events} == {"permission.asked"}


@pytest.mark.rules("S004-111", "S004-112", "S004-115")
def test_summaries_sign_ins_and_persisted_files_are_notices_with_their_fields() -> None:
    notices = [(event.kind, event.text, event.data) for event in all_of(log_of("every-type"), ev.Notice)]
    assert ("tool_use_summary", "Listed the files", {"calls": ["toolu_1"]}) in notices
    assert [(text, data) for kind, text, data in notices if kind == "auth_status"] == [
        ("open the browser", {"isAuthenticating": True, "output": ["open the browser"]}),
        ("refused", {"isAuthenticating": False, "output": []}),
    ]
    files = {"files": [{"filename": "a", "file_id": "f"}], "failed": [{"filename": "b", "error": "e"}]}
    assert ("files_persisted", "", {**files, "processed_at": "2026-01-01T00:00:00Z"}) in notices


@pytest.mark.rules("S004-116", "S004-117", "S004-118", "S004-119", "S004-120")
def test_events_of_one_hook_run_share_its_id() -> None:
    runs = all_of(log_of("every-type"), ev.HookProgress)
    assert [(run.hook, run.phase, run.outcome) for run in runs] == [
        ("h1", "started", ""),
        ("h1", "progress", ""),
        ("h1", "ended", "success"),
        ("h2", "ended", "error"),
        ("h3", "ended", "cancelled"),
    ]
    assert {(run.hook, run.name, run.event) for run in runs[:3]} == {("h1", "PreToolUse:Bash", "PreToolUse")}
    assert [(run.output, run.exit_code) for run in runs] == [("", None), ("ab", None), ("ok", 0), ("no", 1), ("", None)]


@pytest.mark.rules("S004-099", "S004-269")
def test_every_error_subtype_is_a_failure() -> None:
    reasons = [turn.reason for turn in all_of(log_of("every-type"), ev.TurnEnded) if turn.status == "failed"]
    assert reasons == [
        "error_max_turns",
        "error_max_budget_usd",
        "error_max_structured_output_retries",
        "error_during_execution",
        "error_of_tomorrow",
        "the result could not be read",
    ]


def test_a_success_has_its_text_and_its_structured_output() -> None:
    ended = all_of(log_of("every-type"), ev.TurnEnded)[0]
    assert (ended.status, ended.text, ended.output) == ("completed", "the end", {"x": 1})


@pytest.mark.rules("S004-325", "S004-346")
def test_unknown_records_and_blocks_are_stored_and_marked_unknown() -> None:
    unknown = [
        (event.record, event.subtype) for event in all_of(log_of("every-type"), ev.RecordStored) if not event.known
    ]
    assert unknown == [
        ("assistant", "new_block"),
        ("system", "never_heard_of"),
        ("brand_new_type", ""),
        ("result", ""),
    ]


@pytest.mark.rules("S004-151", "S004-157")
def test_a_permission_request_keeps_the_other_fields_of_the_agent() -> None:
    asked = the(log_of("every-type"), ev.PermissionRequested)
    assert (asked.title, asked.reason, asked.blocked_path) == ("show the state", "workingDir", "/etc")
    assert asked.suggestions == ("Bash(git:*)", "Read")
    assert asked.data["mcp_server"] == "none"
    assert kinds(log_of("every-type")).count("permission.asked") == 1


def test_a_prompt_during_background_work_and_the_work_have_separate_turns() -> None:
    log = log_of("2.1.325-background_and_prompt")
    assert [turn.trigger for turn in all_of(log, ev.TurnStarted)] == ["prompt", "prompt", "agent"]
    assert [turn.closed for turn in all_of(log, ev.TurnEnded)] == [(), (), ()]
    inner = [event for event in all_of(log, ev.ToolEnded) if event.subagent is not None]
    assert [(event.name, event.status) for event in inner] == [("Bash", "done")]


def test_an_interrupt_outside_a_turn_stops_background_work_and_opens_no_turn() -> None:
    log = log_of("2.1.325-interrupt_background")
    assert the(log, ev.SubagentEnded).status == "stopped"
    assert [turn.trigger for turn in all_of(log, ev.TurnStarted)] == ["prompt", "prompt"]
    assert [turn.status for turn in all_of(log, ev.TurnEnded)] == ["completed", "completed"]


@pytest.mark.rules("S004-164", "S004-166")
def test_an_interrupt_in_the_middle_of_a_text_keeps_its_deltas() -> None:
    """2.1.37 drops the partial text: only its deltas exist, and they are kept."""
    log = log_of("2.1.37-interrupt_text")
    cancelled, completed = all_of(log, ev.TurnEnded)
    assert (cancelled.status, completed.status) == ("cancelled", "completed")
    partial = {seq for seq, event in log.entries if isinstance(event, ev.TextDelta) and event.turn == cancelled.turn}
    assert partial
    assert not partial & log.dropped


def test_nested_subagents_of_the_real_cli() -> None:
    outer, inner = all_of(log_of("2.1.325-nested_subagents"), ev.SubagentStarted)
    assert (outer.subagent, inner.subagent) == (None, outer.child)


def test_a_background_shell_reports_in_a_turn_started_by_the_agent() -> None:
    log = log_of("2.1.325-background_shell")
    assert [turn.trigger for turn in all_of(log, ev.TurnStarted)] == ["prompt", "agent"]
    for version in ("2.1.37", "2.1.325"):
        notice = the(log_of(f"{version}-background_shell"), ev.Notice)
        assert notice.kind == "task_notification"
        assert notice.data["status"] == "completed"
