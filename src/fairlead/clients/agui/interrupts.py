"""Requests to a person as AG-UI interrupts, and the client's answers as commands. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.clients.agui.input import ResumeEntry
from fairlead.clients.agui.wire import Event
from fairlead.model import events as ev
from fairlead.model.commands import AnswerPermission
from fairlead.model.errors import BadRequest
from fairlead.model.ids import RequestId, SessionId

Asked = ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed

_APPROVED = {"approved": {"type": "boolean"}, "message": {"type": "string"}}


def interrupt_of(event: Asked) -> Event:
    """The interrupt of a request, with a schema of the answer."""
    fields: Event = {"id": event.request, "toolCallId": event.call}
    if event.subagent:
        fields["subagentRunId"] = event.subagent
    facts: dict[str, Any] = {"tool": event.tool, "input": event.input}
    match event:
        case ev.PermissionRequested():
            facts["suggestions"] = list(event.suggestions)
            properties = {
                **_APPROVED,
                "editedArgs": {"type": "object"},
                "remember": {"type": "array", "items": {"type": "string"}},
            }
            fields |= {"reason": "tool_call", "message": event.title or event.reason or event.tool}
            fields["responseSchema"] = {"type": "object", "properties": properties, "required": ["approved"]}
        case ev.QuestionAsked():
            words = [str(question.get("question", "")) for question in event.questions]
            fields |= {"reason": "input_required", "message": "\n".join(words) or event.tool}
            fields["responseSchema"] = _answers_schema(event.questions)
        case ev.PlanProposed():
            fields |= {"reason": "confirmation", "message": event.plan or event.tool}
            fields["responseSchema"] = {"type": "object", "properties": _APPROVED, "required": ["approved"]}
    return {**fields, "metadata": {"fairlead": facts}}


def _answers_schema(questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A schema with a field for each question; one with fixed options has them as an enumeration."""
    fields = {str(question.get("question", "")): _answer_schema(question) for question in questions}
    answers = {"type": "object", "properties": fields}
    return {"type": "object", "properties": {"answers": answers}, "required": ["answers"]}


def _answer_schema(question: Mapping[str, Any]) -> dict[str, Any]:
    given = question.get("options")
    options = given if isinstance(given, list) else []
    labels = [str(option["label"]) for option in options if isinstance(option, dict) and "label" in option]
    # A person may also answer in own words, so the options are examples and not the only values.
    one: dict[str, Any] = {"type": "string", **({"examples": labels} if labels else {})}
    return {"type": "array", "items": one} if question.get("multiSelect") is True else one


class _Payload(msgspec.Struct):
    approved: bool | None = None
    message: str = ""
    edited_args: dict[str, Any] | None = msgspec.field(default=None, name="editedArgs")
    remember: tuple[str, ...] = ()
    answers: dict[str, Any] | None = None


def answer_of(session: SessionId, entry: ResumeEntry, asked: ev.Event) -> AnswerPermission:
    """The command of one entry of `resume`. Raises BadRequest if the payload is no answer to the request."""
    request = RequestId(entry.interrupt)
    if entry.status == "cancelled":
        return AnswerPermission(session=session, request=request, behavior="deny", message="The request was cancelled.")
    try:
        payload = msgspec.convert({} if entry.payload is None else entry.payload, _Payload)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The payload of the interrupt {entry.interrupt[:80]} does not fit: {error}.") from None
    approved = payload.approved
    if isinstance(asked, ev.QuestionAsked):
        if payload.answers is None and approved is not False:
            raise BadRequest(f"The payload of the interrupt {entry.interrupt[:80]} must have answers, an object.")
        approved = approved is not False
    if approved is None:
        raise BadRequest(f"The payload of the interrupt {entry.interrupt[:80]} must have approved, true or false.")
    call = approved and isinstance(asked, ev.PermissionRequested)
    return AnswerPermission(
        session=session,
        request=request,
        behavior="allow" if approved else "deny",
        message=payload.message,
        updated_input=payload.edited_args if call else None,
        remember=payload.remember if call else (),
        answers=payload.answers if approved and isinstance(asked, ev.QuestionAsked) else None,
    )
