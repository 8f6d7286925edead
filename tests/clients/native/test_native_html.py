"""The HTML export: easy to read, complete, and nothing that anybody said is more than text."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.native.html import HELD_AT_MOST, HtmlRenderer
from fairlead.clients.native.html_parts import POLICY, escape_text
from fairlead.model import events as ev
from fairlead.model.content import ImageBlock, OtherBlock, TextBlock
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId, SubagentId
from fairlead.model.store import Entry, Summary

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
ID = EventId("e")
M = MessageId("m")

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></details></body><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--", "]]>", "<style>*{display:none}</style>", "<meta http-equiv=refresh content=0>",
    "<a href=javascript:alert(1)>x</a>",
    "&lt;b&gt; stays as written &amp;",
]  # fmt: skip


def entry(event: ev.Event, seq: int) -> Entry:
    return Entry(seq, seq - 1, event.at, ev.kind_of(event), ev.encode(event))


def page(*events: ev.Event, summary: Summary | None = None) -> str:
    renderer = HtmlRenderer(summary or Summary(session=SESSION, title="A title"))
    pieces = [renderer.begin()]
    pieces += [renderer.entry(entry(event, seq)) for seq, event in enumerate(events, 1)]
    return b"".join([*pieces, renderer.end()]).decode()


def text(said: str, **more: Any) -> ev.Text:
    return ev.Text(id=ID, message=M, block=0, text=said, **more)


def called(call: str, **more: Any) -> ev.ToolCalled:
    return ev.ToolCalled(
        id=ID, call=CallId(call), name=more.pop("name", "Bash"), input=more.pop("input", {}), message=M, **more
    )


def ended(call: str, content: Any, **more: Any) -> ev.ToolEnded:
    return ev.ToolEnded(id=ID, call=CallId(call), content=content, **more)


class Outline(HTMLParser):
    """Which elements the page really has, and whether they close as they open."""

    VOID = ("meta", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    found.close()
    assert found.open == []
    return found


TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "p", "section", "span", "time", "div", "details", "summary",
    "code", "pre", "img",
}  # fmt: skip


def everything(said: str) -> list[ev.Event]:
    """One of every kind, with `said` wherever somebody can put words."""
    sub = SubagentId("c1")
    return [
        ev.SessionOpened(id=ID, cwd=said, agent=said),
        ev.SessionForked(id=ID, parent=SessionId(said), seq=1),
        ev.UserMessage(
            id=ID,
            message=M,
            by=said,
            content=(
                TextBlock(said),
                ImageBlock({"type": "base64", "media_type": said, "data": said}),
                OtherBlock(said),
            ),
        ),
        ev.TextDelta(id=ID, message=M, block=9, offset=0, text=said),
        ev.Thinking(id=ID, message=M, block=0, text=said),
        text(said),
        called("1", name=said, input={"command": said, said: said}),
        ev.SubagentStarted(id=ID, child=sub, call=CallId("1"), title=said, kind=said, prompt=said),
        text(said, subagent=sub),
        ev.SubagentEnded(id=ID, child=sub, call=CallId("1"), summary=said),
        ended("1", [{"type": "text", "text": said}, {"type": "image", "source": {"data": said}}, said, {said: said}]),
        ended("unknown", said, name=said, is_error=True, status="failed"),
        ev.PermissionRequested(id=ID, request=RequestId("r"), call=CallId("1"), tool=said, input={}, title=said),
        ev.QuestionAsked(id=ID, request=RequestId("r"), call=CallId("1"), questions=({"question": said},)),
        ev.PlanProposed(id=ID, request=RequestId("r"), call=CallId("1"), plan=said),
        ev.PermissionResolved(
            id=ID,
            request=RequestId("r"),
            call=CallId("1"),
            tool=said,
            behavior="deny",
            how="person",
            by=said,
            message=said,
        ),
        ev.PermissionCancelled(id=ID, request=RequestId("r"), reason=said),
        ev.ModeChanged(id=ID, mode=said),
        ev.ModelChanged(id=ID, model=said),
        ev.ThinkingChanged(id=ID, budget=None),
        ev.Compaction(id=ID, phase="boundary"),
        ev.Notice(id=ID, kind="x", text=said),
        ev.InterruptRequested(id=ID, by=said),
        ev.ErrorRaised(id=ID, code="x", message=said),
        ev.Rewound(id=ID, message=M),
        ev.MessageCancelled(id=ID, message=M),
        ev.SessionChanged(id=ID, title=said),
        ev.AgentExited(id=ID, reason=said, expected=False),
        ev.SessionClosed(id=ID, reason=said),
        ev.RecordStored(id=ID, record=said),
        ev.TurnEnded(id=ID, status="failed", reason=said, errors=(said,), cost_usd=0.5, duration_ms=1500),
    ]


@pytest.mark.parametrize("said", HOSTILE)
def test_hostile_words_stay_words_wherever_they_stand(said: str) -> None:
    summary = Summary(session=SESSION, title=said, cwd=said, agent=said, model=said)
    found = outline(page(*everything(said), summary=summary))
    assert found.tags <= TAGS
    assert not [name for name in found.attributes if name.startswith("on") or name in ("href", "action", "srcdoc")]
    assert found.text.count(said) > 20


@given(st.text())
def test_no_words_make_an_element(said: str) -> None:
    found = outline(page(*everything(said)))
    assert found.tags <= TAGS


def test_the_page_loads_nothing_runs_nothing_and_says_so() -> None:
    html = page(*everything("x"))
    assert f'content="{POLICY}"' in html
    assert "default-src 'none'" in POLICY and "unsafe" not in POLICY
    assert "<script" not in html and "http://" not in html and "https://" not in html
    assert html.count("<style>") == 1


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==\x07x", "x"),
        ("\x1bP1;2|dcs\x1b\\x", "x"),
        ("\x9b31mred", "red"),
        ("a\x00b\x08c\x7fd\x85e", "abcde"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\u202eevil\u202c", "evil"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("\x1b]unfinished", ""),
    ],
)
def test_control_sequences_do_not_reach_the_reader(said: str, shown: str) -> None:
    assert escape_text(said) == shown


@given(st.text())
def test_what_is_left_is_free_of_controls(said: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", escape_text(said))


def test_a_result_stands_inside_its_call() -> None:
    html = page(called("1", input={"command": "ls"}), text("meanwhile"), ended("1", "a file"))
    call = html.index("<details><summary><code>Bash</code> ls</summary>")
    assert call < html.index("a file") < html.index("</details>") < html.index("meanwhile")


def test_a_subagent_stands_inside_the_call_that_started_it() -> None:
    sub, inner = SubagentId("c1"), SubagentId("c2")
    html = page(
        called("1", name="Task"),
        ev.SubagentStarted(id=ID, child=sub, call=CallId("1"), title="outer"),
        called("2", name="Task", subagent=sub),
        ev.SubagentStarted(id=ID, child=inner, call=CallId("2"), title="inner", subagent=sub),
        text("deep words", subagent=inner),
        text("main words"),
        ev.SubagentEnded(id=ID, child=inner, call=CallId("2"), subagent=sub),
        ended("2", "inner result", subagent=sub),
        ev.SubagentEnded(id=ID, child=sub, call=CallId("1")),
        ended("1", "outer result"),
    )
    outline(html)
    order = ["Subagent: outer", "Subagent: inner", "deep words", "inner result", "outer result", "main words"]
    assert [html.index(word) for word in order] == sorted(html.index(word) for word in order)


def test_what_was_unresolved_is_named_when_it_is_known() -> None:
    """What has gone out stays where it is; a line says whose it was."""
    resolved = ev.SubagentResolved(id=EventId("r"), child=SubagentId("c1"), call=CallId("toolu_1"))
    assert "unresolved above was said by the subagent of toolu_1" in page(text("deep"), resolved)


def test_a_turn_that_ends_closes_its_calls_and_the_page_goes_on() -> None:
    renderer = HtmlRenderer(Summary(session=SESSION))
    renderer.begin()
    assert renderer.entry(entry(called("1"), 1)) == b""
    over = ev.TurnEnded(id=ID, status="cancelled", closed=(CallId("1"),))
    assert b"Bash" in renderer.entry(entry(over, 2))


def test_text_that_was_cut_off_is_shown_as_such_and_finished_text_only_once() -> None:
    html = page(
        ev.TextDelta(id=ID, message=M, block=0, offset=0, text="whole "),
        text("whole words"),
        ev.TextDelta(id=ID, message=M, block=1, offset=0, text="half a "),
        ev.TextDelta(id=ID, message=M, block=1, offset=7, text="sent"),
        ev.TurnEnded(id=ID, status="cancelled"),
    )
    assert html.count("whole") == 1
    assert '<div class="say partial">half a sent</div>' in html


def test_what_is_held_back_is_bounded_and_a_late_result_stands_alone() -> None:
    renderer = HtmlRenderer(Summary(session=SESSION))
    renderer.begin()
    renderer.entry(entry(called("1", name="Slow"), 1))
    out = b""
    for seq in range(2, 12):
        out += renderer.entry(entry(text("x" * (HELD_AT_MOST // 8)), seq))
    assert b"<code>Slow</code>" in out
    assert b"Result of <code>Slow</code>" in renderer.entry(entry(ended("1", "late", name="Slow"), 20))
    outline((renderer.begin() + out + renderer.end()).decode())


def test_pictures_are_shown_only_from_the_page_itself() -> None:
    good = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in page(
        ev.UserMessage(id=ID, message=M, content=(ImageBlock(good),))
    )
    for odd in (
        {"type": "url", "url": "https://evil/x.png"},
        {**good, "media_type": "image/svg+xml"},
        {**good, "data": '"><script>'},
        {**good, "data": 5},
    ):
        assert "<img" not in page(ev.UserMessage(id=ID, message=M, content=(ImageBlock(odd),)))


def test_a_time_that_no_calendar_has_is_left_out() -> None:
    outline(page(ev.Notice(id=ID, kind="x", text="x", at=10**18)))
