"""The actions that a client dispatches, as commands. Pure.

A generator performs the action and returns what confirms it: actions that go back to this client with its origin. An
action whose event carries the origin itself (a prompt, an interrupt) needs none: every client receives it from the log.
An error that it raises is the reason for which the action is rejected. A second, equal action changes nothing in a
client's state, so an action may come from the log and be confirmed as well.
"""

from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec

from fairlead.clients.ahp.calls import ALLOW, ALWAYS, DENY, confirmation
from fairlead.clients.ahp.context import MODE, MODEL, THINKING, ActionOrigin, Context, OpenRequest, reference_of
from fairlead.clients.ahp.prompts import answers_of, client_id, message_content, message_id
from fairlead.clients.ahp.session_config import text_value, thinking_value
from fairlead.clients.ahp.snapshots import NAME, read_memory
from fairlead.clients.ahp.turns import encoded
from fairlead.clients.ahp.wire import INVALID_PARAMS, AhpError, Fields, object_of, text_of
from fairlead.model import commands as cmd
from fairlead.model.errors import AgentRefused, Busy, NotFound, Stale
from fairlead.model.formats.frames import decode_message
from fairlead.model.ids import MessageId, RequestId, SessionId
from fairlead.model.queries import ReadProjection
from fairlead.model.web.requests import do

Confirmed = Generator[Any, Any, list[Fields]]


class Dispatched(msgspec.Struct, frozen=True):
    session: SessionId
    action: Fields
    origin: ActionOrigin

    def reference(self, name: str = "") -> str:
        return reference_of(msgspec.structs.replace(self.origin, name=name))


def perform(given: Dispatched) -> Confirmed:
    """Perform an action of a session or a chat. Raises AhpError for one that clients may not dispatch here."""
    handler = _HANDLERS.get(str(given.action.get("type")))
    if handler is None:
        raise AhpError(INVALID_PARAMS, f"This host does not accept {str(given.action.get('type'))[:80]}.")
    return (yield from handler(given))


def _context(session: SessionId) -> Generator[Any, Any, Context]:
    return read_memory((yield ReadProjection(session, NAME))).context


# --- prompts and the queue


def _start_turn(given: Dispatched) -> Confirmed:
    yield from _send(given, client_id(given.action, "turnId"), wait=False)
    return []


def _send(given: Dispatched, name: str, *, wait: bool) -> Generator[Any, Any, None]:
    reply = yield from do(
        cmd.Send(
            session=given.session,
            content=message_content(given.action),
            message=message_id(given.session, name),
            wait=wait,
            reference=given.reference(name),
        )
    )
    if reply.repeated:
        raise Stale("This message was sent already.")


def _set_pending(given: Dispatched) -> Confirmed:
    name = client_id(given.action, "id")
    if given.action.get("kind") != "steering":
        yield from _send(given, name, wait=True)
        return []
    content, message = message_content(given.action), message_id(given.session, name)
    try:
        yield cmd.Steer(session=given.session, content=content, message=message)
    except (Busy, AgentRefused):
        # No turn is running, or this agent accepts no messages in one: the message waits for its own turn.
        yield from _send(given, name, wait=True)
        return []
    return [given.action, {"type": "chat/pendingMessageRemoved", "kind": "steering", "id": name}]


def _remove_pending(given: Dispatched) -> Confirmed:
    name = client_id(given.action, "id")
    if given.action.get("kind") != "steering":
        context = yield from _context(given.session)
        yield cmd.CancelMessage(session=given.session, message=_queued(context, name))
    return [given.action]


def _queued(context: Context, name: str) -> MessageId:
    for message, prompt in context.queue.items():
        if prompt.id == name:
            return message
    raise NotFound("queued message", name)


def _reorder(given: Dispatched) -> Confirmed:
    order = given.action.get("order")
    if not isinstance(order, list):
        raise AhpError(INVALID_PARAMS, "order must be a list of ids.")
    context = yield from _context(given.session)
    queue = list(context.queue)
    first = [message for message in queue if context.turn is not None and context.turn.message == message]
    ids = {prompt.id: message for message, prompt in context.queue.items()}
    wanted = [ids[name] for name in dict.fromkeys(str(name) for name in order) if name in ids]
    target = list(dict.fromkeys([*first, *wanted, *queue]))
    for position, message in enumerate(target):
        if queue[position] != message:
            yield cmd.MoveMessage(session=given.session, message=message, position=position)
            queue.remove(message)
            queue.insert(position, message)
    return [given.action]


def _cancel_turn(given: Dispatched) -> Confirmed:
    turn = (yield from _context(given.session)).turn
    if turn is None or turn.id != text_of(given.action, "turnId"):
        raise Stale("This turn has ended already.")
    if turn.begun or turn.message is None:
        reply = yield from do(cmd.Interrupt(session=given.session, reference=given.reference()))
        return [given.action] if isinstance(reply.data, dict) and reply.data.get("idle") else []
    yield cmd.CancelMessage(session=given.session, message=turn.message)
    return [given.action]


# --- requests to a person


def _confirm(given: Dispatched) -> Confirmed:
    action = given.action
    call, approved = text_of(action, "toolCallId"), action.get("approved") is True
    found = (yield from _context(given.session)).request_of(call)
    if found is None:
        raise Stale("This call does not wait for a confirmation any more.")
    name, request = found
    option = action.get("selectedOptionId")
    always = approved and option == ALWAYS
    message, changed = _reason(action), _edited(action, request) if approved else None
    yield cmd.AnswerPermission(
        session=given.session,
        request=name,
        behavior="allow" if approved else "deny",
        message="" if approved else message,
        updated_input=changed,
        remember=request.suggestions if always else (),
    )
    edited = None if changed is None else encoded(changed)
    fields = confirmation(approved, ALWAYS if always else ALLOW if approved else DENY, edited, message)
    about = {"type": "chat/toolCallConfirmed", "turnId": request.turn, "toolCallId": call}
    return [{**about, **fields}]


def _reason(action: Fields) -> str:
    suggestion, reason = action.get("userSuggestion"), action.get("reasonMessage")
    if isinstance(suggestion, dict) and isinstance(suggestion.get("text"), str):
        return str(suggestion["text"])
    return reason if isinstance(reason, str) else ""


def _edited(action: Fields, request: OpenRequest) -> dict[str, Any] | None:
    edited = action.get("editedToolInput")
    if edited is None:
        return None
    changed = decode_message(edited.encode()) if isinstance(edited, str) else None
    if not isinstance(changed, dict) or not request.editable:
        raise AhpError(INVALID_PARAMS, "The changed input must be a JSON object, as the tool's input is.")
    return changed


def _complete_input(given: Dispatched) -> Confirmed:
    name, response = RequestId(client_id(given.action, "requestId")), given.action.get("response")
    request = (yield from _context(given.session)).requests.get(name)
    if request is None or not request.question:
        raise Stale("This question does not wait for an answer any more.")
    if response not in ("accept", "decline", "cancel"):
        raise AhpError(INVALID_PARAMS, "response is accept, decline or cancel.")
    accepted = response == "accept"
    answers = answers_of(given.action.get("answers")) if accepted else None
    behavior: Any = "allow" if accepted else "deny"
    yield cmd.AnswerPermission(session=given.session, request=name, behavior=behavior, answers=answers)
    return [given.action]


# --- the session


def _rename(given: Dispatched) -> Confirmed:
    yield cmd.Rename(session=given.session, title=text_of(given.action, "title"))
    return [given.action]


def _archive(given: Dispatched) -> Confirmed:
    yield cmd.ArchiveSession(session=given.session, archived=given.action.get("isArchived") is True)
    return [given.action]


def _configure(given: Dispatched) -> Confirmed:
    config = object_of(given.action, "config")
    mode, model, thinking = text_value(config, MODE), text_value(config, MODEL), thinking_value(config)
    if mode:
        yield cmd.SetMode(session=given.session, mode=mode)
    if MODEL in config:
        yield cmd.SetModel(session=given.session, model=model)
    if THINKING in config:
        yield cmd.SetThinking(session=given.session, budget=thinking)
    known = {MODE: mode, MODEL: model, THINKING: thinking or 0}
    return [{"type": given.action["type"], "config": {name: known[name] for name in known if config.get(name)}}]


def _accept(given: Dispatched) -> Confirmed:
    """An action that concerns this client alone: nothing is stored."""
    yield from ()
    return [given.action]


_HANDLERS: Final[dict[str, Callable[[Dispatched], Confirmed]]] = {
    "chat/turnStarted": _start_turn,
    "chat/turnCancelled": _cancel_turn,
    "chat/pendingMessageSet": _set_pending,
    "chat/pendingMessageRemoved": _remove_pending,
    "chat/queuedMessagesReordered": _reorder,
    "chat/toolCallConfirmed": _confirm,
    "chat/inputCompleted": _complete_input,
    "chat/inputAnswerChanged": _accept,
    "chat/draftChanged": _accept,
    "session/titleChanged": _rename,
    "session/isArchivedChanged": _archive,
    "session/isReadChanged": _accept,
    "session/configChanged": _configure,
}
