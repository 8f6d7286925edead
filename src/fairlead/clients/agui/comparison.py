"""Compares a client's history with ours, and builds the snapshot that replaces it. Pure."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.agui.history import Message
from fairlead.clients.agui.input import RunAgentInput, content_of
from fairlead.clients.agui.wire import Event, event, message_of, result_text
from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId

_OWN: Final = ("system", "developer")
"""Roles of messages that only the client has."""
_COMPARED: Final = ("user", "assistant", "tool")
"""Reasoning is not compared: many front ends do not send it back."""
_STREAMED: Final = ("assistant", "reasoning")


def our_id(session: SessionId, message: Message) -> str:
    """The id under which we have a message of the client."""
    return message_of(session, message["id"]) if message["role"] == "user" else str(message["id"])


def snapshot(
    session: SessionId, given: RunAgentInput, ours: Sequence[Message], *, whole: bool, resumed: bool
) -> list[Event]:
    """The events that give the client our history, if it has another one. User messages at the end of the client's
    history that are not in ours were not delivered yet, and stay.

    `whole`: `ours` is all of our history. `resumed`: the client may have the beginning of blocks that are not complete,
    from the run that was interrupted."""
    names = {our_id(session, message): message["id"] for message in given.messages}
    known = {message["id"]: message for message in ours}
    waiting = [message for message in given.trailing if our_id(session, message) not in known]
    theirs = {our_id(session, message): message for message in given.messages if message not in waiting}
    if _covers(theirs, known) and (resumed or not whole or _covers(known, theirs)):
        return []
    own = [message for message in given.messages if message["role"] in _OWN]
    kept = [message for name, message in theirs.items() if name not in known and message["role"] in _STREAMED]
    renamed = [{**message, "id": names.get(message["id"], message["id"])} for message in ours]
    return _in_order(given.messages, [*own, *renamed, *(kept if resumed else ()), *waiting])


def _in_order(theirs: Sequence[Message], ours: Sequence[Message]) -> list[Event]:
    """Replace their messages by ours. Of a snapshot, a client keeps the messages that it has in their places, and puts
    the others at the end: so the first one has only the messages before the first difference."""
    pairs = zip(theirs, ours, strict=False)
    same = list(itertools.takewhile(lambda pair: pair[0]["id"] == pair[1]["id"], pairs))
    whole = event("MESSAGES_SNAPSHOT", messages=list(ours))
    return [whole] if len(same) == len(theirs) else [event("MESSAGES_SNAPSHOT", messages=ours[: len(same)]), whole]


def _covers(these: Mapping[str, Message], others: Mapping[str, Message]) -> bool:
    """Whether these messages have all the others, with the same content."""
    return all(
        name in these and _comparable(these[name]) == _comparable(message)
        for name, message in others.items()
        if message["role"] in _COMPARED
    )


def _comparable(message: Message) -> Any:
    """What two copies of a message have in common."""
    role = message["role"]
    if role == "user":
        try:
            return role, content_of(message)
        except BadRequest:
            return role, None
    if role == "tool":
        return role, result_text(message.get("content"))
    calls = message.get("toolCalls")
    found = [_call(call) for call in calls] if isinstance(calls, list) else []
    return role, message.get("content") or "", found


def _call(call: Any) -> Any:
    match call:
        case {"id": str(name), "function": {"name": str(tool), "arguments": str(text)}}:
            try:
                return name, tool, msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return name, tool, text
    return None
