"""Folds actions to the state of a chat and of a session, as AHP defines it. Pure.

The states are plain JSON objects that are changed in place: they belong to one reducer (`snapshots.AhpReducer`). Only
the actions of `translate` occur.
"""

from bisect import bisect_right
from typing import Any, Final

from fairlead.clients.ahp.context import FAILED, IDLE, INPUT_NEEDED, WORKING
from fairlead.clients.ahp.wire import Fields

_ENDS: Final = {"chat/turnComplete": "complete", "chat/turnCancelled": "cancelled", "chat/error": "error"}
BEGUN: Final = "begun"
"""Next to the open turn: the seqs at which its parts began. It is not part of the state that clients receive."""
_BASE: Final = ("toolCallId", "toolName", "displayName")


def fold_chat(chat: Fields, action: Fields, since: int) -> Fields | None:
    """Apply an action to a chat; return the turn that it ended, which is not part of the chat any more.

    `since`: the seq at which the part that it adds began. Parts stand in that order, whether the deltas of a text are
    still in the log or not: a subagent's request may come between two of them."""
    kind: str = action["type"]
    if kind in _ENDS:
        return _end(chat, action)
    match kind:
        case "chat/turnStarted":
            _start(chat, action)
        case "chat/responsePart":
            _add_part(chat, dict(action["part"]), since)
        case "chat/delta" | "chat/reasoning":
            part = next(part for part in reversed(_parts(chat)) if part.get("id") == action["partId"])
            part["content"] += action["content"]
        case "chat/toolCallStart":
            call = {name: action[name] for name in _BASE}
            _add_part(chat, {"kind": "toolCall", "toolCall": {**call, "status": "streaming"}}, since)
        case "chat/toolCallReady" | "chat/toolCallConfirmed" | "chat/toolCallComplete":
            part = _call_part(chat, action["toolCallId"])
            part["toolCall"] = _CALLS[kind](part["toolCall"], action)
        case "chat/usage":
            chat["activeTurn"]["usage"] = action["usage"]
        case "chat/inputRequested":
            _add_part(chat, {"kind": "inputRequest", "request": dict(action["request"])}, since)
        case "chat/inputCompleted":
            _complete_input(chat, action)
        case _:
            _fold_queue(chat, action)
    chat["status"] = _status(chat)
    return None


def _parts(chat: Fields) -> list[Fields]:
    parts: list[Fields] = chat["activeTurn"]["responseParts"]
    return parts


def _add_part(chat: Fields, part: Fields, since: int) -> None:
    begun: list[int] = chat[BEGUN]
    place = bisect_right(begun, since)
    begun.insert(place, since)
    _parts(chat).insert(place, part)


def _start(chat: Fields, action: Fields) -> None:
    about = {"id": action["turnId"], "startedAt": action["startedAt"], "message": action["message"]}
    chat["activeTurn"] = {**about, "responseParts": []}
    chat[BEGUN] = []
    chat["modifiedAt"] = action["startedAt"]
    if "queuedMessageId" in action:
        _remove_queued(chat, action["queuedMessageId"])


def _end(chat: Fields, action: Fields) -> Fields:
    turn: Fields = chat.pop("activeTurn")
    del chat[BEGUN]
    for part in turn["responseParts"]:
        if part["kind"] == "toolCall" and part["toolCall"]["status"] not in ("completed", "cancelled"):
            part["toolCall"] = {"status": "cancelled", **_kept(part["toolCall"]), "reason": "skipped"}
    if "part" in action:
        turn["responseParts"].append(action["part"])
    chat["status"] = FAILED if action["type"] == "chat/error" else IDLE
    return {**turn, "duration": action["duration"], "state": _ENDS[action["type"]]}


def _status(chat: Fields) -> int:
    if "activeTurn" not in chat:
        return chat["status"] if chat["status"] == FAILED else IDLE
    return INPUT_NEEDED if any(map(_waits, _parts(chat))) else WORKING


def _waits(part: Fields) -> bool:
    if part["kind"] == "inputRequest":
        return "response" not in part
    return part["kind"] == "toolCall" and bool(part["toolCall"]["status"] == "pending-confirmation")


# --- calls


def _call_part(chat: Fields, call: str) -> Fields:
    return next(
        part for part in reversed(_parts(chat)) if part["kind"] == "toolCall" and part["toolCall"]["toolCallId"] == call
    )


def _kept(call: Fields) -> Fields:
    return {name: call[name] for name in (*_BASE, "invocationMessage", "toolInput") if name in call}


def _ready(call: Fields, action: Fields) -> Fields:
    names = ("invocationMessage", "toolInput", "confirmed", "confirmationTitle", "options", "editable")
    new = {name: action[name] for name in names if name in action}
    return {"status": "running" if "confirmed" in action else "pending-confirmation", **_kept(call), **new}


def _confirmed(call: Fields, action: Fields) -> Fields:
    chosen = [option for option in call["options"] if option["id"] == action["selectedOptionId"]]
    option = {"selectedOption": chosen[0]} if chosen else {}
    if not action["approved"]:
        why: Fields = {name: action[name] for name in ("reason", "reasonMessage") if name in action}
        return {"status": "cancelled", **_kept(call), **why, **option}
    changed = {"toolInput": action["editedToolInput"]} if "editedToolInput" in action else {}
    return {"status": "running", **_kept(call), **changed, "confirmed": action["confirmed"], **option}


def _completed(call: Fields, action: Fields) -> Fields:
    how = {"confirmed": call.get("confirmed", "not-needed")}
    option = {"selectedOption": call["selectedOption"]} if "selectedOption" in call else {}
    return {"status": "completed", **_kept(call), **how, **option, **action["result"]}


_CALLS: Final[dict[str, Any]] = {
    "chat/toolCallReady": _ready,
    "chat/toolCallConfirmed": _confirmed,
    "chat/toolCallComplete": _completed,
}


def _complete_input(chat: Fields, action: Fields) -> None:
    for part in _parts(chat):
        if part["kind"] == "inputRequest" and part["request"]["id"] == action["requestId"]:
            if "answers" in action:
                part["request"] = {**part["request"], "answers": action["answers"]}
            part["response"] = action["response"]


# --- the queue


def _fold_queue(chat: Fields, action: Fields) -> None:
    queue: list[Fields] = chat.get("queuedMessages", [])
    match action["type"]:
        case "chat/pendingMessageSet":
            new = {"id": action["id"], "message": action["message"]}
            if all(one["id"] != new["id"] for one in queue):
                queue = [*queue, new]
            chat["queuedMessages"] = [new if one["id"] == new["id"] else one for one in queue]
        case "chat/pendingMessageRemoved":
            _remove_queued(chat, action["id"])
        case "chat/queuedMessagesReordered" if queue:
            places = {name: place for place, name in enumerate(action["order"])}
            queue.sort(key=lambda one: places.get(one["id"], len(places)))


def _remove_queued(chat: Fields, name: str) -> None:
    left = [one for one in chat.pop("queuedMessages", []) if one["id"] != name]
    if left:
        chat["queuedMessages"] = left


# --- the session


def fold_session(session: Fields, action: Fields) -> None:
    match action["type"]:
        case "session/titleChanged":
            session["title"] = action["title"]
        case "session/chatUpdated":
            session["chats"][0].update(action["changes"])
        case "session/configChanged":
            session["config"]["values"].update(action["config"])
        case "session/inputNeededSet":
            session["inputNeeded"] = [*session.get("inputNeeded", []), action["request"]]
        case "session/inputNeededRemoved":
            left = [one for one in session.pop("inputNeeded", []) if one["id"] != action["id"]]
            if left:
                session["inputNeeded"] = left
