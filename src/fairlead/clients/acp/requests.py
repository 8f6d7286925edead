"""Permissions, questions and plans as requests to the editor, and the answers as commands. Pure.

The id of a request names the session and the agent's own request, so that an answer needs no table: the pending request
is read again when the answer arrives, and an answer to a request that is no longer pending has no effect.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.acp.tools import call_fields
from fairlead.clients.acp.wire import CallIdentifier, Fields, request_frame
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.errors import BadId
from fairlead.model.ids import RequestId, SessionId, session_id

PersonRequest = ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed

RULES: Final = 4
"""Maximum number of rules that a card offers to remember."""
ALLOW: Final = "allow"
DENY: Final = "deny"
_ALWAYS: Final = "always:"
_ANSWER: Final = "answer:"
_ACCEPT_EDITS: Final = "accept-edits"
_FIELD: Final = "question"

_decoder: Final[msgspec.json.Decoder[PersonRequest]] = msgspec.json.Decoder(PersonRequest)


def read_request(event: bytes) -> PersonRequest:
    return _decoder.decode(event)


def request_id(session: SessionId, request: str) -> str:
    return f"{session}/{request}"


def split_id(id: CallIdentifier) -> tuple[SessionId, RequestId] | None:
    """The session and the request that an id of ours names; None for another id."""
    if not isinstance(id, str):
        return None
    session, _, request = id.partition("/")
    try:
        return (session_id(session), RequestId(request)) if request else None
    except BadId:
        return None


# --- the request to the editor


def person_request(session: SessionId, event: PersonRequest, cwd: str, *, forms: bool) -> bytes:
    """The frame that asks the editor's user; empty for a question that neither a form nor a card can show."""
    if isinstance(event, ev.QuestionAsked) and forms:
        return request_frame(request_id(session, event.request), "elicitation/create", _form(session, event))
    options = _options(event)
    if not options:
        return b""
    call = {"toolCallId": event.call, "status": "pending", **_call(event, cwd)}
    params = {"sessionId": session, "toolCall": call, "options": options}
    return request_frame(request_id(session, event.request), "session/request_permission", params)


def _call(event: PersonRequest, cwd: str) -> Fields:
    match event:
        case ev.PermissionRequested():
            # The title is what the call does, not the agent's own description of it: a person decides by it.
            fields = call_fields(event.tool, event.input, cwd)
            command = event.input.get("command")
            if isinstance(command, str) and len(command) > len(fields["title"]):
                fields["content"] = [{"type": "content", "content": {"type": "text", "text": command}}]
            return fields
        case ev.QuestionAsked():
            title = _question_text(event.questions[0])
            return {"title": title, "kind": "other", "rawInput": event.input}
        case ev.PlanProposed():
            plan = [{"type": "content", "content": {"type": "text", "text": event.plan}}] if event.plan else []
            return {"title": "Ready to code?", "kind": "switch_mode", "content": plan, "rawInput": event.input}


def _options(event: PersonRequest) -> list[Fields]:
    match event:
        case ev.PermissionRequested():
            rules = event.suggestions[:RULES]
            always = [_option(f"{_ALWAYS}{n}", f"Always allow {rule}", "allow_always") for n, rule in enumerate(rules)]
            return [_option(ALLOW, "Allow", "allow_once"), *always, _option(DENY, "Deny", "reject_once")]
        case ev.PlanProposed():
            return [
                _option(_ACCEPT_EDITS, "Yes, and accept edits", "allow_always"),
                _option(ALLOW, "Yes, and ask for edits", "allow_once"),
                _option(DENY, "No, keep planning", "reject_once"),
            ]
        case ev.QuestionAsked():
            labels = _single_choice(event)
            chosen = [_option(f"{_ANSWER}{n}", label, "allow_once") for n, label in enumerate(labels)]
            return [*chosen, _option(DENY, "Do not answer", "reject_once")] if labels else []


def _option(id: str, name: str, kind: str) -> Fields:
    return {"optionId": id, "name": name, "kind": kind}


def _single_choice(event: ev.QuestionAsked) -> list[str]:
    """The labels of a single question with a single choice; else nothing, since a card has one choice only."""
    if len(event.questions) != 1 or event.questions[0].get("multiSelect"):
        return []
    return _labels(event.questions[0])


def _question_text(question: Mapping[str, Any]) -> str:
    text = question.get("question")
    return text if isinstance(text, str) and text else "Question"


def _labels(question: Mapping[str, Any]) -> list[str]:
    options = question.get("options")
    listed = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
    return [label for option in listed if isinstance(label := option.get("label"), str) and label]


def questions_text(event: ev.QuestionAsked) -> str:
    """The questions with their choices, for people."""
    asked = ("\n- ".join([_question_text(question), *_labels(question)]) for question in event.questions)
    return "\n\n".join(asked)


def _form(session: SessionId, event: ev.QuestionAsked) -> Fields:
    fields = {f"{_FIELD}{n}": _field(question) for n, question in enumerate(event.questions)}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    message = _question_text(event.questions[0]) if len(event.questions) == 1 else "The agent has questions."
    scope = {"sessionId": session, "toolCallId": event.call}
    return {**scope, "mode": "form", "message": message, "requestedSchema": schema}


def _field(question: Mapping[str, Any]) -> Fields:
    header, text = question.get("header"), _question_text(question)
    field: Fields = {"title": header if isinstance(header, str) and header else text, "description": text}
    choices = [{"const": label, "title": label} for label in _labels(question)]
    if not choices:
        return {"type": "string", **field}
    if question.get("multiSelect"):
        return {"type": "array", **field, "items": {"anyOf": choices}}
    return {"type": "string", **field, "oneOf": choices}


# --- the editor's answer


def answer_commands(session: SessionId, event: PersonRequest, result: Any) -> Sequence[cmd.Command]:
    """The commands that an editor's answer stands for. A card that was dismissed, a form that was cancelled and an
    answer of another form decide nothing: the request stays open for other clients."""
    match result:
        case {"outcome": {"outcome": "selected", "optionId": str(option)}}:
            return _selected(session, event, option)
        case {"action": "accept", "content": dict(content)} if isinstance(event, ev.QuestionAsked):
            answers = _answers(event, content)
            return [_answer(session, event, ALLOW, answers=answers)] if answers else []
        case {"action": "decline"} if isinstance(event, ev.QuestionAsked):
            return [_answer(session, event, DENY)]
        case _:
            return []


def text_answer(session: SessionId, event: ev.QuestionAsked, text: str) -> cmd.AnswerPermission:
    """A person's own words as the answer to all questions of a request."""
    return _answer(session, event, ALLOW, answers={_question_text(question): text for question in event.questions})


def _selected(session: SessionId, event: PersonRequest, option: str) -> Sequence[cmd.Command]:
    if option not in {offered["optionId"] for offered in _options(event)}:
        return []
    if option == DENY:
        return [_answer(session, event, DENY)]
    if isinstance(event, ev.QuestionAsked):
        label = _labels(event.questions[0])[int(option.removeprefix(_ANSWER))]
        return [_answer(session, event, ALLOW, answers={_question_text(event.questions[0]): label})]
    if option == _ACCEPT_EDITS:
        return [_answer(session, event, ALLOW), cmd.SetMode(session=session, mode="acceptEdits")]
    if isinstance(event, ev.PermissionRequested) and option.startswith(_ALWAYS):
        rule = event.suggestions[int(option.removeprefix(_ALWAYS))]
        return [_answer(session, event, ALLOW, remember=(rule,))]
    return [_answer(session, event, ALLOW)]


def _answers(event: ev.QuestionAsked, content: Mapping[str, Any]) -> dict[str, str]:
    """The answers by the text of each question; several choices are separated by commas, as agents expect them."""
    found = {}
    for number, question in enumerate(event.questions):
        given = content.get(f"{_FIELD}{number}")
        parts = given if isinstance(given, list) else [given]
        text = ", ".join(part for part in parts if isinstance(part, str) and part)
        if text:
            found[_question_text(question)] = text
    return found


def _answer(
    session: SessionId,
    event: PersonRequest,
    behavior: Any,
    *,
    remember: tuple[str, ...] = (),
    answers: dict[str, str] | None = None,
) -> cmd.AnswerPermission:
    return cmd.AnswerPermission(
        session=session, request=event.request, behavior=behavior, remember=remember, answers=answers
    )
