"""Typed prompts in the interpreter: the transcript's row is the user's message, once, with our id."""

from typing import Any

import pytest

from agents.claude.golden_claude import SESSION, Input, Log
from agents.claude.record_builders import all_of, interpret, kinds, row, text, the
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.model import events as ev
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.ids import turn_id

M = "aaaaaaaa-0000-4000-8000-000000000001"
N = "aaaaaaaa-0000-4000-8000-000000000002"


def typed(words: Any = "hello", message: str = M) -> Input:
    return {"gateway": {"type": "fairlead_typed", "uuid": message, "content": words}}


def shows(words: Any = "hello", **fields: Any) -> Input:
    return row("user", {"role": "user", "content": words}, **fields)


def answers(words: str = "hi", stop: str | None = "end_turn", **fields: Any) -> Input:
    content = {"id": words, "role": "assistant", "model": "m", "content": [text(words)], "stop_reason": stop}
    return row("assistant", content, **fields)


def mark(what: str, **fields: Any) -> Input:
    return {"gateway": {"type": "fairlead_screen", "what": what, "cause": "c", **fields}}


def statuses(log: Log) -> list[tuple[str, str]]:
    return [(event.status, event.reason) for event in all_of(log, ev.TurnEnded)]


def test_a_typed_prompt_opens_the_turn_and_its_row_is_the_message() -> None:
    shown = shows()
    log = interpret(typed(), shown, answers(), mark("stopped"))
    assert kinds(log) == ["turn.started", "user.message", "text", "turn.ended"]
    message = the(log, ev.UserMessage)
    assert (message.message, message.record, message.via) == (M, shown["transcript"]["uuid"], "prompt")
    assert message.content == (TextBlock("hello"),)
    assert the(log, ev.TurnStarted).turn == turn_id(SESSION, M)
    assert statuses(log) == [("completed", "")]


@pytest.mark.parametrize("written", [" hello ", "\u2800hello", "hello\n"])
def test_the_row_may_differ_in_blanks_and_in_our_prefix(written: str) -> None:
    assert the(interpret(typed(), shows(written)), ev.UserMessage).content == (TextBlock("hello"),)


def test_a_typed_prompt_that_looks_like_cli_text_is_still_our_prompt() -> None:
    log = interpret(typed("[Request interrupted by me"), shows("[Request interrupted by me"), answers(), mark("idle"))
    assert kinds(log) == ["turn.started", "user.message", "text", "turn.ended"]
    assert statuses(log) == [("completed", "")]


def test_the_agent_is_busy_from_the_typed_prompt_on() -> None:
    log = interpret(typed())
    assert log.interpreter.busy
    log.run([shows(), answers(), mark("idle")])
    assert not log.interpreter.busy


def test_the_stop_may_come_before_the_last_row() -> None:
    log = interpret(typed(), shows(), mark("stopped"))
    assert log.interpreter.busy
    log.add(answers())
    assert statuses(log) == [("completed", "")]


def test_an_answer_written_before_its_prompt_still_ends_the_turn() -> None:
    log = interpret(typed(), answers(), shows(), mark("stopped"))
    assert kinds(log) == ["turn.started", "text", "user.message", "turn.ended"]


def test_the_screen_ends_a_turn_only_with_its_answer() -> None:
    log = interpret(typed(), mark("idle"), mark("left"), shows(), mark("idle"))
    assert statuses(log) == [] and log.interpreter.busy
    log.run([answers(), mark("idle")])
    assert statuses(log) == [("completed", "")]


def test_an_interrupt_cancels_the_turn_with_or_without_a_row() -> None:
    interrupted = shows([text("[Request interrupted by user]")])
    asked: Input = {"interrupt": "c"}
    for given in ([asked, interrupted, mark("idle")], [interrupted, mark("idle")], [asked, mark("idle")]):
        assert statuses(interpret(typed(), shows(), *given)) == [("cancelled", "interrupted")]
    log = interpret(typed(), shows(), mark("left"))
    assert [status for status, _ in statuses(log)] == ["cancelled"]


def test_a_late_row_about_an_interrupt_does_not_cancel_the_next_turn() -> None:
    late = shows([text("[Request interrupted by user for tool use]")])
    log = interpret(typed(), shows(), {"interrupt": "c"}, mark("idle"))
    log.run([typed("next", N), late, shows("next"), answers(), mark("stopped")])
    assert statuses(log) == [("cancelled", "interrupted"), ("completed", "")]


def test_a_model_error_fails_the_turn() -> None:
    log = interpret(typed(), shows(), answers("API Error", "stop_sequence", error="server_error"), mark("idle"))
    assert statuses(log) == [("failed", "server_error")]


def test_a_prompt_typed_by_a_person_opens_a_turn_too() -> None:
    log = interpret(shows("mine"), answers(), mark("stopped"), typed(), shows(), answers("two"), mark("stopped"))
    assert [event.message for event in all_of(log, ev.UserMessage)][1] == M
    assert [event.content for event in all_of(log, ev.UserMessage)] == [(TextBlock("mine"),), (TextBlock("hello"),)]
    assert [status for status, _ in statuses(log)] == ["completed"] * 2


def test_a_prompt_typed_by_a_person_may_come_before_ours() -> None:
    """Both prompts were typed: the person's was accepted first. Ours is emitted when its row arrives."""
    log = interpret(typed(), shows("mine"), answers("one"), shows(), answers("two"), mark("stopped"))
    assert [event.content[0].text for event in all_of(log, ev.UserMessage)] == ["mine", "hello"]
    assert [status for status, _ in statuses(log)] == ["completed"]


def test_a_prompt_that_could_not_be_typed_is_emitted_and_fails() -> None:
    log = interpret(
        typed(), mark("untyped", message=M, text="nobody listens"), mark("untyped", message=M, text="again")
    )
    assert kinds(log) == ["turn.started", "user.message", "turn.ended"]
    assert the(log, ev.UserMessage).record == ""
    assert statuses(log) == [("failed", "nobody listens")]
    cancelled = interpret(typed(), {"interrupt": "c"}, mark("untyped", message=M, text="it was interrupted"))
    assert statuses(cancelled) == [("cancelled", "interrupted")]
    late = interpret(typed(), shows(), mark("untyped", message=M, text="too late"))
    assert statuses(late) == []


def test_an_exit_before_the_row_does_not_lose_the_message() -> None:
    log = interpret(typed(), {"exit": "it crashed"})
    assert kinds(log) == ["turn.started", "user.message", "turn.ended"]
    assert statuses(log) == [("failed", "it crashed")]
    log.run([typed("next", N), shows("next"), answers(), mark("stopped")])
    assert [event.message for event in all_of(log, ev.UserMessage)] == [M, N]


def test_a_prompt_with_images_is_emitted_as_failed() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    log = interpret(typed([text("see"), image]))
    assert kinds(log) == ["turn.started", "user.message", "turn.ended"]
    assert isinstance(the(log, ev.UserMessage).content[1], ImageBlock)
    assert "stdio" in statuses(log)[0][1]
    assert not log.interpreter.busy


def test_ready_and_shows_markers_become_events() -> None:
    ready = mark("ready", agent_session="s", version="2.1.325", mode="plan", cwd="/w")
    log = interpret(ready, mark("shows", kind="dialog", text="answer it", lines=["Trust?"]))
    assert (the(log, ev.AgentReady).agent_session, the(log, ev.AgentReady).mode) == ("s", "plan")
    assert (the(log, ev.Notice).kind, the(log, ev.Notice).data) == ("terminal.dialog", {"lines": ("Trust?",)})


def test_our_markers_are_unknown_records_when_the_agent_sends_them() -> None:
    log = interpret({"agent": {"type": "fairlead_typed", "uuid": M, "content": "x"}})
    assert [event.known for event in all_of(log, ev.RecordStored)] == [False]


STORY = [
    mark("ready", agent_session="s", version="2.1.325", mode="default", cwd="/w"),
    typed(),
    shows(),
    mark("stopped"),
    answers(),
    typed("two", N),
    {"interrupt": "c"},
    shows("two"),
    mark("left"),
    shows("mine"),
    answers("three"),
    mark("idle"),
]


@pytest.mark.parametrize("cut", range(len(STORY)))
def test_snapshots_and_stored_records_reproduce_the_same_events(cut: int) -> None:
    """Resume from a snapshot in the middle; then replay only the records with events, as the log stores them."""
    whole = interpret(*STORY)
    first = interpret(*STORY[:cut])
    resumed = ClaudeInterpreter(SESSION)
    resumed.restore(first.interpreter.snapshot())
    rest = Log(resumed).run(STORY[cut:])
    assert [*first.events, *rest.events] == whole.events
    again = Log()
    stored = [given for given in STORY if Log(_after(STORY, given)).add(given).events or "interrupt" in given]
    again.run(stored)
    assert again.events == whole.events
    assert again.interpreter.turn == whole.interpreter.turn


def _after(story: list[Input], given: Input) -> ClaudeInterpreter:
    return interpret(*story[: story.index(given)]).interpreter
