"""Decides commands: the events to log, and the decision to send to the agent. Pure; a rejection is an error.

Each function gets the state and the command and returns events; the session stores them and acts. A permission is
decided here and nowhere else: the first answer wins because the second finds nothing pending.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Decision, ToolCheck
from fairlead.model.content import MessageSource
from fairlead.model.decisions import hook_request
from fairlead.model.errors import BadRequest, Busy, NotAllowed, NotFound, Stale, TooMany
from fairlead.model.ids import MessageId, event_id
from fairlead.model.policy import Behavior, Verdict
from fairlead.sessions.state import PendingRequest, SessionState

QUEUE_LIMIT = 100
"""Maximum number of queued messages; more are rejected, so that a runaway script cannot fill the state."""
REFERENCE_LENGTH = 1000
"""Maximum characters of a client's own name of its request: it is stored and sent to all clients."""
QUEUE_BYTES = 4 << 20
"""Hot memory per session (design): queued messages are part of the state."""

Check = Callable[[str, dict[str, Any]], Verdict]
"""The policy's verdict on a tool call."""


def send(
    state: SessionState, command: cmd.Send, by: str, message: MessageId, source: MessageSource | None = None
) -> ev.MessageQueued:
    if not command.content:
        raise BadRequest("A message needs some content.")
    check_reference(command.reference)
    if not command.wait and (state.turn is not None or state.queue):
        raise Busy("The agent is at work: wait for the end of its turn, or interrupt it.")
    if len(state.queue) >= QUEUE_LIMIT:
        raise TooMany(f"{QUEUE_LIMIT} messages wait already: cancel some or wait for the agent.", limit=QUEUE_LIMIT)
    size = len(msgspec.msgpack.encode(command.content)) + len(msgspec.msgpack.encode(state.queue))
    if state.queue and size > QUEUE_BYTES:
        raise TooMany(f"The queue would hold {size} bytes; at most {QUEUE_BYTES} wait.", limit=QUEUE_BYTES)
    name = event_id(message, "message.queued")
    return ev.MessageQueued(
        id=name, message=message, content=command.content, by=by, reference=command.reference, source=source
    )


def check_reference(reference: str) -> None:
    if len(reference) > REFERENCE_LENGTH:
        raise BadRequest(f"A reference has at most {REFERENCE_LENGTH} characters.", field="reference")


def steer(state: SessionState, command: cmd.Steer) -> None:
    if not command.content:
        raise BadRequest("A message needs some content.")
    if state.turn is None:
        raise Busy("No turn is running: send the message instead of steering.")


def move(state: SessionState, command: cmd.MoveMessage, by: str, cause: str) -> ev.MessageMoved:
    _queued(state, command.message)
    if not 0 <= command.position < len(state.queue):
        raise BadRequest(f"The queue has {len(state.queue)} places, counted from 0.", places=len(state.queue))
    return ev.MessageMoved(
        id=event_id(cause, "message.moved"), message=command.message, position=command.position, by=by
    )


def cancel(state: SessionState, command: cmd.CancelMessage, by: str, cause: str) -> ev.MessageCancelled:
    _queued(state, command.message)
    return ev.MessageCancelled(
        id=event_id(cause, "message.cancelled"), turn=state.turn, message=command.message, by=by, reason="withdrawn"
    )


def set_mode(state: SessionState, command: cmd.SetMode, by: str, cause: str) -> ev.ModeChanged | None:
    if state.settings.mode == command.mode:
        return None
    return ev.ModeChanged(id=event_id(cause, "mode.changed"), mode=command.mode, by=by, request=command.request)


def hand_over(
    state: SessionState, command: cmd.StartHandover, by: str, cause: str, waits_for: tuple[str, ...]
) -> ev.HandoverRequested:
    if waits_for and not command.wait:
        raise Busy(
            f"It cannot be handed over now, there is {', '.join(waits_for)}: wait for it, interrupt it, or ask again "
            "with wait.",
            waits_for=list(waits_for),
        )
    name = event_id(cause, "handover.asked")
    return ev.HandoverRequested(
        id=name, turn=state.turn, link=command.link, when=command.when, waits_for=waits_for, by=by
    )


def handover_settled(
    state: SessionState, outcome: Literal["moved", "withdrawn", "failed"], by: str, cause: str, reason: str = ""
) -> ev.HandoverSettled:
    return ev.HandoverSettled(
        id=event_id(cause, "handover.settled"), link=state.settings.link, outcome=outcome, reason=reason, by=by
    )


def link_changed(state: SessionState, link: cmd.Link, by: str, cause: str) -> Iterator[ev.SessionChanged]:
    if state.settings.link != link:
        settings = msgspec.to_builtins(msgspec.structs.replace(state.settings, link=link))
        yield ev.SessionChanged(id=event_id(cause, "session.changed"), settings=settings, by=by)


def _queued(state: SessionState, message: MessageId) -> None:
    if state.find_queued(message) is None:
        raise NotFound("queued message", message)


def answer(
    state: SessionState, command: cmd.AnswerPermission, by: str, cause: str, check: Check
) -> ev.PermissionResolved:
    """Resolve a request with a person's answer. A changed input is checked like a new call; both inputs are logged."""
    pending = _pending(state, command.request)
    updated = _updated_input(pending, command)
    if command.behavior == "allow" and updated is not None and updated != pending.input:
        verdict = check(pending.tool, updated)
        if verdict.behavior == Behavior.DENY:
            raise NotAllowed(f"The changed input is denied: {verdict.reason}", rule=verdict.rule or "")
    message = command.message
    if command.behavior == "deny" and not message:
        message = f"{by or 'The user'} denied this."
    decision = Decision(command.behavior, message, updated, command.interrupt)
    resolved = answered_by_caller(state, pending, decision, by, cause)
    remembered = command.remember if command.behavior == "allow" else ()
    return msgspec.structs.replace(resolved, remembered=remembered)


def answered_by_caller(
    state: SessionState, pending: PendingRequest, decision: Decision, by: str, cause: str
) -> ev.PermissionResolved:
    """Resolve a request with the answer of the agent's own caller, which is not checked: the agent obeys its caller."""
    return ev.PermissionResolved(
        id=event_id(cause, "permission.resolved"),
        turn=state.turn,
        request=pending.request,
        call=pending.call,
        tool=pending.tool,
        behavior=decision.behavior,
        how="person",
        by=by,
        message=decision.message,
        input=pending.input,
        updated_input=decision.updated_input if decision.behavior == "allow" else None,
        interrupt=decision.interrupt,
    )


def resolve_by_policy(
    state: SessionState, about: PendingRequest | ToolCheck, verdict: Verdict, cause: str
) -> ev.PermissionResolved:
    """Resolve a request, or a call that was checked before any request, by the policy, without a person. Only for allow
    and deny."""
    asked = isinstance(about, PendingRequest)
    return ev.PermissionResolved(
        id=event_id(cause, "permission.resolved", 0 if asked else "hook"),
        turn=state.turn,
        request=about.request if isinstance(about, PendingRequest) else hook_request(about.call),
        call=about.call,
        tool=about.tool,
        behavior="allow" if verdict.behavior == Behavior.ALLOW else "deny",
        how=verdict.by,
        rule=verdict.rule or "",
        message=verdict.reason,
        input=about.input,
        asked=asked,
    )


def _pending(state: SessionState, request: str) -> PendingRequest:
    pending = state.find_pending(request)
    if pending is not None:
        return pending
    for known, by in state.decided:
        if known == request:
            raise Stale(f"This request is settled already ({by}).", by=by)
    raise NotFound("pending request", request)


def _updated_input(pending: PendingRequest, command: cmd.AnswerPermission) -> dict[str, Any] | None:
    """The changed input. The answers to a question come separately or inside the changed input; the question's own
    input completes them."""
    changed, answers = command.updated_input, command.answers
    if pending.question:
        if answers is None and changed is not None:
            answers = changed.get("answers")
        return {**pending.input, **(changed or {}), "answers": answers} if isinstance(answers, dict) else changed
    if answers is not None:
        raise BadRequest("Only a question takes answers; this is a permission.", tool=pending.tool)
    return changed
