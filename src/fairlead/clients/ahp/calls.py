"""Tool calls, permissions, plans and questions as actions. Pure.

A call runs as soon as the agent has made it; a request for permission moves it back to `pending-confirmation`. A
subagent's calls are shown only when they ask for permission: then they are parts of the open turn.
"""

from typing import Any, Final

from fairlead.clients.ahp import turns
from fairlead.clients.ahp.context import ChatTurn, OpenRequest, without
from fairlead.clients.ahp.translation import Translation
from fairlead.clients.ahp.wire import Fields
from fairlead.model import events as ev
from fairlead.model.ids import CallId, RequestId

ALLOW: Final = "allow"
ALWAYS: Final = "always"
DENY: Final = "deny"
"""The ids of the options of a confirmation."""

_SUBJECTS: Final = ("command", "file_path", "path", "url", "pattern", "query", "description")
"""Input fields that say what a call is about, in the order of preference."""
_SUBJECT_CHARACTERS: Final = 500

Asked = ev.PermissionRequested | ev.PlanProposed


def called(step: Translation, event: ev.ToolCalled) -> None:
    turn = turns.open_turn(step, event.turn or event.id)
    if event.call not in turn.calls and not turn.full:
        _start(step, turn, event.call, event.name, event.input)


def _start(step: Translation, turn: ChatTurn, call: CallId, tool: str, given: dict[str, Any]) -> None:
    about = {"turnId": turn.id, "toolCallId": call}
    step.on_chat("toolCallStart", **about, toolName=tool, displayName=tool)
    fields = _invocation(step, tool, given)
    step.on_chat("toolCallReady", **about, **fields, confirmed="not-needed")
    step.change_turn(calls={**turn.calls, call: "running"})
    step.use(len(fields["toolInput"]))


def _invocation(step: Translation, tool: str, given: dict[str, Any]) -> Fields:
    subject = next((given[name] for name in _SUBJECTS if isinstance(given.get(name), str) and given[name]), "")
    message = f"{tool}: {subject}" if subject else tool
    return {"invocationMessage": message[:_SUBJECT_CHARACTERS], "toolInput": step.cut(turns.encoded(given))}


def finished(step: Translation, event: ev.ToolEnded) -> None:
    """Calls that are not shown, or were denied, have no result here."""
    turn = step.context.turn
    if turn is None or event.call not in turn.calls:
        return
    text = step.cut(_result_text(event.content))
    result: Fields = {
        "success": not event.is_error,
        "pastTenseMessage": f"{event.name or 'The tool'}: {_OUTCOMES[event.status]}",
        "content": [{"type": "text", "text": text}],
    }
    if event.is_error:
        result["error"] = {"message": text[:_SUBJECT_CHARACTERS]}
    step.on_chat("toolCallComplete", turnId=turn.id, toolCallId=event.call, result=result)
    step.change_turn(calls=without(turn.calls, event.call))
    step.use(len(text))


_OUTCOMES: Final = {"done": "done", "failed": "failed", "interrupted": "interrupted"}


def _result_text(content: Any) -> str:
    """A text unchanged; of a list of blocks their texts; anything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block.get("text") for block in content if isinstance(block, dict)]
        if texts and all(isinstance(text, str) for text in texts):
            return "\n".join(text for text in texts if isinstance(text, str))
    return "" if content is None else turns.encoded(content)


# --- requests to a person


def asked(step: Translation, event: Asked) -> None:
    turn = turns.open_turn(step, event.turn or event.id)
    plan = isinstance(event, ev.PlanProposed)
    if event.call not in turn.calls:
        _start(step, turn, event.call, event.tool, event.input)
        assert step.context.turn is not None
        turn = step.context.turn
    suggestions = () if isinstance(event, ev.PlanProposed) else event.suggestions
    fields = _invocation(step, event.tool, event.input)
    editable = not plan and fields["toolInput"] == turns.encoded(event.input)
    ready = {
        **fields,
        "confirmationTitle": "Approve the plan?" if plan else (getattr(event, "title", "") or f"Allow {event.tool}?"),
        "options": confirmation_options(suggestions, plan=plan),
        "editable": editable,
    }
    if isinstance(event, ev.PlanProposed):
        ready["invocationMessage"] = {"markdown": step.cut(event.plan)}
    step.on_chat("toolCallReady", turnId=turn.id, toolCallId=event.call, **ready)
    call = {"toolCallId": event.call, "toolName": event.tool, "displayName": event.tool, **ready}
    shown = {"id": event.request, "kind": "toolConfirmation", "chat": step.chat, "turnId": turn.id}
    step.on_session("inputNeededSet", request={**shown, "toolCall": {**call, "status": "pending-confirmation"}})
    step.change_turn(calls={**turn.calls, event.call: "pending"})
    request = OpenRequest(turn.id, event.call, suggestions=suggestions, editable=editable)
    step.change(requests={**step.context.requests, event.request: request})


def confirmation_options(suggestions: tuple[str, ...], *, plan: bool = False) -> list[Fields]:
    always = {"id": ALWAYS, "label": f"Always allow {', '.join(suggestions)}"[:200], "kind": "approve"}
    return [
        {"id": ALLOW, "label": "Approve" if plan else "Allow", "kind": "approve"},
        *((always,) if suggestions else ()),
        {"id": DENY, "label": "Keep planning" if plan else "Deny", "kind": "deny"},
    ]


def question_asked(step: Translation, event: ev.QuestionAsked) -> None:
    turn = turns.open_turn(step, event.turn or event.id)
    request = {"id": event.request, "questions": [_question(one, step) for one in event.questions]}
    step.on_chat("inputRequested", request=request)
    shown = {"id": event.request, "kind": "chatInput", "chat": step.chat, "request": request}
    step.on_session("inputNeededSet", request=shown)
    one = OpenRequest(turn.id, event.call, question=True)
    step.change(requests={**step.context.requests, event.request: one})


def _question(given: dict[str, Any], step: Translation) -> Fields:
    """A question's id is its text, which is also the key of the agent's answers."""
    text = step.cut(str(given.get("question") or ""), _SUBJECT_CHARACTERS)
    fields: Fields = {"id": text, "message": text, "required": True}
    if isinstance(given.get("header"), str):
        fields["title"] = given["header"][:80]
    offered = given.get("options")
    options = [_option(one) for one in offered if isinstance(one, dict)] if isinstance(offered, list) else []
    if not options:
        return {**fields, "kind": "text"}
    kind = "multi-select" if given.get("multiSelect") is True else "single-select"
    return {**fields, "kind": kind, "options": options, "allowFreeformInput": True}


def _option(given: dict[str, Any]) -> Fields:
    label = str(given.get("label") or "")[:200]
    described = given.get("description")
    return {"id": label, "label": label, **({"description": described} if isinstance(described, str) else {})}


def resolved(step: Translation, event: ev.PermissionResolved) -> None:
    request = _settle(step, event.request)
    turn = step.context.turn
    if request is None or turn is None or turn.id != request.turn:
        return
    allowed = event.behavior == "allow"
    if request.question:
        response = "accept" if allowed else "decline"
        answers = (event.updated_input or {}).get("answers")
        given = {str(name): submitted(value) for name, value in answers.items()} if isinstance(answers, dict) else {}
        more = {"answers": given} if allowed and given else {}
        step.on_chat("inputCompleted", requestId=event.request, response=response, **more)
        return
    if turn.calls.get(event.call) != "pending":
        return
    changed = event.updated_input if event.updated_input != event.input else None
    option = ALWAYS if event.remembered else ALLOW if allowed else DENY
    fields = confirmation(allowed, option, None if changed is None else turns.encoded(changed), event.message)
    step.on_chat("toolCallConfirmed", turnId=turn.id, toolCallId=event.call, **fields)
    calls = {**turn.calls, event.call: "running"} if allowed else without(turn.calls, event.call)
    step.change_turn(calls=calls)


def submitted(value: Any) -> Fields:
    text = value if isinstance(value, str) else turns.encoded(value)
    return {"state": "submitted", "value": {"kind": "text", "value": text}}


def confirmation(allowed: bool, option: str, edited: str | None, message: str) -> Fields:
    """The decision about a call, as every client receives it."""
    if not allowed:
        why = {"reasonMessage": message[:_SUBJECT_CHARACTERS]} if message else {}
        return {"approved": False, "reason": "denied", "selectedOptionId": option, **why}
    more = {} if edited is None else {"editedToolInput": edited}
    return {"approved": True, "confirmed": "user-action", "selectedOptionId": option, **more}


def cancelled(step: Translation, event: ev.PermissionCancelled) -> None:
    """The request is void: its call continues without an answer, if it continues."""
    request = _settle(step, event.request)
    turn = step.context.turn
    if request is None or turn is None or turn.id != request.turn:
        return
    if request.question:
        step.on_chat("inputCompleted", requestId=event.request, response="cancel")
    elif turn.calls.get(request.call) == "pending":
        about = {"turnId": turn.id, "toolCallId": request.call}
        step.on_chat("toolCallReady", **about, invocationMessage=event.reason, confirmed="not-needed")
        step.change_turn(calls={**turn.calls, request.call: "running"})


def _settle(step: Translation, name: RequestId) -> OpenRequest | None:
    request = step.context.requests.get(name)
    if request is not None:
        step.change(requests=without(step.context.requests, name))
        step.on_session("inputNeededRemoved", id=name)
    return request
