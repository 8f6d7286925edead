"""Streams: deltas with running offsets, blocks that mark and replace them, and deltas kept when no block arrives."""

from agents.claude.golden_claude import SESSION, Input, feed
from agents.claude.record_builders import (
    agent,
    all_of,
    assistant,
    begin,
    init,
    interpret,
    kinds,
    piece,
    prompt,
    result,
    start,
    stop,
    stream,
    text,
    the,
    use,
)
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.model import events as ev


def streamed(words: str, index: int = 0, message: str = "msg_1") -> list[Input]:
    return [begin(index, {"type": "text", "text": ""}), *(piece(index, word) for word in words)]


def test_deltas_carry_running_offsets_and_the_block_names_them() -> None:
    log = interpret(prompt(), start(), *streamed("abc"), assistant(text("abc")))
    assert [(event.offset, event.text) for event in all_of(log, ev.TextDelta)] == [(0, "a"), (1, "b"), (2, "c")]
    seqs = [seq for seq, event in log.entries if isinstance(event, ev.TextDelta)]
    assert the(log, ev.Text).marks == tuple(zip(seqs, (1, 2, 3), strict=True))
    assert log.dropped == set(seqs)


def test_frame_records_of_a_message_are_dropped_with_the_next_event_after_its_stop() -> None:
    log = interpret(
        prompt(), start(), *streamed("a"), assistant(text("a")), stream("content_block_stop", index=0), *stop()
    )
    frame = {seq for seq, event in log.entries if isinstance(event, ev.RecordStored)}
    assert len(frame) == 5
    assert not log.dropped & frame
    log.add(result())
    assert frame <= log.dropped


def test_the_next_message_ends_a_message_without_a_stop() -> None:
    log = interpret(prompt(), start("msg_1"), *streamed("a"), assistant(text("a")), start("msg_2"))
    kept = [seq for seq, event in log.entries if isinstance(event, ev.RecordStored)]
    assert kept[0] in log.dropped and kept[1] in log.dropped
    assert kept[2] not in log.dropped


def test_deltas_of_an_incomplete_block_are_kept_with_their_frame() -> None:
    log = interpret(prompt(), start("msg_1"), *streamed("ab"), start("msg_2"), *streamed("c"), result())
    assert log.dropped == set()


def test_a_block_shorter_than_its_deltas_has_no_marks_but_replaces_them() -> None:
    log = interpret(prompt(), start(), *streamed("abc"), assistant(text("ab")))
    assert the(log, ev.Text).marks == ()
    assert len(log.dropped) == 3


def test_a_partly_streamed_block_has_marks_for_the_streamed_part() -> None:
    log = interpret(prompt(), start(), *streamed("abc"), assistant(text("abcd")))
    assert [offset for _, offset in the(log, ev.Text).marks] == [1, 2, 3]


def test_thinking_and_its_signature_are_deltas() -> None:
    log = interpret(
        prompt(),
        start(),
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        piece(0, "so", "thinking_delta"),
        piece(0, "SIG", "signature_delta"),
        assistant({"type": "thinking", "thinking": "so", "signature": "SIG"}),
    )
    first, second = all_of(log, ev.ThinkingDelta)
    assert (first.offset, first.text, first.signature) == (0, "so", "")
    assert (second.offset, second.text, second.signature) == (2, "", "SIG")
    assert [offset for _, offset in the(log, ev.Thinking).marks] == [2, 2]


def test_a_tools_input_is_streamed_under_its_call() -> None:
    log = interpret(
        prompt(),
        start(),
        begin(0, use("toolu_1")),
        piece(0, '{"command":', "input_json_delta"),
        piece(0, '"ls"}', "input_json_delta"),
        assistant(use("toolu_1", command="ls")),
    )
    first, second = all_of(log, ev.InputDelta)
    assert (first.call, first.name, first.offset, second.offset) == ("toolu_1", "Bash", 0, 11)
    assert [offset for _, offset in the(log, ev.ToolCalled).marks] == [11, 16]


def test_an_omitted_block_does_not_shift_the_others() -> None:
    """The assistant record of a block gets the index of its stream."""
    log = interpret(
        prompt(),
        start(),
        begin(0, {"type": "text", "text": ""}),
        begin(1, {"type": "tool_use", "id": "toolu_1", "name": "Bash"}),
        begin(2, {"type": "tool_use", "id": "toolu_2", "name": "Bash"}),
        assistant(use("toolu_2")),
        assistant(use("toolu_1")),
        assistant(text("last")),
    )
    assert [(event.call, event.block) for event in all_of(log, ev.ToolCalled)] == [("toolu_2", 2), ("toolu_1", 1)]
    assert the(log, ev.Text).block == 0


def test_a_block_that_was_not_streamed_gets_the_next_free_index() -> None:
    log = interpret(prompt(), start(), *streamed("a"), assistant(text("a")), assistant(text("b")), assistant(text("c")))
    assert [event.block for event in all_of(log, ev.Text)] == [0, 1, 2]


def test_records_with_several_blocks_give_several_events() -> None:
    log = interpret(prompt(), assistant(text("a"), use("toolu_1"), text("b")))
    assert kinds(log)[2:] == ["text", "tool.called", "text"]
    assert [event.block for event in all_of(log, ev.Text)] == [0, 2]


def test_a_delta_of_an_unknown_kind_is_stored_and_dropped_with_its_message() -> None:
    log = interpret(
        prompt(),
        start(),
        begin(0, {"type": "text", "text": ""}),
        stream("content_block_delta", index=0, delta={"type": "citations_delta", "citation": {}}),
        stream("content_block_delta", index=0, delta={"type": "text_delta", "text": 7}),
        piece(0, "x", "thinking_delta"),
        piece(3, "{", "input_json_delta"),
        stream("ping"),
        assistant(text("")),
        *stop(),
        result(),
    )
    assert not any(isinstance(event, ev.Delta) for event in log.events)
    kept = {seq for seq, event in log.entries if isinstance(event, ev.RecordStored)}
    assert kept == log.dropped


def test_a_delta_before_any_start_is_kept() -> None:
    log = interpret(prompt(), piece(0, "lost"))
    assert the(log, ev.RecordStored).subtype == "content_block_delta"


def test_a_delta_without_a_block_start_opens_its_block() -> None:
    log = interpret(prompt(), start(), piece(0, "ab"), assistant(text("ab")))
    assert the(log, ev.TextDelta).text == "ab"
    assert len(the(log, ev.Text).marks) == 1


def test_a_repeated_stream_event_is_emitted_once() -> None:
    once = piece(0, "a")
    log = interpret(prompt(), start(), begin(0, {"type": "text"}), once, once, assistant(text("a")))
    assert len(all_of(log, ev.TextDelta)) == 1
    assert len(the(log, ev.Text).marks) == 1


def test_two_threads_stream_side_by_side() -> None:
    log = interpret(
        prompt(),
        assistant(use("toolu_t", "Task"), message="msg_0"),
        start("msg_1"),
        start("msg_2", "toolu_t"),
        begin(0, {"type": "text"}),
        begin(0, {"type": "text"}, "toolu_t"),
        piece(0, "main"),
        piece(0, "side", parent="toolu_t"),
        assistant(text("side"), message="msg_2", parent="toolu_t"),
        assistant(text("main"), message="msg_1"),
    )
    side, main = all_of(log, ev.Text)
    assert (side.text, main.text) == ("side", "main")
    assert side.subagent == the(log, ev.SubagentStarted).child
    assert len(side.marks) == len(main.marks) == 1


def test_without_assigned_seqs_a_block_has_no_marks() -> None:
    interpreter = ClaudeInterpreter(SESSION)
    *before, last = prompt(), start(), *streamed("ab"), assistant(text("ab"))
    for given in before:
        feed(interpreter, given, 1)
    outcome = feed(interpreter, last, 1)
    (block,) = outcome.events
    assert isinstance(block, ev.Text)
    assert (block.marks, outcome.drop) == ((), ())


def test_a_block_repeated_under_another_uuid_is_emitted_once() -> None:
    twice = assistant(use("toolu_1"))
    again = {"agent": {**twice["agent"], "uuid": "other"}}
    log = interpret(prompt(), twice, again)
    assert len(all_of(log, ev.ToolCalled)) == 1


def test_an_assistant_record_without_content_opens_no_turn() -> None:
    log = interpret(assistant())
    assert kinds(log, kept=True) == ["record"]


def test_an_init_after_the_result_opens_a_turn_started_by_the_agent() -> None:
    log = interpret(init(), agent("assistant", message={"id": "m", "content": "plain"}), result(result="plain"))
    assert the(log, ev.TurnStarted).trigger == "agent"
    assert the(log, ev.Text).text == "plain"
    assert the(log, ev.TurnEnded).text == "plain"
