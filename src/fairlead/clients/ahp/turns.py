"""Turns, texts and the queue of a session as actions. Pure."""

from typing import Any

import msgspec

from fairlead.clients.ahp.context import (
    FAILED,
    IDLE,
    OPEN_TEXTS,
    SHORT,
    TEXT_CHARACTERS,
    TURN_CHARACTERS,
    ActionOrigin,
    ChatTurn,
    QueuedPrompt,
    read_origin,
    without,
)
from fairlead.clients.ahp.translation import Translation
from fairlead.clients.ahp.wire import Fields
from fairlead.model import events as ev
from fairlead.model.content import Content, ImageBlock, plain_text
from fairlead.model.formats.bounded_tables import drop_oldest
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import MessageId

TITLE_CHARACTERS = 80
"""Characters of the first prompt that serve as the title, as in the gateway's lists."""
OWN_TURN = "The agent continues by itself."


def message_fields(step: Translation, content: tuple[Content, ...]) -> Fields:
    """A person's message."""
    fields: Fields = {"text": step.cut(plain_text(content), TEXT_CHARACTERS), "origin": {"kind": "user"}}
    pictures = [block for block in content if isinstance(block, ImageBlock)]
    if pictures:
        fields["attachments"] = [{"type": "simple", "label": "picture", "displayKind": "image"} for _ in pictures]
    return fields


# --- the queue


def queued(step: Translation, event: ev.MessageQueued) -> None:
    """An accepted message begins its turn at once if nothing else is to be done before."""
    origin = read_origin(event.reference)
    prompt = QueuedPrompt(origin.name if origin and origin.name else event.message, message_fields(step, event.content))
    first = step.context.turn is None and not step.context.queue
    step.change(queue={**step.context.queue, event.message: prompt})
    if first:
        start(step, prompt.id, prompt.fields, message=event.message, origin=origin)
    else:
        step.on_chat("pendingMessageSet", origin, kind="queued", id=prompt.id, message=prompt.fields)
    _first_prompt(step, event.content)


def dequeued(step: Translation, message: MessageId) -> None:
    prompt = step.context.queue.get(message)
    step.change(queue=without(step.context.queue, message))
    turn = step.context.turn
    if turn is not None and turn.message == message:
        step.change_turn(begun=True)
    elif prompt is not None:
        start(step, prompt.id, prompt.fields, message=message, queued=prompt.id, begun=True)


def withdrawn(step: Translation, message: MessageId) -> None:
    prompt = step.context.queue.get(message)
    step.change(queue=without(step.context.queue, message))
    turn = step.context.turn
    if turn is not None and turn.message == message and not turn.begun:
        end(step, "turnCancelled")
    elif prompt is not None:
        step.on_chat("pendingMessageRemoved", kind="queued", id=prompt.id)


def moved(step: Translation, event: ev.MessageMoved) -> None:
    queue = step.context.queue
    if event.message not in queue:
        return
    order = [name for name in queue if name != event.message]
    order.insert(event.position, event.message)
    step.change(queue={name: queue[name] for name in order})
    turn = step.context.turn
    shown = [queue[name].id for name in order if turn is None or name != turn.message]
    step.on_chat("queuedMessagesReordered", order=shown)


# --- turns


def user_message(step: Translation, event: ev.UserMessage) -> None:
    turn = step.context.turn
    if event.via == "agent" or event.synthetic:
        return
    if event.via == "steer":
        if turn is not None:
            note(step, f"Sent into the turn: {plain_text(event.content)}")
        return
    if turn is None or turn.message != event.message:
        # Not from our queue: typed into the agent's terminal, or from its transcript.
        fields = message_fields(step, event.content)
        start(step, event.message, fields, message=event.message, begun=True)
        _first_prompt(step, event.content)
    step.change_turn(turn=event.turn or "", begun=True)


def own_turn(step: Translation, event: ev.TurnStarted) -> None:
    """A turn that the agent began: background work that reports back."""
    if event.trigger == "agent" and step.context.turn is None:
        open_turn(step, event.turn or event.id)


def open_turn(step: Translation, name: str) -> ChatTurn:
    """The open turn; without one, a turn that has no prompt begins."""
    if step.context.turn is None:
        fields = {"text": OWN_TURN, "origin": {"kind": "systemNotification"}}
        start(step, name, fields, turn=name, begun=True)
    assert step.context.turn is not None
    return step.context.turn


def start(
    step: Translation,
    name: str,
    prompt: Fields,
    /,
    *,
    origin: ActionOrigin | None = None,
    queued: str = "",
    **about: Any,
) -> None:
    """Begin a turn. `queued`: the id under which its prompt waited. `about`: fields of `ChatTurn`."""
    open_one = step.context.turn
    if open_one is not None:
        # A client has one open turn. A prompt that the agent has not received waits again.
        end(step, "turnComplete" if open_one.begun else "turnCancelled")
        waiting = step.context.queue.get(open_one.message) if open_one.message else None
        if waiting is not None:
            step.on_chat("pendingMessageSet", kind="queued", id=waiting.id, message=waiting.fields)
    step.change(turn=ChatTurn(name, step.at, **about))
    more = {"queuedMessageId": queued} if queued else {}
    step.on_chat("turnStarted", origin, turnId=name, startedAt=iso_timestamp(step.at), message=prompt, **more)


def ended(step: Translation, event: ev.TurnEnded) -> None:
    turn = step.context.turn
    if turn is None or not (turn.begun or turn.turn == event.turn):
        return
    if event.usage:
        step.on_chat("usage", turnId=turn.id, usage=_usage(event))
    match event.status:
        case "completed":
            end(step, "turnComplete")
        case "cancelled":
            end(step, "turnCancelled")
        case "failed":
            error = {"errorType": event.reason or "failed", "message": _why(event)}
            end(step, "error", error=error, part={"kind": "error", "error": error})


def end(step: Translation, kind: str, **fields: Any) -> None:
    turn = step.context.turn
    assert turn is not None
    origin = turn.cancel if kind == "turnCancelled" else None
    step.on_chat(kind, origin, turnId=turn.id, duration=max(0, step.at - turn.started), **fields)
    step.change(turn=None, ended=FAILED if kind == "error" else IDLE)


def interrupted(step: Translation, event: ev.InterruptRequested) -> None:
    if step.context.turn is not None:
        step.change_turn(cancel=read_origin(event.reference))


def _why(event: ev.TurnEnded) -> str:
    return "; ".join(event.errors) or event.text or event.reason or "The agent failed."


def _usage(event: ev.TurnEnded) -> Fields:
    model, _ = max(event.usage.items(), key=lambda item: item[1].output)
    counts = event.usage.values()
    return {
        "inputTokens": _bounded(sum(count.input for count in counts)),
        "outputTokens": _bounded(sum(count.output for count in counts)),
        "cacheReadTokens": _bounded(sum(count.cache_read for count in counts)),
        "model": model,
    }


def _bounded(count: int) -> int:
    """A count as JavaScript and the stored state can hold it, whatever an agent reports."""
    return max(0, min(count, LARGEST_NUMBER))


def _first_prompt(step: Translation, content: tuple[Content, ...]) -> None:
    title = " ".join(plain_text(content).split())[:TITLE_CHARACTERS]
    if not step.context.title and title:
        set_title(step, title)


def set_title(step: Translation, title: str) -> None:
    if title != step.context.title:
        step.change(title=title)
        step.on_session("titleChanged", title=title)
        step.update_chat(title=title)


# --- texts


def note(step: Translation, text: str) -> None:
    """A notice between the texts of the open turn."""
    turn = step.context.turn
    if turn is not None and text.strip() and not turn.full:
        shown = step.cut(text)
        step.add_part(turn, {"kind": "systemNotification", "content": shown})
        step.use(len(shown))


def delta(step: Translation, event: ev.TextDelta | ev.ThinkingDelta) -> None:
    """A delta begins no turn: it leaves the log, and the turn would begin at another time then."""
    if event.text and step.context.turn is not None:
        _append(step, event, event.text, event.offset)


def text(step: Translation, event: ev.Text | ev.Thinking) -> None:
    """The whole block: what was not sent as deltas is sent now, whichever of them this client received."""
    if event.text:
        _append(step, event, event.text, 0)
    turn, name = step.context.turn, _part_id(event)
    if turn is not None and name in turn.texts:
        step.change_turn(texts=without(turn.texts, name))
        step.use(min(len(event.text), TEXT_CHARACTERS))


def _append(
    step: Translation, event: ev.TextDelta | ev.ThinkingDelta | ev.Text | ev.Thinking, text: str, offset: int
) -> None:
    turn = open_turn(step, event.turn or event.id)
    name = _part_id(event)
    known = turn.texts.get(name)
    if offset > (known or 0) or (known is None and turn.full):
        return  # the beginning is not there: the whole block will bring it, unless the turn is too long
    limit = SHORT if turn.used > TURN_CHARACTERS else TEXT_CHARACTERS
    new = text[max(0, (known or 0) - offset) : max(0, limit - offset)]
    if not new:
        return
    written = isinstance(event, ev.Text | ev.TextDelta)
    if known is None:
        part = {"kind": "markdown" if written else "reasoning", "id": name, "content": new}
        step.add_part(turn, part, _began(event))
    else:
        step.on_chat("delta" if written else "reasoning", turnId=turn.id, partId=name, content=new)
    texts = {**turn.texts, name: (known or 0) + len(new)}
    drop_oldest(texts, OPEN_TEXTS)
    step.change_turn(texts=texts)


def _began(event: ev.TextDelta | ev.ThinkingDelta | ev.Text | ev.Thinking) -> int:
    """The seq of the first delta of a block whose deltas are gone from the log; 0: there were none."""
    marks = event.marks if isinstance(event, ev.Text | ev.Thinking) else ()
    return next((seq for seq, offset in marks if offset), 0)


def _part_id(event: ev.TextDelta | ev.ThinkingDelta | ev.Text | ev.Thinking) -> str:
    return f"{event.message}.{event.block}"


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()
