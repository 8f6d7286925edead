"""Two sources, one session: rows of the transcript after the wire, and how a turn without a result ended."""

from typing import Any

import pytest

from agents.claude.golden_claude import Input, Log, inputs
from agents.claude.record_builders import (
    all_of,
    assistant,
    begin,
    interpret,
    kinds,
    piece,
    prompt,
    result,
    row,
    start,
    stop,
    text,
    the,
    use,
)
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.model import events as ev


def says(*blocks: Any, stop_reason: str | None = "end_turn", message: str = "msg_1", **fields: Any) -> Input:
    content = {"id": message, "role": "assistant", "model": "m", "content": list(blocks), "stop_reason": stop_reason}
    return row("assistant", content, **fields)


def types(words: Any, **fields: Any) -> Input:
    return row("user", {"role": "user", "content": words}, **fields)


def copy_of(given: Input, stop_reason: str | None = None) -> Input:
    """Build the transcript's copy of a wire record: the same uuid, and the true stop reason."""
    record = given["agent"]
    return {"transcript": {**record, "message": {**record["message"], "stop_reason": stop_reason}}}


@pytest.mark.parametrize(
    "case", ["2.1.37-subagent", "2.1.325-subagent", "2.1.325-thinking", "2.1.37-interrupt_tool", "2.1.37-compact"]
)
def test_transcript_rows_of_wire_records_add_nothing_to_the_conversation(case: str) -> None:
    version, scenario = case.split("-")
    wire = Log().run(inputs(case))
    before = len(wire.events)
    rows = [given for given in inputs(f"{version}-transcript-{scenario}") if "transcript" in given]
    # The prompts of these recordings had no uuid: neither their rows nor the root of a subagent can be recognised.
    rows = [given for given in rows if given["transcript"]["type"] != "user" or "toolUseResult" in given["transcript"]]
    wire.run(rows)
    new = [event for event in wire.events[before:] if not isinstance(event, ev.RecordStored | ev.Notice)]
    assert [ev.kind_of(event) for event in new] == []


def test_the_row_of_our_prompt_is_recognised() -> None:
    log = interpret(
        prompt("hello", "p1"), {"transcript": {"type": "user", "uuid": "p1", "message": {"content": "hello"}}}
    )
    assert len(all_of(log, ev.UserMessage)) == 1


def test_records_missing_from_the_wire_are_emitted_from_the_transcript() -> None:
    first = assistant(text("first"))
    log = interpret(prompt(), first, copy_of(first), says(use("toolu_1"), message="msg_2", stop_reason="tool_use"))
    log.run([types([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}], toolUseResult={"stdout": "x"})])
    log.run([says(text("last"), message="msg_3"), {"exit": "gateway lost"}])
    assert kinds(log)[2:] == ["text", "tool.called", "tool.ended", "text", "turn.ended"]
    assert the(log, ev.ToolEnded).data == {"stdout": "x"}
    assert the(log, ev.TurnEnded).status == "completed"


def test_a_block_cut_off_on_the_wire_is_completed_by_its_row() -> None:
    log = interpret(prompt(), start(), begin(0, {"type": "text"}), piece(0, "ab"), says(text("abcd")))
    assert [offset for _, offset in the(log, ev.Text).marks] == [2]
    assert len(log.dropped) == 1


def test_a_row_with_a_block_index_gets_exactly_that_index() -> None:
    first = assistant(text("zero"))
    log = interpret(prompt(), first, says(text("one"), apiBlockIndex=1), says(text("zero again"), apiBlockIndex=0))
    assert [(event.block, event.text) for event in all_of(log, ev.Text)] == [(0, "zero"), (1, "one")]


# --- how a turn without a result ended ------------------------------------------------------------------------


def ended(*given: Input) -> Any:
    return the(interpret(*given, {"exit": "gateway lost"}), ev.TurnEnded)


def test_the_transcript_copy_of_a_known_record_can_mark_the_end() -> None:
    final = assistant(text("done"))
    assert ended(prompt(), final).status == "failed"
    final = assistant(text("done"))
    assert ended(prompt(), final, copy_of(final, "end_turn")).status == "completed"


def test_rows_complete_a_turn_only_with_a_final_answer() -> None:
    assert ended(types("hi"), says(text("done"))).status == "completed"
    lost = ended(types("hi"), says(text("calling"), stop_reason="tool_use"))
    assert (lost.status, lost.reason) == ("failed", "gateway lost")
    assert ended(types("hi"), says(text("cut"), stop_reason=None)).status == "failed"
    assert ended(types("hi"), says({"type": "thinking", "thinking": "x"})).status == "failed"
    assert ended(types("hi")).status == "failed"
    open_call = says(use("toolu_1"), stop_reason="tool_use")
    assert ended(types("hi"), open_call).closed == ("toolu_1",)


def test_rows_of_an_old_version_complete_a_turn_without_stop_reasons() -> None:
    assert ended(types("hi"), says(text("done"), stop_reason=None, version="2.1.37")).status == "completed"
    call = says(use("toolu_1"), stop_reason=None, version="2.1.37", message="msg_2")
    assert ended(types("hi"), says(text("then"), stop_reason=None, version="2.1.37"), call).status == "failed"


def test_an_error_as_the_last_row_fails_the_turn() -> None:
    failed = ended(types("hi"), says(text("API Error"), stop_reason="stop_sequence", error="server_error"))
    assert (failed.status, failed.reason) == ("failed", "server_error")


def test_on_the_wire_the_stream_marks_the_final_message() -> None:
    final = [start(), begin(0, {"type": "text"}), piece(0, "a"), assistant(text("a")), *stop()]
    assert ended(prompt(), *final).status == "completed"
    assert ended(prompt(), *final[:-1]).status == "failed"
    assert ended(prompt(), *final, start("msg_2")).status == "failed"
    called = [start(), begin(0, use("toolu_1")), assistant(use("toolu_1")), *stop("tool_use")]
    assert ended(prompt(), *called).status == "failed"


def test_an_interrupt_before_the_exit_cancels_the_turn() -> None:
    assert ended(prompt(), {"interrupt": "i"}).status == "cancelled"
    assert ended(types("hi"), types([text("[Request interrupted by user]")])).status == "cancelled"


def test_the_next_prompt_in_a_transcript_ends_the_turn_before_it() -> None:
    log = interpret(
        types("one"), says(text("a")), types("two"), says(text("b"), message="msg_2"), types("three", uuid="u3")
    )
    assert [turn.status for turn in all_of(log, ev.TurnEnded)] == ["completed", "completed"]
    assert [message.via for message in all_of(log, ev.UserMessage)] == ["prompt", "prompt", "prompt"]
    log.run([types("and this")])
    assert all_of(log, ev.UserMessage)[-1].via == "steer"


def test_meta_rows_and_summaries_are_not_user_messages() -> None:
    log = interpret(
        types("hi"),
        types("Caveat", isMeta=True),
        types("This session is being continued", isCompactSummary=True),
        row("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 5}),
        row("system", subtype="microcompact_boundary", microcompactMetadata={"trigger": "auto", "preTokens": 7}),
        row("system", subtype="turn_duration", durationMs=5),
    )
    assert [(message.via, message.synthetic) for message in all_of(log, ev.UserMessage)] == [
        ("prompt", False),
        ("agent", True),
    ]
    assert [event.pre_tokens for event in all_of(log, ev.Compaction)] == [5, 7]


# --- sidechains ----------------------------------------------------------------------------------------------------

T = "toolu_task"


def side(given: Input, agent: str = "a1") -> Input:
    return {"transcript": {**given["transcript"], "isSidechain": True, "agentId": agent}}


def task() -> Input:
    return says(use(T, "Task", description="job"), stop_reason="tool_use")


def done(**fields: Any) -> Input:
    block = {"type": "tool_result", "tool_use_id": T, "content": "ok"}
    return types([block], toolUseResult={"status": "completed", "agentId": "a1"}, **fields)


def test_a_subagents_rows_wait_until_its_id_is_known() -> None:
    log = interpret(types("hi"), task(), side(types("do it")), side(says(text("deep"), message="m2")))
    assert all_of(log, ev.Text) == []
    log.add(done())
    assert the(log, ev.Text).subagent == subagent_id(T)
    assert all_of(log, ev.UserMessage)[-1].subagent == subagent_id(T)
    assert all_of(log, ev.UserMessage)[-1].via == "agent"


def test_an_open_call_of_an_ended_subagent_does_not_fail_the_turn() -> None:
    """The gateway died while the subagent's own call ran: its result is in the subagent's file alone."""
    inner = assistant(use("toolu_inner"), message="m2", parent=T, agent_id="a1")
    final = says(text("all done"), message="m3")
    assert ended(prompt(), assistant(use(T, "Task")), inner, done(), final).status == "completed"
    assert ended(prompt(), assistant(use(T, "Task")), inner, final).status == "failed"


def test_progress_rows_map_an_agent_id_to_its_call() -> None:
    progress = row("progress", data={"type": "agent_progress", "agentId": "a1"}, parentToolUseID=T)
    log = interpret(types("hi"), task(), progress, side(says(text("deep"), message="m2")))
    assert the(log, ev.Text).subagent == subagent_id(T)


def test_wire_records_map_an_agent_id_to_its_call() -> None:
    log = interpret(
        prompt(),
        assistant(use(T, "Task")),
        assistant(text("wire"), message="m1", parent=T, agent_id="a1"),
        side(says(text("row"), message="m2")),
    )
    assert [event.subagent for event in all_of(log, ev.Text)] == [subagent_id(T)] * 2


def test_an_unknown_sidechain_is_emitted_in_the_main_thread_at_the_end() -> None:
    log = interpret(types("hi"), side(says(text("deep"), message="m2")), {"exit": "gone"})
    assert the(log, ev.Notice).data == {"parent": "a1", "records": 1}
    assert the(log, ev.Text).subagent is None


def resolved(log: Log) -> Any:
    return the(log, ev.SubagentResolved)


def test_an_orphan_is_reassigned_when_its_call_arrives_late() -> None:
    log = interpret(types("hi"), side(says(use("toolu_x"), message="m2", stop_reason="tool_use")), {"exit": "gone"})
    assert all_of(log, ev.ToolCalled)[-1].subagent is None
    log.run([types("more"), task()])
    assert all_of(log, ev.SubagentResolved) == []
    log.add(done())
    event = resolved(log)
    assert (event.child, event.call) == (subagent_id(T), T)
    assert (event.messages, event.calls) == (("m2",), ("toolu_x",))
    log.add(side(says(text("deep"), message="m3")))
    assert all_of(log, ev.Text)[-1].subagent == subagent_id(T)
    assert len(all_of(log, ev.SubagentResolved)) == 1


def orphan_row(given: Input, parent: str | None, **fields: Any) -> Input:
    return {"transcript": {**given["transcript"], "isSidechain": True, "parentUuid": parent, **fields}}


def test_a_chain_of_orphans_is_reassigned_to_its_call_together() -> None:
    """Older versions write them like this: no agent ids, only parent uuids, and the prompt in the first row."""
    asked = {"transcript": {**says(use(T, "Task", prompt="job"), stop_reason="tool_use")["transcript"]}}
    root = orphan_row(types("job", uuid="r1"), None)
    chain = [orphan_row(says(text(str(n)), message=f"m{n}", uuid=f"r{n}"), f"r{n - 1}") for n in range(2, 5)]
    log = interpret(types("hi"), root, *chain, {"exit": "gone"})
    (notice,) = all_of(log, ev.Notice)
    assert (notice.kind, notice.data["records"]) == ("unresolved", 4)
    assert {event.subagent for event in all_of(log, ev.Text)} == {None}
    log.run([types("again"), asked])
    assert resolved(log).messages == ("r1", "m2", "m3", "m4")
    log.add(orphan_row(says(text("5"), message="m5", uuid="r5"), "r4"))
    assert all_of(log, ev.Text)[-1].subagent == subagent_id(T)


def test_orphans_that_follow_an_orphan_are_reassigned_with_it() -> None:
    root = orphan_row(types("job", uuid="r1"), None)
    second = orphan_row(says(text("2"), message="m2", uuid="r2"), "r1")
    asked = says(use(T, "Task", prompt="job"), stop_reason="tool_use")
    log = interpret(types("hi"), root, {"exit": "gone"}, second, {"exit": "gone"}, types("again"), asked)
    assert [event.messages for event in all_of(log, ev.SubagentResolved)] == [("r1",), ("m2",)]
    assert {event.child for event in all_of(log, ev.SubagentResolved)} == {subagent_id(T)}


def test_flushed_records_are_emitted_as_unresolved() -> None:
    log = interpret(types("hi"), side(says(text("deep"), message="m2")))
    assert log.interpreter.deferred_count == 1
    assert all_of(log, ev.Text) == []
    events = log.interpreter.flush_unresolved("cause").events
    assert [ev.kind_of(event) for event in events] == ["notice", "text"]
    assert (log.interpreter.deferred_count, log.interpreter.flush_unresolved("cause").events) == (0, ())


def test_the_text_of_a_result_maps_an_agent_id_to_its_call() -> None:
    words = [{"type": "text", "text": "agentId: not_this\n"}, {"type": "text", "text": "agentId: a1 (for resuming)"}]
    block = {"type": "tool_result", "tool_use_id": T, "content": words}
    log = interpret(types("hi"), task(), side(says(text("deep"), message="m2")), types([block]))
    assert the(log, ev.Text).subagent == subagent_id(T)


def test_a_block_written_twice_is_emitted_once_and_both_rows_are_stored() -> None:
    rows = [says(text("same")), says(text("same")), says(text("more")), says({"type": "thinking", "thinking": "t"})]
    log = interpret(
        types("hi"), *rows, says({"type": "thinking", "thinking": "t"}), says(text("same"), message="msg_2")
    )
    assert [(event.message, event.block, event.text) for event in all_of(log, ev.Text)] == [
        ("msg_1", 0, "same"),
        ("msg_1", 1, "more"),
        ("msg_2", 0, "same"),
    ]
    assert len(all_of(log, ev.Thinking)) == 1
    assert [event.record for event in all_of(log, ev.RecordStored)] == ["assistant", "assistant"]


def test_on_the_wire_two_blocks_with_the_same_text_are_two_events() -> None:
    log = interpret(prompt(), assistant(text("same")), assistant(text("same")))
    assert [event.block for event in all_of(log, ev.Text)] == [0, 1]


def test_a_result_ends_a_turn_started_by_a_transcript() -> None:
    assert the(interpret(types("hi"), says(text("a")), result(result="a")), ev.TurnEnded).text == "a"


def test_a_placeholder_answer_of_the_cli_is_not_emitted() -> None:
    """The CLI writes it when it resumes a conversation whose last turn was interrupted."""
    words = text("No response requested.")
    filler = row("assistant", {"role": "assistant", "model": "<synthetic>", "content": [words]})
    log = interpret(types("one"), says(words), filler)
    assert [event.model for event in all_of(log, ev.Text)] == ["m"]
    assert kinds(interpret(filler), kept=True) == ["record"], "nor does it open a turn"


# --- text that was not typed by a person


def test_text_next_to_a_tool_result_is_not_a_prompt() -> None:
    """For example in the row of a tool search: its turn continues."""
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}
    log = Log().run(
        [
            types("search"),
            says(use("toolu_1", "ToolSearch"), stop_reason="tool_use"),
            types([answer, text("Tool loaded.")]),
            says(use("toolu_2"), stop_reason="tool_use", message="msg_2"),
            types([{**answer, "tool_use_id": "toolu_2"}, text("Something for the model.")]),
            says(text("Done."), message="msg_3"),
        ]
    )
    assert len(all_of(log, ev.TurnStarted)) == 1 and not all_of(log, ev.TurnEnded)
    messages = all_of(log, ev.UserMessage)
    assert [(message.via, message.synthetic) for message in messages] == [("prompt", False), ("agent", False)]


def test_an_interrupt_text_next_to_a_tool_result_cancels_the_turn() -> None:
    refused = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True}
    log = Log()
    log.run([types("work"), says(use("toolu_1"), stop_reason="tool_use")])
    log.run([types([refused, text("[Request interrupted by user for tool use]")]), types("again")])
    assert [end.status for end in all_of(log, ev.TurnEnded)] == ["cancelled"]


def test_a_shell_command_and_its_output_are_notices() -> None:
    log = Log()
    log.run(
        [types("<bash-input>ls -a</bash-input>"), types("<bash-stdout>a\nb</bash-stdout><bash-stderr></bash-stderr>")]
    )
    notices = [(notice.kind, notice.text) for notice in all_of(log, ev.Notice)]
    assert notices == [("command", "! ls -a"), ("local_command", "a\nb")]
    assert not all_of(log, ev.UserMessage)


def test_a_compact_summary_of_the_agent_is_not_emitted_as_text() -> None:
    log = Log()
    log.run([types("hello"), says(text("What was said, in short."), isCompactSummary=True)])
    assert not all_of(log, ev.Text)


def test_the_only_waiting_subagent_gets_a_root_with_a_different_prompt() -> None:
    log = Log()
    log.run([types("go"), says(use("toolu_1", "Task", prompt="look around"), stop_reason="tool_use")])
    root = types("Look around, and be quick.", isSidechain=True, parentUuid=None)
    log.run([root, says(text("Found."), message="msg_2", isSidechain=True, parentUuid=root["transcript"]["uuid"])])
    events = log.interpreter.flush_unresolved("nothing more comes").events
    assert [event.subagent for event in events if isinstance(event, ev.Text | ev.UserMessage)] == [
        subagent_id("toolu_1"),
        subagent_id("toolu_1"),
    ]
    assert not [event for event in events if isinstance(event, ev.Notice | ev.TurnStarted | ev.TurnEnded)]
