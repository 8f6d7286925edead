"""The log as one HTML file to read: turns in order, tools folded, subagents inside the call that started them.

A call's result and a subagent's messages come later than the call, so an open part is held back, together with
the parts after it; the closed parts at the front are written out. The held size is bounded: beyond the limit all held
parts are written as they are, and a late result gets a separate part.
"""

from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.native.html_parts import FOOT, block, code, escape_text, head, image, time_html
from fairlead.model import events as ev
from fairlead.model.content import Content, ImageBlock, TextBlock
from fairlead.model.ids import CallId, MessageId, SubagentId
from fairlead.model.store import Entry, Summary

HELD_AT_MOST: Final = 8 << 20
"""The maximum number of characters held back until the open parts close."""


class _Node:
    """A part of the page that contains other parts."""

    def __init__(self, start: str, end: str, *, open: bool) -> None:
        self.start = start
        self.end = end
        self.open = open
        self.parts: list[str | _Node] = []

    def waits(self) -> bool:
        return self.open or any(isinstance(part, _Node) and part.waits() for part in self.parts)

    def text(self) -> str:
        inside = "".join(part if isinstance(part, str) else part.text() for part in self.parts)
        return f"{self.start}{inside}{self.end}"


class HtmlRenderer:
    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._page: list[str | _Node] = []
        self._held = 0
        self._calls: dict[CallId, _Node] = {}
        self._subagents: dict[SubagentId, _Node] = {}
        self._partial: dict[tuple[MessageId, int], tuple[SubagentId | None, list[str]]] = {}

    def begin(self) -> bytes:
        return head(self._summary).encode()

    def entry(self, entry: Entry) -> bytes:
        self._show(ev.decode(entry.event))
        return self._closed()

    def end(self) -> bytes:
        self._flush_partial()
        self._held = HELD_AT_MOST + 1
        return self._closed() + FOOT.encode()

    # --- placing parts

    def _put(self, subagent: SubagentId | None, part: "str | _Node") -> None:
        self._held += len(part if isinstance(part, str) else part.start)
        node = self._subagents.get(subagent) if subagent is not None else None
        (self._page if node is None else node.parts).append(part)

    def _closed(self) -> bytes:
        out: list[str] = []
        everything = self._held > HELD_AT_MOST
        while self._page:
            first = self._page[0]
            if isinstance(first, _Node):
                if first.waits() and not everything:
                    break
                self._forget(first)
                text = first.text()
            else:
                text = first
            out.append(text)
            del self._page[0]
        if not self._page:
            self._held = 0
        return "".join(out).encode()

    def _forget(self, gone: _Node) -> None:
        """Drop the references to a written node: nothing more can be added to it or to its inner parts."""
        leaving = {gone} | _inside(gone)
        self._calls = {call: node for call, node in self._calls.items() if node not in leaving}
        self._subagents = {child: node for child, node in self._subagents.items() if node not in leaving}

    # --- rendering events

    def _show(self, event: ev.Event) -> None:
        match event:
            case ev.UserMessage():
                who = escape_text(event.by or ("agent" if event.via == "agent" else "You"))
                blocks = "".join(_content(part) for part in event.content)
                start = f'<section class="user"><span class="who">{who}</span>{time_html(event.at)}'
                self._put(event.subagent, f"{start}{blocks}</section>\n")
            case ev.TextDelta():
                place = self._partial.setdefault((event.message, event.block), (event.subagent, []))
                place[1].append(event.text)
            case ev.Text():
                self._partial.pop((event.message, event.block), None)
                self._put(event.subagent, f'<div class="say">{escape_text(event.text)}</div>\n')
            case ev.Thinking():
                if event.text:
                    inner = f'<div class="say">{escape_text(event.text)}</div>'
                    self._put(event.subagent, f"<details><summary>Thinking</summary>{inner}</details>\n")
            case ev.ToolCalled():
                self._call(event)
            case ev.ToolEnded():
                self._result(event)
            case ev.SubagentStarted():
                self._subagent(event)
            case ev.SubagentEnded():
                self._subagent_end(event)
            case ev.TurnEnded():
                self._turn_end(event)
            case _:
                self._aside(event)

    def _call(self, event: ev.ToolCalled) -> None:
        title = f"<summary><code>{escape_text(event.name)}</code> {escape_text(_gist(event.input))}</summary>"
        node = _Node(f"<details>{title}{code(event.input)}", "</details>\n", open=True)
        self._put(event.subagent, node)
        self._calls[event.call] = node

    def _result(self, event: ev.ToolEnded) -> None:
        shown = event.content if isinstance(event.content, list) else [event.content]
        text = "".join(block(part) for part in shown if part is not None)
        if event.status != "done" or event.is_error:
            text = f'<p class="bad">{escape_text(event.status)}</p>{text}'
        node = self._calls.get(event.call)
        if node is None:
            title = f"<summary>Result of <code>{escape_text(event.name or event.call)}</code></summary>"
            self._put(event.subagent, f"<details>{title}{text}</details>\n")
            return
        node.open = False
        self._held += len(text)
        node.parts.append(text)

    def _subagent(self, event: ev.SubagentStarted) -> None:
        # Its prompt is not shown here: the call's input has it, and it also comes as the subagent's first message.
        title = escape_text(event.title or event.kind or "Subagent")
        node = _Node(f"<details><summary>Subagent: {title}</summary>", "</details>\n", open=True)
        call = self._calls.get(event.call)
        if call is None:
            self._put(event.subagent, node)
        else:
            self._held += len(node.start)
            call.parts.append(node)
        self._subagents[event.child] = node

    def _subagent_end(self, event: ev.SubagentEnded) -> None:
        node = self._subagents.get(event.child)
        if node is not None:
            node.open = False
            node.parts.append(f'<p class="note">{escape_text(event.status)}</p>')

    def _turn_end(self, event: ev.TurnEnded) -> None:
        self._flush_partial()
        for call in event.closed:
            node = self._calls.get(call)
            if node is not None:
                node.open = False
        facts = [
            escape_text(event.status),
            escape_text(event.reason),
            f"${event.cost_usd:.4f}" if event.cost_usd else "",
        ]
        facts += [f"{event.duration_ms / 1000:.1f} s" if event.duration_ms else "", *map(escape_text, event.errors)]
        look = "end bad" if event.status == "failed" else "end"
        line = " &middot; ".join(fact for fact in facts if fact)
        self._put(event.subagent, f'<p class="{look}">{line} {time_html(event.at)}</p>\n')

    def _flush_partial(self) -> None:
        """Render text that was streamed and never finished."""
        for subagent, pieces in self._partial.values():
            self._put(subagent, f'<div class="say partial">{escape_text("".join(pieces))}</div>\n')
        self._partial.clear()

    def _aside(self, event: ev.Event) -> None:
        text = _aside(event)
        if text:
            self._put(event.subagent, f'<p class="note">{escape_text(text)} {time_html(event.at)}</p>\n')


def _aside(event: ev.Event) -> str:
    """Return one line about an event that is neither a message nor a tool call; empty if it is not worth showing."""
    match event:
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
            asked = (str(question.get("question", "")) for question in event.questions)
            return f"Asked: {' / '.join(asked)}"
        case ev.PlanProposed():
            return f"Proposed a plan: {event.plan}"
        case ev.PermissionResolved():
            verdict = "Allowed" if event.behavior == "allow" else "Denied"
            why = event.by or event.rule or event.how
            return f"{verdict} {event.tool} ({why}) {event.message}".strip()
        case ev.PermissionCancelled():
            return f"The request is over: {event.reason}"
        case ev.ModeChanged():
            return f"Mode: {event.mode}"
        case ev.ModelChanged():
            return f"Model: {event.model}"
        case ev.ThinkingChanged():
            return "Thinking budget: " + ("default" if event.budget is None else str(event.budget))
        case ev.Compaction():
            return "The conversation was compacted" if event.phase == "boundary" else ""
        case ev.Notice():
            return event.text
        case ev.MessageCancelled():
            return "A waiting message was taken back"
        case ev.InterruptRequested():
            return f"Interrupted by {event.by}" if event.by else "Interrupted"
        case ev.Rewound():
            return "Files were put back"
        case ev.HandoverSettled():
            return f"Handed over to {event.link}" if event.outcome == "moved" else f"Stays on {event.link}"
        case ev.SubagentResolved():
            return f"What is marked as unresolved above was said by the subagent of {event.call}"
        case ev.ErrorRaised():
            return f"Error: {event.message}"
        case ev.LifecycleEvent() | ev.DeltaEvent() | ev.HousekeepingEvent() | ev.QueueEvent():
            return ""
        case ev.TurnStarted() | ev.ToolProgress() | ev.RecordStored():
            return ""
        case (
            ev.UserMessage()
            | ev.TextDelta()
            | ev.Text()
            | ev.Thinking()
            | ev.ToolCalled()
            | ev.ToolEnded()
            | ev.SubagentStarted()
            | ev.SubagentEnded()
            | ev.TurnEnded()
        ):
            return ""
        case _:
            assert_never(event)


def _inside(node: _Node) -> set[_Node]:
    inner = {part for part in node.parts if isinstance(part, _Node)}
    for part in tuple(inner):
        inner |= _inside(part)
    return inner


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
