"""The pages of a conversation: together they are the whole of it, each is bounded, and nothing in a log breaks one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.mcp.conversation_text import MOST_TEXT, event_text
from fairlead.clients.mcp.reading import PAGE_CHARACTERS, fit_page
from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.ids import CallId, EventId, MessageId, SessionId, SubagentId
from fairlead.model.store import Entry, event_line

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
LONG = st.text(max_size=40).flatmap(lambda text: st.sampled_from([text, text * 200, text * 2000]))
SUBAGENTS = st.sampled_from([None, None, SubagentId("c1")])


def text(content: str, subagent: SubagentId | None = None) -> ev.Text:
    return ev.Text(id=EventId("t"), message=MessageId("m"), block=0, text=content, subagent=subagent)


EVENTS = st.one_of(
    st.builds(text, LONG, SUBAGENTS),
    st.builds(
        lambda content, by: ev.UserMessage(
            id=EventId("u"), message=MessageId("m"), content=(TextBlock(content),), by=by
        ),
        LONG,
        st.text(max_size=100),
    ),
    st.builds(
        lambda given: ev.ToolCalled(
            id=EventId("c"), call=CallId("c"), name="Bash", input={"x": given}, message=MessageId("m")
        ),
        JSON,
    ),
    st.builds(lambda content: ev.ToolEnded(id=EventId("e"), call=CallId("c"), content=content), JSON),
    st.builds(lambda: ev.TurnStarted(id=EventId("s"))),
    st.builds(lambda reason: ev.TurnEnded(id=EventId("x"), status="failed", reason=reason), st.text(max_size=300)),
)


def lines_of(events: list[Any]) -> list[bytes]:
    return [
        event_line(SESSION, Entry(seq, seq - 1, 0, ev.kind_of(event), ev.encode(event)))
        for seq, event in enumerate(events, 1)
    ]


@given(st.lists(EVENTS, max_size=30))
def test_the_pages_together_are_the_whole_conversation(events: list[Any]) -> None:
    lines, pages = lines_of(events), []
    while True:
        shown, first = fit_page(lines)
        pages.append(shown)
        assert sum(map(len, shown[1:])) <= PAGE_CHARACTERS
        if first is None:
            break
        assert shown and first <= len(lines)
        lines = lines[: first - 1]
    assert [part for page in reversed(pages) for part in page] == [
        found for event in events if (found := event_text(event))
    ]


def test_a_long_message_is_cut_and_says_so() -> None:
    shown = event_text(text("x" * (MOST_TEXT + 5)))
    assert shown.endswith("x [... 5 more characters]") and len(shown) < MOST_TEXT + 100


def test_what_a_subagent_does_is_not_shown() -> None:
    assert event_text(text("inside", SubagentId("c1"))) == ""
