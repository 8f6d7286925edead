"""The mapper's rules one by one: messages of users and of the agent, calls and their titles, usage."""

from typing import Any

import pytest

from clients.happy.envelopes import (
    SESSION,
    MappedSession,
    assert_balanced,
    assistant,
    bare,
    call,
    kinds,
    map_envelopes,
    over,
    prompt,
    result,
    row,
    text,
    user,
)
from fairlead.clients.happy.envelopes import subagent_title, title_of
from fairlead.model import events as ev
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.ids import EventId, MessageId

P1, P2 = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
A1, A2 = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


# --- user messages -------------------------------------------------------------------------------------------------


@pytest.mark.rules("S001-034", "S001-035", "S001-036", "S001-046")
def test_a_users_text_is_one_envelope_without_a_turn() -> None:
    (envelope,) = map_envelopes([prompt("hello", P1)])
    assert envelope["role"] == "user"
    assert envelope["ev"] == {"t": "text", "text": "hello"}
    assert "turn" not in envelope
    assert envelope["claudeUuid"] == P1


def test_each_text_block_of_a_user_is_emitted_after_the_images() -> None:
    session = MappedSession()
    picture = ImageBlock({"type": "base64", "media_type": "image/png", "data": "AAAA"})
    content = (TextBlock("see"), picture, TextBlock("  "), TextBlock("this"))
    made = session.take([ev.UserMessage(id=EventId("x/0/user.message"), message=MessageId(P1), content=content)])
    assert bare(made) == [
        ("user", None, {"t": "file", "ref": f"{P1}.0", "name": "image-1.png", "size": 3, "mimeType": "image/png"}),
        ("user", None, {"t": "text", "text": "see"}),
        ("user", None, {"t": "text", "text": "this"}),
    ]
    assert all("turn" not in envelope for envelope in made)


def test_a_message_typed_into_a_terminal_keeps_both_ids() -> None:
    """The id under which the message was sent names its envelope; the agent's own record has another id."""
    typed = ev.UserMessage(
        id=EventId(f"{A1}/0/user.message"), message=MessageId(P1), content=(TextBlock("x"),), record=A1
    )
    (envelope,) = MappedSession().take([typed])
    assert (envelope["claudeUuid"], envelope["localId"]) == (A1, P1)
    assert envelope["id"] == map_envelopes([prompt("x", P1)])[0]["id"]


@pytest.mark.parametrize("stop", ["end_turn", "tool_use"])
@pytest.mark.rules("S001-033", "S001-049")
def test_a_users_text_closes_the_open_turn_as_completed(stop: str) -> None:
    session = MappedSession().run([row("user", "first", "u-1"), row("assistant", [text("yes")], "a-1", stop=stop)])
    assert bare(session.add(row("user", "second", "u-2"))) == [
        ("agent", None, {"t": "turn-end", "status": "completed"}),
        ("user", None, {"t": "text", "text": "second"}),
    ]
    session.add(row("assistant", [text("again")], "a-2"))
    session.add({"exit": ""})
    client = assert_balanced(session.envelopes)
    assert len({turn.id for turn in client.state.turns}) == 2


@pytest.mark.rules("S001-046")
def test_a_prompt_opens_no_turn_until_the_agent_emits_output() -> None:
    session = MappedSession().run([prompt("hello", P1)])
    assert session.add({"agent": {"type": "system", "subtype": "init", "session_id": SESSION}}) == []
    assert kinds(session.add(assistant(text("hi")))) == ["turn-start", "text"]


@pytest.mark.rules("S001-035")
def test_meta_records_give_no_envelope() -> None:
    session = MappedSession().run([prompt("hello", P1), assistant(text("hi"))])
    assert session.add(user("a skill's text", isMeta=True, isSynthetic=True)) == []
    assert session.add(user([text("and its blocks")], isSynthetic=True)) == []
    assert session.add(user([])) == []


@pytest.mark.rules("S001-043")
def test_a_summary_and_a_compact_summary_give_nothing_and_leave_the_turn() -> None:
    session = MappedSession().run([row("user", "go", "u-1"), row("assistant", [text("on")], "a-1", stop="tool_use")])
    summary = {"transcript": {"type": "summary", "summary": "A title", "leafUuid": "a-1"}}
    assert session.add(summary) == []
    assert session.add(row("user", "This session goes on from ...", "u-2", isCompactSummary=True)) == []
    (still,) = session.add(row("assistant", [text("more")], "a-2"))
    assert still["turn"] == session.envelopes[1]["turn"]


# --- messages of the agent -----------------------------------------------------------------------------------------


@pytest.mark.rules("S001-003", "S001-024", "S001-025", "S001-045", "S001-047")
def test_text_and_thinking_open_a_turn_once() -> None:
    session = MappedSession()
    first = session.add(assistant(text("one"), {"type": "thinking", "thinking": "two"}, uuid=A1))
    assert bare(first) == [
        ("agent", None, {"t": "turn-start"}),
        ("agent", None, {"t": "text", "text": "one"}),
        ("agent", None, {"t": "text", "text": "two", "thinking": True}),
    ]
    assert [envelope.get("claudeUuid") for envelope in first] == [None, A1, A1]
    assert kinds(session.add(assistant(text("three")))) == ["text"]


@pytest.mark.parametrize(
    "content",
    [
        [],
        "",
        [{"type": "redacted_thinking", "data": "x"}],
        [{"type": "thinking", "thinking": "", "signature": "s"}],
        [{"type": "of tomorrow"}],
    ],
)
@pytest.mark.rules("S001-045")
def test_an_assistant_record_with_nothing_to_show_opens_no_turn(content: Any) -> None:
    session = MappedSession()
    record = {"agent": {"type": "assistant", "message": {"role": "assistant", "content": content}}}
    assert session.add(record) == []
    assert session.add(over()) == []


def test_string_content_is_text() -> None:
    record = {"agent": {"type": "assistant", "message": {"role": "assistant", "content": "plain"}}}
    assert kinds(map_envelopes([record])) == ["turn-start", "text"]


@pytest.mark.rules("S001-024")
def test_a_repeated_block_of_a_message_is_emitted_once() -> None:
    message = {"id": "msg_1"}
    session = MappedSession().run([assistant(text("one"), uuid=A1, message=message, apiBlockIndex=0)])
    assert session.add(assistant(text("one"), uuid=A2, message=message, apiBlockIndex=0)) == []


def usage(**more: Any) -> dict[str, Any]:
    return {"usage": {"input_tokens": 3, "output_tokens": 5, **more}}


def test_usage_is_on_the_last_envelope_of_its_record() -> None:
    made = map_envelopes([assistant(text("one"), {"type": "thinking", "thinking": "two"}, message=usage())])
    assert [envelope.get("usage") for envelope in made] == [
        None,
        None,
        {"input_tokens": 3, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    ]
    (_, start) = map_envelopes([assistant(call("Bash", "tool-1", command="ls"), message=usage())])
    assert start["usage"]["output_tokens"] == 5
    made = map_envelopes([assistant(text("I ask"), call("Task", "task-1", prompt="count"), message=usage())])
    assert [(envelope["ev"]["t"], "usage" in envelope) for envelope in made] == [("turn-start", False), ("text", True)]


def test_a_synthetic_error_has_its_usage_without_a_tier_and_fails_the_turn() -> None:
    """The schema rejects `service_tier: null`; a valid tier is kept."""
    failed = assistant(
        text("API Error: 529"), message=usage(service_tier=None), error="overloaded", isApiErrorMessage=True
    )
    made = map_envelopes([failed, over("success", is_error=True, result="API Error: 529")])
    assert kinds(made) == ["turn-start", "text", "turn-end"]
    assert "service_tier" not in made[1]["usage"]
    assert made[-1]["ev"]["status"] == "failed"
    (_, tiered) = map_envelopes([assistant(text("x"), message=usage(service_tier="standard"))])
    assert tiered["usage"]["service_tier"] == "standard"


@pytest.mark.parametrize("wrong", ["many", {"input_tokens": "3"}, {"input_tokens": -1, "output_tokens": 2}, None])
def test_a_usage_that_cannot_be_read_is_left_out(wrong: Any) -> None:
    (_, envelope) = map_envelopes([assistant(text("x"), message={"usage": wrong})])
    assert "usage" not in envelope


def test_a_models_context_window_is_sent_after_its_first_result_for_that_model_only() -> None:
    def from_model(model: str) -> Any:
        return assistant(text("x"), message={"model": model, **usage()})

    def window(made: list[dict[str, Any]]) -> Any:
        return made[-1]["usage"].get("context_window")

    session = MappedSession()
    assert window(session.add(from_model("opus"))) is None
    facts = {"inputTokens": 1, "outputTokens": 1}
    models = {"opus": {**facts, "contextWindow": 200000}, "haiku": {**facts, "contextWindow": 0}}
    session.add(over(modelUsage=models))
    assert window(session.add(from_model("opus"))) == 200000
    assert window(session.add(from_model("haiku"))) is None
    assert window(session.add(from_model("sonnet"))) is None


# --- calls ---------------------------------------------------------------------------------------------------------


def test_a_call_and_its_result_stay_in_one_turn() -> None:
    session = MappedSession()
    session.add(assistant(call("Bash", "tool-1", command="ls", description="List")))
    (end,) = session.add(user([result("tool-1", [text("a.txt")], is_error=True)]))
    assert end["ev"] == {"t": "tool-call-end", "call": "tool-1", "result": [text("a.txt")], "isError": True}
    assert end["turn"] == session.envelopes[0]["turn"]


def test_the_result_of_a_call_that_was_never_shown_gives_nothing() -> None:
    assert map_envelopes([user([result("tool-0")])]) == []


@pytest.mark.rules("S001-060")
def test_a_calls_title_is_its_description() -> None:
    assert title_of("Bash", {"command": "ls"}) == "Bash call"
    assert title_of("Bash", {"description": "  "}) == "Bash call"
    assert title_of("Bash", {"description": 3}) == "Bash call"
    assert title_of("Bash", {"description": " List "}) == " List "
    assert title_of("Bash", {"description": "x" * 80}) == "x" * 80
    assert title_of("Bash", {"description": "x" * 81}) == "x" * 77 + "..."
    # Each character takes two UTF-16 units: the 77th unit would be half of one.
    assert title_of("Bash", {"description": "👋" * 41}) == "👋" * 38 + "..."
    assert title_of("Bash", {"description": "👋" * 40}) == "👋" * 40


@pytest.mark.parametrize(("given", "args"), [(None, {}), ([1], {"input": [1]}), ("ls", {"input": "ls"}), ({}, {})])
@pytest.mark.rules("S001-062")
def test_args_are_the_input_whatever_it_is(given: Any, args: dict[str, Any]) -> None:
    block = {"type": "tool_use", "id": "tool-1", "name": "", "input": given}
    (_, start) = map_envelopes([assistant(block)])
    assert start["ev"]["args"] == args
    assert start["ev"]["name"] == "unknown"


def test_a_subagents_title_is_the_first_non_empty_candidate() -> None:
    assert subagent_title({"description": " A ", "title": "B"}) == "A"
    assert subagent_title({"description": " ", "title": "B"}) == "B"
    assert subagent_title({"subagent_type": "Explore", "prompt": "look"}) == "Explore"
    assert subagent_title({"prompt": "look"}) == "look"
    assert subagent_title({"prompt": 3}) == ""
