"""One run: the entries of a session as AG-UI events, from RUN_STARTED (which the route sends) to the run's end. Pure.

The frames are a function of the log, of the run's start and of `sent_up_to`: a run that is requested again sends the
same. A run ends with its turn, or with an interrupt: while a request waits for a person, later entries are held. The
run that answers continues after the last request (`sent_up_to`), so that nothing is sent twice or left out.
"""

from typing import Any, Final, assert_never

from msgspec import structs

from fairlead.clients.agui import blocks, subagents
from fairlead.clients.agui.context import LIMIT, Ask, RunContext, close_all, with_pair, without
from fairlead.clients.agui.interrupts import Asked, interrupt_of
from fairlead.clients.agui.state import custom_event, state_delta
from fairlead.clients.agui.wire import ASKED, Event, arguments, calls_id, encode_events, event, result_id, result_text
from fairlead.model import events as ev
from fairlead.model.content import plain_text
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry

_SILENT: Final = frozenset({"record", "input.delta", "hook.progress", "tool.progress"})
"""Frequent kinds without events. A call is sent when it is complete: a model may never finish the input that it
streams, and a client that lagged could not continue a part of it."""

Step = tuple[RunContext, list[Event]]


class RunEncoder(EncoderWithoutSignals, frozen=True, kw_only=True):
    """Implements `model.web.routes.StreamEncoder`.

    `start`: the run begins after this seq. `target`: the message whose turn is the run's; without one the run ends with
    the next turn that ends. `sent_up_to`: entries up to it were sent by an earlier run. `state_from`: the state that
    the run began with is that of this seq. `own`: the messages that the client has. `kept`: reasoning that it keeps."""

    thread: str
    run: str
    start: int = 0
    target: str = ""
    sent_up_to: int = 0
    state_from: int = 0
    own: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: RunContext | None, session: SessionId, entry: Entry) -> tuple[RunContext, bytes]:
        if context is None:
            context = RunContext(quiet=self.sent_up_to > self.start, queue=self.queue)
        if context.finished or entry.kind in _SILENT:
            return context, b""
        if context.quiet and entry.seq > self.sent_up_to:
            context = structs.replace(context, quiet=False, blocks=(), active=(), finished=False)
        if context.quiet:
            after, _ = self._send(context, entry)
            return structs.replace(after, finished=False, withdrawn=False), b""
        if context.asks:
            return self._hold(context, entry)
        return self._encode(context, entry)

    # --- the end of the response, for its driver

    def finished(self, context: RunContext | None) -> bool:
        return context is not None and context.finished

    def settling(self, context: RunContext | None) -> bool:
        return context is not None and bool(context.asks) and not context.finished

    def settled(self, context: RunContext) -> bytes:
        """The run ends with an interrupt: nothing has settled the requests."""
        outcome = {"type": "interrupt", "interrupts": [ask.interrupt for ask in context.asks]}
        return encode_events([*close_all(context), self._run_finished(outcome=outcome)])

    def failed(self, context: RunContext | None, error: FairleadError) -> bytes:
        ends = close_all(context) if context is not None else []
        return encode_events([*ends, event("RUN_ERROR", message=error.message, code=error.code)])

    # --- requests that wait for a person

    def _hold(self, context: RunContext, entry: Entry) -> tuple[RunContext, bytes]:
        one = ev.decode(entry.event)
        match one:
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                return self._release(context, entry, keep=context.asks)
            case ev.PermissionResolved() | ev.PermissionCancelled():
                asks = tuple(
                    structs.replace(ask, settled=ask.settled or ask.request == one.request) for ask in context.asks
                )
                if all(ask.settled for ask in asks):
                    return self._release(context, entry)
                # It stays in the interrupt: the next run begins after the last request, answered or not.
                context = structs.replace(context, asks=asks)
            case ev.TurnEnded():
                return self._release(context, entry)
            case _:
                pass
        if len(context.held) >= LIMIT:
            return structs.replace(context, finished=True, held=()), self.settled(context)
        return structs.replace(context, held=(*context.held, entry)), b""

    def _release(self, context: RunContext, entry: Entry, keep: tuple[Ask, ...] = ()) -> tuple[RunContext, bytes]:
        """Send the entries that were held, and this one."""
        waiting, frames = context.held, []
        context = structs.replace(context, asks=(), held=())
        for one in (*waiting, entry):
            if not context.finished:
                context, data = self._encode(context, one)
                frames.append(data)
        return structs.replace(context, asks=(*keep, *context.asks)), b"".join(frames)

    def _encode(self, context: RunContext, entry: Entry) -> tuple[RunContext, bytes]:
        after, events = self._send(context, entry)
        return after, encode_events(events) + (ASKED if len(after.asks) > len(context.asks) else b"")

    # --- one entry

    def _send(self, context: RunContext, entry: Entry) -> Step:
        one = ev.decode(entry.event)
        match one:
            case ev.TurnStarted():
                return structs.replace(context, running=one.turn or ""), []
            case ev.TurnEnded():
                return self._turn_ended(context, one)
            case ev.UserMessage():
                return self._user_message(context, one)
            case ev.TextDelta() | ev.ThinkingDelta():
                return blocks.send_piece(context, one, self.kept)
            case ev.Text() | ev.Thinking():
                return blocks.send_whole(context, one, self.kept, self.sent_up_to)
            case ev.ToolCalled():
                return _tool_called(context, one)
            case ev.ToolEnded():
                return _tool_ended(context, one)
            case ev.SubagentStarted():
                return subagents.started(context, one)
            case ev.SubagentEnded():
                return subagents.ended(context, one)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                return self._asked(context, one)
            case ev.AgentExited() | ev.ErrorRaised():
                return self._error(context, one)
            case ev.QueueEvent():
                return self._queue(context, one, entry.seq)
            case ev.ModeChanged() | ev.ModelChanged() | ev.SessionChanged():
                return context, state_delta(one) if entry.seq > self.state_from else []
            case ev.Compaction() | ev.RateLimit() | ev.Notice():
                return context, [custom_event(one)]
            case ev.LifecycleEvent() | ev.SettingEvent() | ev.HousekeepingEvent() | ev.DeltaEvent():
                return context, []
            case ev.SubagentEvent() | ev.ToolProgress() | ev.PermissionResolved() | ev.PermissionCancelled():
                return context, []
            case ev.InterruptRequested() | ev.Rewound() | ev.RecordStored():
                return context, []
            case _:
                assert_never(one)

    def _user_message(self, context: RunContext, one: ev.UserMessage) -> Step:
        if one.message == self.target:
            context = structs.replace(context, turn=one.turn or "")
        text = plain_text(one.content)
        if not shown(one) or one.message in self.own or not text:
            return context, []
        return context, [
            event("TEXT_MESSAGE_START", messageId=one.message, role="user"),
            event("TEXT_MESSAGE_CONTENT", messageId=one.message, delta=text),
            event("TEXT_MESSAGE_END", messageId=one.message),
        ]

    def _asked(self, context: RunContext, one: Asked) -> Step:
        if context.quiet:
            return context, []
        context, events = subagents.ensure_started(context, one.subagent)
        return structs.replace(context, asks=(*context.asks, Ask(one.request, one.subagent, interrupt_of(one)))), events

    def _queue(self, context: RunContext, one: ev.QueueEvent, seq: int) -> Step:
        events: list[Event] = []
        if seq > self.state_from:
            rest = tuple(message for message in context.queue if message != one.message)
            queue = (*rest, one.message) if isinstance(one, ev.MessageQueued) else rest
            if isinstance(one, ev.MessageMoved):
                queue = (*rest[: one.position], one.message, *rest[one.position :])
            context = structs.replace(context, queue=queue[-LIMIT:])
            events = [event("STATE_DELTA", delta=[_replace("queue", list(context.queue))])]
        if not isinstance(one, ev.MessageCancelled) or one.message != self.target:
            return context, events
        if context.running:
            return structs.replace(context, withdrawn=True), events
        done = structs.replace(context, finished=True, blocks=(), active=())
        return done, [*events, *close_all(context), self._run_finished(outcome={"type": "cancelled"})]

    def _turn_ended(self, context: RunContext, one: ev.TurnEnded) -> Step:
        ours = not self.target or context.withdrawn or context.turn == (one.turn or "")
        open_calls = dict(context.calls)
        left: list[Event] = [_result(call, "", open_calls[call]) for call in one.closed if call in open_calls]
        context = structs.replace(context, running="", calls=())
        if not ours:
            return context, left
        usage = usage_of(one) or None
        ends = close_all(context)
        done = structs.replace(context, finished=True, blocks=(), active=())
        if one.status == "failed":
            message = one.text or "; ".join(one.errors) or one.reason or "The agent failed."
            return done, [*left, *ends, event("RUN_ERROR", message=message, code=one.reason or "failed", usage=usage)]
        outcome = {"type": "success" if one.status == "completed" else "cancelled"}
        result = {"text": one.text, "costUsd": one.cost_usd}
        return done, [*left, *ends, self._run_finished(outcome=outcome, usage=usage, result=result)]

    def _error(self, context: RunContext, one: ev.AgentExited | ev.ErrorRaised) -> Step:
        """An error outside a turn ends the run: the message will not be answered. In a turn, the turn's end follows."""
        if isinstance(one, ev.AgentExited) and one.expected:
            return context, []
        code = "agent_gone" if isinstance(one, ev.AgentExited) else one.code
        message = one.reason if isinstance(one, ev.AgentExited) else one.message
        if context.running:
            return context, [event("CUSTOM", name="fairlead.error", value={"code": code, "message": message})]
        done = structs.replace(context, finished=True, blocks=(), active=())
        return done, [*close_all(context), event("RUN_ERROR", message=message or "The agent failed.", code=code)]

    def _run_finished(self, **fields: Any) -> Event:
        return event("RUN_FINISHED", threadId=self.thread, runId=self.run, **fields)


def shown(one: ev.UserMessage) -> bool:
    """Whether a message is a person's, in the main conversation."""
    return not one.synthetic and one.subagent is None and one.via != "agent"


def _tool_called(context: RunContext, one: ev.ToolCalled) -> Step:
    context, events = subagents.ensure_started(context, one.subagent)
    named = {"toolCallId": one.call, "subagentRunId": one.subagent}
    parent = calls_id(one.message, one.subagent)
    events += [
        event("TOOL_CALL_START", toolCallName=one.name, parentMessageId=parent, **named),
        event("TOOL_CALL_ARGS", delta=arguments(one.input), **named),
        event("TOOL_CALL_END", **named),
    ]
    return structs.replace(context, calls=with_pair(context.calls, one.call, one.subagent)), events


def _tool_ended(context: RunContext, one: ev.ToolEnded) -> Step:
    known = any(call == one.call for call, _ in context.calls)
    if one.status == "interrupted" and not known:
        # The model began to write this call and never made it.
        return context, []
    context, events = subagents.ensure_started(context, one.subagent)
    context = structs.replace(context, calls=without(context.calls, one.call))
    return context, [*events, _result(one.call, result_text(one.content), one.subagent)]


def _result(call: str, content: str, subagent: str | None) -> Event:
    named = {"messageId": result_id(call), "toolCallId": call, "role": "tool"}
    return event("TOOL_CALL_RESULT", content=content, subagentRunId=subagent, **named)


def _replace(name: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": f"/fairlead/{name}", "value": value}


def usage_of(one: ev.TurnEnded) -> list[dict[str, Any]]:
    """Tokens by model. In AG-UI the input is a total, and cached tokens are a part of it."""
    found = []
    for model, used in one.usage.items():
        whole = used.input + used.cache_read + used.cache_write
        parts = {"cachedInputTokens": used.cache_read, "cacheWriteInputTokens": used.cache_write}
        totals = {"inputTokens": whole, "outputTokens": used.output, "totalTokens": whole + used.output}
        found.append({"model": model, **totals, **parts})
    return found
