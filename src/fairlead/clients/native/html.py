"""The log as one HTML file to read: turns in order, tools folded, subagents inside the call that started them.

A call's result and a subagent's messages come later than the call, so an open part is held back, together with
the parts after it; the closed parts at the front are written out. The held size is bounded: beyond the limit all held
parts are written as they are, and a late result gets a separate part.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.native.html_parts import FOOT, block, code, escape_text, head, image, time_html
from fairlead.model import events as ev
from fairlead.model.content import Content, ImageBlock, TextBlock
from fairlead.model.ids import CallId, MessageId, SubagentId
from fairlead.model.store import Entry, Summary

HELD_AT_MOST: Final = 8 << 20
"""The maximum number of characters held back until the open parts close."""


class _Part:
    """A part of the page, with the parts inside it. An open part may still get more of them."""

    def __init__(self, start: str, end: str, *, open: bool) -> None:
        self.start = start
        self.end = end
        self.open = open
        self.inner: list[_Part] = []

    def walk(self) -> "Iterator[_Part]":
        yield self
        for part in self.inner:
            yield from part.walk()

    def text(self) -> str:
        return f"{self.start}{''.join(part.text() for part in self.inner)}{self.end}"


class HtmlRenderer:
    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._page: list[_Part] = []
        self._held = 0
        self._calls: dict[CallId, _Part] = {}
        self._subagents: dict[SubagentId | None, _Part] = {}
        self._partial: dict[tuple[MessageId, int], tuple[SubagentId | None, list[str]]] = {}

    def begin(self) -> bytes:
        return head(self._summary).encode()

    def entry(self, entry: Entry) -> bytes:
        event = ev.decode(entry.event)
        note = self._render(event)
        if note:
            self._put(event.subagent, f'<p class="note">{escape_text(note)} {time_html(event.at)}</p>\n')
        return self._take_closed()

    def end(self) -> bytes:
        self._flush_partial()
        self._held = HELD_AT_MOST + 1
        return self._take_closed() + FOOT.encode()

    # --- placing parts

    def _put(self, subagent: SubagentId | None, start: str) -> None:
        self._add(self._subagents.get(subagent), start)

    def _add(self, outer: _Part | None, start: str, end: str = "", *, open: bool = False) -> _Part:
        part = _Part(start, end, open=open)
        self._held += len(start)
        (self._page if outer is None else outer.inner).append(part)
        return part

    def _take_closed(self) -> bytes:
        """Take the closed parts at the front, or all parts if too much is held. Nothing more can be added to them."""
        everything = self._held > HELD_AT_MOST
        done = list(takewhile(lambda outer: everything or not any(part.open for part in outer.walk()), self._page))
        if not done:
            return b""
        self._page = self._page[len(done) :]
        gone = {part for outer in done for part in outer.walk()}
        self._calls = {call: part for call, part in self._calls.items() if part not in gone}
        self._subagents = {child: part for child, part in self._subagents.items() if part not in gone}
        if not self._page:
            self._held = 0
        return "".join(part.text() for part in done).encode()

    # --- rendering events

    def _render(self, event: ev.Event) -> str:
        """Render a part of the conversation. For other events return one line, or nothing if they are not worth it."""
        match event:
            case ev.UserMessage():
                who = escape_text(event.by or ("agent" if event.via == "agent" else "You"))
                blocks = "".join(_content(part) for part in event.content)
                start = f'<section class="user"><span class="who">{who}</span>{time_html(event.at)}'
                self._put(event.subagent, f"{start}{blocks}</section>\n")
            case ev.TextDelta():
                self._partial.setdefault((event.message, event.block), (event.subagent, []))[1].append(event.text)
            case ev.Text():
                self._partial.pop((event.message, event.block), None)
                self._put(event.subagent, f'<div class="say">{escape_text(event.text)}</div>\n')
            case ev.Thinking():
                if event.text:
                    inner = f'<div class="say">{escape_text(event.text)}</div>'
                    self._put(event.subagent, f"<details><summary>Thinking</summary>{inner}</details>\n")
            case ev.ToolCalled():
                title = f"<summary><code>{escape_text(event.name)}</code> {escape_text(_gist(event.input))}</summary>"
                start = f"<details>{title}{code(event.input)}"
                outer = self._subagents.get(event.subagent)
                self._calls[event.call] = self._add(outer, start, "</details>\n", open=True)
            case ev.ToolEnded():
                self._result(event)
            case ev.SubagentStarted():
                # Its prompt is not shown here: the call's input has it, and it also comes as its first message.
                start = f"<details><summary>Subagent: {escape_text(event.title or event.kind or 'Subagent')}</summary>"
                outer = self._calls.get(event.call) or self._subagents.get(event.subagent)
                self._subagents[event.child] = self._add(outer, start, "</details>\n", open=True)
            case ev.SubagentEnded():
                if part := self._subagents.get(event.child):
                    part.open = False
                    self._add(part, f'<p class="note">{escape_text(event.status)}</p>')
            case ev.TurnEnded():
                self._turn_end(event)
            case ev.SessionForked():
                return f"Forked from {event.parent}"
            case ev.SessionChanged():
                return f"Renamed: {event.title}" if event.title else ""
            case ev.SessionClosed():
                return f"Closed: {event.reason}"
            case ev.AgentExited():
                return "" if event.expected else f"The agent exited: {event.reason}"
            case ev.PermissionRequested():
                return f"Asked for permission: {event.title or event.tool}"
            case ev.QuestionAsked():
                return f"Asked: {' / '.join(str(question.get('question', '')) for question in event.questions)}"
            case ev.PlanProposed():
                return f"Proposed a plan: {event.plan}"
            case ev.PermissionResolved():
                verdict = "Allowed" if event.behavior == "allow" else "Denied"
                return f"{verdict} {event.tool} ({event.by or event.rule or event.how}) {event.message}".strip()
            case ev.PermissionCancelled():
                return f"The request ended: {event.reason}"
            case ev.ModeChanged():
                return f"Mode: {event.mode}"
            case ev.ModelChanged():
                return f"Model: {event.model}"
            case ev.ThinkingChanged():
                return f"Thinking budget: {'default' if event.budget is None else event.budget}"
            case ev.Compaction():
                return "The conversation was compacted" if event.phase == "boundary" else ""
            case ev.Notice():
                return event.text
            case ev.MessageCancelled():
                return "A waiting message was cancelled"
            case ev.InterruptRequested():
                return f"Interrupted by {event.by}" if event.by else "Interrupted"
            case ev.Rewound():
                return "Files were restored"
            case ev.HandoverSettled():
                return f"Handed over to {event.link}" if event.outcome == "moved" else f"Stays on {event.link}"
            case ev.SubagentResolved():
                return f"The unresolved output above is from the subagent of {event.call}"
            case ev.ErrorRaised():
                return f"Error: {event.message}"
            case ev.LifecycleEvent() | ev.DeltaEvent() | ev.HousekeepingEvent() | ev.QueueEvent():
                pass
            case ev.TurnStarted() | ev.ToolProgress() | ev.RecordStored():
                pass
            case _:
                assert_never(event)
        return ""

    def _result(self, event: ev.ToolEnded) -> None:
        blocks = event.content if isinstance(event.content, list) else [event.content]
        text = "".join(block(part) for part in blocks if part is not None)
        if event.status != "done" or event.is_error:
            text = f'<p class="bad">{escape_text(event.status)}</p>{text}'
        call = self._calls.get(event.call)
        if call is None:
            title = f"<summary>Result of <code>{escape_text(event.name or event.call)}</code></summary>"
            self._put(event.subagent, f"<details>{title}{text}</details>\n")
        else:
            call.open = False
            self._add(call, text)

    def _turn_end(self, event: ev.TurnEnded) -> None:
        self._flush_partial()
        for call in event.closed:
            if part := self._calls.get(call):
                part.open = False
        facts = [
            escape_text(event.status),
            escape_text(event.reason),
            f"${event.cost_usd:.4f}" if event.cost_usd else "",
            f"{event.duration_ms / 1000:.1f} s" if event.duration_ms else "",
            *map(escape_text, event.errors),
        ]
        look = "end bad" if event.status == "failed" else "end"
        self._put(
            event.subagent, f'<p class="{look}">{" &middot; ".join(filter(None, facts))} {time_html(event.at)}</p>\n'
        )

    def _flush_partial(self) -> None:
        """Render text that was streamed and never finished."""
        for subagent, pieces in self._partial.values():
            self._put(subagent, f'<div class="say partial">{escape_text("".join(pieces))}</div>\n')
        self._partial.clear()


def _content(part: Content) -> str:
    match part:
        case TextBlock():
            return f"<p>{escape_text(part.text)}</p>"
        case ImageBlock():
            return image(part.source)
        case _:
            return code(msgspec.to_builtins(part))


def _gist(given: dict[str, Any]) -> str:
    """Return the main argument of a call (its command, path, ...), if its input has one."""
    for name in ("command", "file_path", "path", "pattern", "url", "query", "description"):
        value = given.get(name)
        if isinstance(value, str):
            return value if len(value) <= 120 else value[:119] + "…"
    return ""
