"""Rendering of events as lines of text. Pure: events in, pieces out; the printer knows about terminals.

Text and thinking of the main thread are shown as they arrive, those of a subagent block by block, indented. A block
that was shown in part is completed, never repeated: the shown part is counted in characters of the block.
"""

from collections.abc import Iterator
from typing import Any, Final, assert_never

import msgspec

from fairlead.cli.sanitize import Cleaner, clean, one_line, text_of, visible
from fairlead.model import events as ev
from fairlead.model.content import plain_text
from fairlead.model.ids import MessageId

RESULT_LINES: Final = 4
"""Lines of a tool's result that are shown; the log has the rest."""
LONGEST_LINE: Final = 400
"""Characters of such a line that are shown: more than any terminal has columns."""
PLAIN_KEYS: Final = ("command", "file_path", "pattern", "path", "url", "query", "description", "prompt")
"""The most informative fields of a tool's input, best first."""


class Flow(msgspec.Struct, frozen=True):
    """Text that continues the line of the previous piece."""

    text: str
    style: str = ""


class RenderedRow(msgspec.Struct, frozen=True):
    """A separate line of spans (text, style). Without spans: the next piece starts a line. `indent` in steps of two."""

    spans: tuple[tuple[str, str], ...]
    indent: int = 0


Piece = Flow | RenderedRow


def row(*spans: tuple[str, str], indent: int = 0) -> RenderedRow:
    return RenderedRow(spans, indent)


def call_summary(given: dict[str, Any], limit: int = 200) -> str:
    if isinstance(todos := given.get("todos"), list):
        done = sum(isinstance(todo, dict) and todo.get("status") == "completed" for todo in todos)
        return f"{done} of {len(todos)} done"
    for key in PLAIN_KEYS:
        if isinstance(given.get(key), str) and given[key]:
            return one_line(given[key], limit)
    return one_line(msgspec.json.encode(given).decode(), limit) if given else ""


def request_rows(event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed) -> Iterator[RenderedRow]:
    """Yield the rows of a request, complete and with invisible characters made visible."""
    match event:
        case ev.PermissionRequested():
            yield row(("? ", "bold yellow"), (f"{visible(event.tool)} asks for permission", "bold"))
            if event.title:
                yield row((visible(event.title), ""), indent=1)
            for name, value in event.input.items():
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                lines = visible(text).split("\n")
                yield row((f"{visible(name)}: ", "dim"), (lines[0], ""), indent=1)
                yield from (row((line, ""), indent=2) for line in lines[1:])
            if event.reason:
                yield row((visible(event.reason), "dim"), indent=1)
        case ev.QuestionAsked():
            for question in event.questions:
                yield row(("? ", "bold yellow"), (visible(str(question.get("question", ""))), "bold"))
                for number, (label, about) in enumerate(options(question), start=1):
                    described = f"  {visible(about)}" if about else ""
                    yield row((f"{number}. ", "cyan"), (visible(label), ""), (described, "dim"), indent=1)
        case ev.PlanProposed():
            yield row(("? ", "bold yellow"), ("The agent proposes a plan", "bold"))
            yield from (row((line, ""), indent=1) for line in visible(event.plan).split("\n"))


def options(question: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, description) of each option; malformed ones are skipped."""
    found = question.get("options")
    if not isinstance(found, list):
        return []
    return [(str(o.get("label", "")), str(o.get("description", ""))) for o in found if isinstance(o, dict)]


def money_and_time(event: ev.TurnEnded) -> str:
    tokens = sum(usage.input + usage.output + usage.cache_read + usage.cache_write for usage in event.usage.values())
    parts = [f"${event.cost_usd:.4f}" if event.cost_usd else "", seconds(event.duration_ms)]
    parts.append(f"{tokens} tokens" if tokens else "")
    return " · ".join(part for part in parts if part)


def seconds(ms: int) -> str:
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min {ms // 1000 % 60} s"


def handover_text(event: ev.HandoverRequested | ev.HandoverSettled) -> str:
    if isinstance(event, ev.HandoverRequested):
        waiting = f", after {', '.join(event.waits_for)}" if event.waits_for else ""
        return f"will be handed over to {event.link}{waiting}"
    if event.outcome == "moved":
        return f"handed over to {event.link}"
    why = f": {event.reason}" if event.reason else ""
    how = "failed" if event.outcome == "failed" else "was withdrawn"
    return f"stays on {event.link}, the hand-over {how}{why}"


class EventRenderer:
    """Renders the events of one session. `hidden` are messages that are not shown, because the person typed them here.
    `working`: a turn was running before the first event."""

    def __init__(self, hidden: frozenset[MessageId] = frozenset(), *, working: bool = False) -> None:
        self.hidden = set(hidden)
        self._depth: dict[str, int] = {}
        self._shown: dict[tuple[str, int], int] = {}
        self._cleaner = Cleaner()
        self._flowing: tuple[str, int] | None = None
        self._working = working

    def step(self, event: ev.Event) -> Iterator[Piece]:
        match event:
            case ev.TextDelta() | ev.ThinkingDelta():
                yield from self._delta(event)
            case ev.Text() | ev.Thinking():
                yield from self._block(event)
            case ev.SessionOpened():
                yield self._note(event, f"session in {event.cwd} ({event.agent}) {event.title}")
            case ev.SessionForked():
                yield self._note(event, f"forked from {event.parent}")
            case ev.SessionChanged():
                if event.title is not None:
                    yield self._note(event, f"title: {event.title}")
                if event.archived is not None:
                    yield self._note(event, "archived" if event.archived else "no longer archived")
            case ev.SessionClosed():
                yield self._note(event, f"session closed: {event.reason}")
            case ev.SessionResumed() | ev.AgentStarted() | ev.AgentReady() | ev.InputDelta() | ev.ToolProgress():
                pass
            case ev.RecordStored() | ev.MessageDequeued() | ev.MessageMoved():
                pass
            case ev.AgentExited():
                yield from self._exited(event)
            case ev.HandoverRequested() | ev.HandoverSettled():
                yield self._note(event, handover_text(event), "yellow")
            case ev.TurnStarted():
                self._working = True
                if event.trigger == "agent":
                    yield self._note(event, "the agent continues on its own")
            case ev.TurnEnded():
                yield from self._turn_ended(event)
            case ev.UserMessage():
                yield from self._user(event)
            case ev.ToolCalled() | ev.ToolEnded():
                yield from self._tool(event)
            case ev.SubagentStarted() | ev.SubagentEnded():
                yield from self._subagent(event)
            case ev.SubagentResolved():
                yield self._note(event, f"the output of the unknown subagent above belongs to the call {event.call}")
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                yield from (self._row(event, *asked.spans, deeper=asked.indent) for asked in request_rows(event))
            case ev.PermissionResolved() | ev.PermissionCancelled():
                yield from self._decided(event)
            case ev.ModeChanged():
                yield self._note(event, f"mode: {event.mode}")
            case ev.ModelChanged():
                yield self._note(event, f"model: {event.model or 'the default'}")
            case ev.ThinkingChanged():
                yield self._note(event, f"thinking budget: {event.budget}")
            case ev.Compaction():
                if event.phase == "started":
                    yield self._note(event, "the agent compacts its context")
                elif event.phase == "boundary":
                    tokens = f" (it had {event.pre_tokens} tokens)" if event.pre_tokens else ""
                    yield self._note(event, f"the context was compacted{tokens}")
            case ev.RateLimit():
                status = str(event.info.get("status", ""))
                if status and status != "allowed":
                    yield self._note(event, f"rate limit: {status}", "yellow")
            case ev.HookProgress():
                if event.phase == "ended" and event.exit_code:
                    yield self._note(event, f"hook {event.name} ended with code {event.exit_code}")
            case ev.Notice():
                if event.text:
                    yield self._note(event, event.text)
            case ev.MessageQueued():
                # If the agent is idle, a message leaves the queue at once: nothing to show.
                if self._working:
                    yield self._note(event, f"waits for its turn: {plain_text(event.content)}")
            case ev.MessageCancelled():
                yield self._note(event, f"a queued message was cancelled ({event.reason})")
            case ev.InterruptRequested():
                yield self._note(event, f"interrupt requested by {event.by or 'a client'}", "yellow")
            case ev.Rewound():
                yield self._note(event, "the files were restored")
            case ev.ErrorRaised():
                yield self._row(event, ("✗ ", "red"), (f"{clean(event.code)}: {clean(event.message)}", "red"))
            case _:
                assert_never(event)

    def _indent(self, event: ev.Event) -> int:
        return self._depth.get(event.subagent or "", 1) if event.subagent else 0

    def _row(self, event: ev.Event, *spans: tuple[str, str], deeper: int = 0) -> RenderedRow:
        return RenderedRow(spans, self._indent(event) + deeper)

    def _note(self, event: ev.Event, text: str, style: str = "dim") -> RenderedRow:
        return self._row(event, (f"— {one_line(text, 500)}", style))

    # --- text and messages -------------------------------------------------------------------------------

    def _delta(self, event: ev.TextDelta | ev.ThinkingDelta) -> Iterator[Piece]:
        if event.subagent:
            return
        key = (event.message, event.block)
        shown = self._shown.get(key, 0)
        if event.offset > shown:
            return  # a delta is missing: the whole block will bring it
        piece = event.text[shown - event.offset :]
        if piece:
            self._shown[key] = shown + len(piece)
            style = "dim italic" if isinstance(event, ev.ThinkingDelta) else ""
            yield from self._flow(key, piece, style)

    def _flow(self, key: tuple[str, int], piece: str, style: str) -> Iterator[Piece]:
        if self._flowing != key:
            yield from self._flow_ended()
            self._flowing = key
            yield row()
        yield Flow(self._cleaner.feed(piece), style)

    def _flow_ended(self) -> Iterator[Piece]:
        if self._flowing is not None:
            yield Flow(self._cleaner.end())
        self._flowing = None

    def _block(self, event: ev.Text | ev.Thinking) -> Iterator[Piece]:
        key = (event.message, event.block)
        style = "dim italic" if isinstance(event, ev.Thinking) else ""
        if isinstance(event, ev.Text) and event.error:
            style = "red"
        if event.subagent:
            for line in clean(event.text).splitlines():
                yield self._row(event, (line, style))
            return
        rest = event.text[self._shown.pop(key, 0) :]
        if rest:
            yield from self._flow(key, rest, style)
        if self._flowing == key:
            yield from self._flow_ended()
            yield row()

    def _user(self, event: ev.UserMessage) -> Iterator[Piece]:
        if event.message in self.hidden or event.subagent or event.synthetic:
            return
        text = clean(plain_text(event.content)) or "(no text)"
        lines = text.split("\n")
        who = f"{one_line(event.by, 40)} " if event.by and event.via != "agent" else ""
        yield row(("", ""))
        yield self._row(event, (f"{who}> ", "bold cyan"), (lines[0], "cyan"))
        yield from (self._row(event, (line, "cyan"), deeper=1) for line in lines[1:])

    # --- tools and subagents -------------------------------------------------------------------------------

    def _tool(self, event: ev.ToolCalled | ev.ToolEnded) -> Iterator[Piece]:
        if isinstance(event, ev.ToolCalled):
            self._shown.pop((event.message, event.block), None)
            # The question or plan is shown with the request that follows.
            summary = "" if event.name in ("AskUserQuestion", "ExitPlanMode") else call_summary(event.input)
            about = (f"  {summary}", "") if summary else ("", "")
            yield self._row(event, ("● ", "green"), (one_line(event.name, 80), "bold"), about)
            return
        style = {"done": "dim", "failed": "red", "interrupted": "yellow"}[event.status]
        style = "red" if event.is_error and event.status == "done" else style
        lines = [line for line in clean(text_of(event.content)).split("\n") if line.strip()]
        if not lines:
            lines = ["(no output)" if event.status == "done" else event.status]
        more = len(lines) - RESULT_LINES
        for number, line in enumerate(lines[:RESULT_LINES]):
            shown = line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
            yield self._row(event, ("└ " if number == 0 else "  ", style), (shown, style), deeper=1)
        if more > 0:
            yield self._row(event, (f"  … {more} more line{'s' if more > 1 else ''}", "dim"), deeper=1)

    def _subagent(self, event: ev.SubagentStarted | ev.SubagentEnded) -> Iterator[Piece]:
        if isinstance(event, ev.SubagentStarted):
            self._depth[event.child] = self._indent(event) + 1
            about = [one_line(event.title or event.prompt, 200), event.kind]
            about.append("in the background" if event.background else "")
            text = " · ".join(clean(part) for part in about if part)
            yield self._row(event, ("┌ subagent ", "magenta"), (text, ""), deeper=1)
        else:
            indent = self._depth.pop(event.child, self._indent(event) + 1)
            style = "magenta" if event.status == "completed" else "red"
            summary = f" {one_line(event.summary, 200)}" if event.summary else ""
            yield RenderedRow(((f"└ subagent {event.status}", style), (summary, "dim")), indent)

    # --- permission requests ---------------------------------------------------------------------------------

    def _decided(self, event: ev.PermissionResolved | ev.PermissionCancelled) -> Iterator[Piece]:
        if isinstance(event, ev.PermissionCancelled):
            yield self._note(event, f"the request was withdrawn: {event.reason}")
            return
        allowed = event.behavior == "allow"
        if allowed and not event.asked:
            return
        by = event.by if event.how == "person" else f"the {event.how} {event.rule}".strip()
        why = f": {event.message}" if event.message and not allowed else ""
        kept = f", and always {', '.join(event.remembered)}" if event.remembered else ""
        text = one_line(f"{'allowed' if allowed else 'denied'} by {by or 'a person'}{kept}{why}", 500)
        yield self._row(event, ("✓ " if allowed else "✗ ", "green" if allowed else "red"), (text, ""), deeper=1)

    def _exited(self, event: ev.AgentExited) -> Iterator[Piece]:
        if event.expected:
            return
        yield self._row(event, ("✗ ", "red"), (one_line(f"the agent ended: {event.reason}", 500), "red"))
        for line in clean(event.stderr).strip().splitlines()[-RESULT_LINES:]:
            yield self._row(event, (line, "dim"), deeper=1)

    def _turn_ended(self, event: ev.TurnEnded) -> Iterator[Piece]:
        self._working = False
        self._shown.clear()
        yield from self._flow_ended()
        figures = money_and_time(event)
        if event.status == "completed":
            yield self._row(event, (f"— completed · {figures}", "dim"))
            return
        why = event.reason or "; ".join(event.errors)
        style = "red" if event.status == "failed" else "yellow"
        text = f"— {event.status}{': ' + one_line(why, 1000) if why else ''}"
        yield self._row(event, (text, style), (f" · {figures}", "dim"))


class AnswerRenderer:
    """Prints the texts of the agent's last message when the turn of `message` ends. A request that a person at this
    terminal must answer is shown, too."""

    def __init__(self, message: MessageId) -> None:
        self.hidden = {message}
        self._mine = message
        self._turn: str | None = None
        self._of = ""
        self._texts: list[str] = []

    def step(self, event: ev.Event) -> Iterator[Piece]:
        match event:
            case ev.UserMessage() if event.message == self._mine:
                self._turn = event.turn
                self._texts.clear()
            case ev.Text() if event.subagent is None:
                if event.message != self._of:
                    self._of = event.message
                    self._texts.clear()
                self._texts.append(event.text)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                yield from request_rows(event)
            case ev.TurnEnded() if self._turn is None or event.turn == self._turn:
                text = clean("\n\n".join(part for part in self._texts if part.strip()))
                if text:
                    yield row()
                    yield Flow(text if text.endswith("\n") else f"{text}\n")
            case _:
                pass


def outcome_text(event: ev.TurnEnded) -> str:
    """Why a turn did not complete, in one line."""
    why = event.reason or "; ".join(event.errors)
    return f"— {event.status}{': ' + one_line(why, 1000) if why else ''}"
