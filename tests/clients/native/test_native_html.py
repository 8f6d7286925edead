"""The HTML export: easy to read, complete, and every text of a user or an agent stays plain text."""

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


def text(content: str, **more: Any) -> ev.Text:
    return ev.Text(id=ID, message=M, block=0, text=content, **more)


def called(call: str, **more: Any) -> ev.ToolCalled:
    return ev.ToolCalled(
        id=ID, call=CallId(call), name=more.pop("name", "Bash"), input=more.pop("input", {}), message=M, **more
    )


def ended(call: str, content: Any, **more: Any) -> ev.ToolEnded:
    return ev.ToolEnded(id=ID, call=CallId(call), content=content, **more)


class Outline(HTMLParser):
    """Collects the elements that the page really has, and checks that they are properly nested."""

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


def everything(hostile: str) -> list[ev.Event]:
    """One event of every kind, with `hostile` in every field that can hold foreign text."""
    sub = SubagentId("c1")
    return [
        ev.SessionOpened(id=ID, cwd=hostile, agent=hostile),
        ev.SessionForked(id=ID, parent=SessionId(hostile), seq=1),
        ev.UserMessage(
            id=ID,
            message=M,
            by=hostile,
            content=(
                TextBlock(hostile),
                ImageBlock({"type": "base64", "media_type": hostile, "data": hostile}),
                OtherBlock(hostile),
            ),
        ),
        ev.TextDelta(id=ID, message=M, block=9, offset=0, text=hostile),
        ev.Thinking(id=ID, message=M, block=0, text=hostile),
        text(hostile),
        called("1", name=hostile, input={"command": hostile, hostile: hostile}),
        ev.SubagentStarted(id=ID, child=sub, call=CallId("1"), title=hostile, kind=hostile, prompt=hostile),
        text(hostile, subagent=sub),
        ev.SubagentEnded(id=ID, child=sub, call=CallId("1"), summary=hostile),
        ended(
            "1",
            [
                {"type": "text", "text": hostile},
                {"type": "image", "source": {"data": hostile}},
                hostile,
                {hostile: hostile},
            ],
        ),
        ended("unknown", hostile, name=hostile, is_error=True, status="failed"),
        ev.PermissionRequested(id=ID, request=RequestId("r"), call=CallId("1"), tool=hostile, input={}, title=hostile),
        ev.QuestionAsked(id=ID, request=RequestId("r"), call=CallId("1"), questions=({"question": hostile},)),
        ev.PlanProposed(id=ID, request=RequestId("r"), call=CallId("1"), plan=hostile),
        ev.PermissionResolved(
            id=ID,
            request=RequestId("r"),
            call=CallId("1"),
            tool=hostile,
            behavior="deny",
            how="person",
            by=hostile,
            message=hostile,
        ),
        ev.PermissionCancelled(id=ID, request=RequestId("r"), reason=hostile),
        ev.ModeChanged(id=ID, mode=hostile),
        ev.ModelChanged(id=ID, model=hostile),
        ev.ThinkingChanged(id=ID, budget=None),
        ev.Compaction(id=ID, phase="boundary"),
        ev.Notice(id=ID, kind="x", text=hostile),
        ev.InterruptRequested(id=ID, by=hostile),
        ev.ErrorRaised(id=ID, code="x", message=hostile),
        ev.Rewound(id=ID, message=M),
        ev.MessageCancelled(id=ID, message=M),
        ev.SessionChanged(id=ID, title=hostile),
        ev.AgentExited(id=ID, reason=hostile, expected=False),
        ev.SessionClosed(id=ID, reason=hostile),
        ev.RecordStored(id=ID, record=hostile),
        ev.TurnEnded(id=ID, status="failed", reason=hostile, errors=(hostile,), cost_usd=0.5, duration_ms=1500),
    ]


@pytest.mark.parametrize("raw", HOSTILE)
def test_hostile_text_stays_text_in_every_field(raw: str) -> None:
    summary = Summary(session=SESSION, title=raw, cwd=raw, agent=raw, model=raw)
    found = outline(page(*everything(raw), summary=summary))
    assert found.tags <= TAGS
    assert not [name for name in found.attributes if name.startswith("on") or name in ("href", "action", "srcdoc")]
    assert found.text.count(raw) > 20


@given(st.text())
def test_no_text_creates_an_element(content: str) -> None:
    found = outline(page(*everything(content)))
    assert found.tags <= TAGS


def test_the_page_loads_nothing_runs_nothing_and_says_so() -> None:
    html = page(*everything("x"))
    assert f'content="{POLICY}"' in html
    assert "default-src 'none'" in POLICY and "unsafe" not in POLICY
    assert "<script" not in html and "http://" not in html and "https://" not in html
    assert html.count("<style>") == 1


@pytest.mark.parametrize(
    ("raw", "shown"),
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
def test_control_sequences_do_not_reach_the_reader(raw: str, shown: str) -> None:
    assert escape_text(raw) == shown


@given(st.text())
def test_escaped_text_has_no_control_characters(content: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", escape_text(content))


def test_a_result_is_shown_inside_its_call() -> None:
    html = page(called("1", input={"command": "ls"}), text("meanwhile"), ended("1", "a file"))
    call = html.index("<details><summary><code>Bash</code> ls</summary>")
    assert call < html.index("a file") < html.index("</details>") < html.index("meanwhile")


def test_a_subagent_is_shown_inside_the_call_that_started_it() -> None:
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


def test_unresolved_output_is_named_once_its_subagent_is_known() -> None:
    """Output that was already written stays where it is; a line names the subagent that it belongs to."""
    resolved = ev.SubagentResolved(id=EventId("r"), child=SubagentId("c1"), call=CallId("toolu_1"))
    assert "The unresolved output above is from the subagent of toolu_1" in page(text("deep"), resolved)


def test_the_end_of_a_turn_closes_its_calls_and_the_page_continues() -> None:
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


def test_held_back_output_is_bounded_and_a_late_result_is_shown_separately() -> None:
    renderer = HtmlRenderer(Summary(session=SESSION))
    renderer.begin()
    renderer.entry(entry(called("1", name="Slow"), 1))
    out = b""
    for seq in range(2, 12):
        out += renderer.entry(entry(text("x" * (HELD_AT_MOST // 8)), seq))
    assert b"<code>Slow</code>" in out
    assert b"Result of <code>Slow</code>" in renderer.entry(entry(ended("1", "late", name="Slow"), 20))
    outline((renderer.begin() + out + renderer.end()).decode())


def test_images_are_shown_only_if_embedded_in_the_page() -> None:
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


def test_a_time_outside_the_calendar_is_left_out() -> None:
    outline(page(ev.Notice(id=ID, kind="x", text="x", at=10**18)))
