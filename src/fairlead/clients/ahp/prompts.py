"""A client's message as content of Fairlead, and ids of messages. Pure."""

import hashlib
from typing import Any, Final

from fairlead.clients.ahp.channels import path_of
from fairlead.clients.ahp.wire import INVALID_PARAMS, LONGEST_ID, AhpError, Fields, object_of, text_of
from fairlead.model.content import Content, ImageBlock, TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.ids import MessageId, SessionId, is_uuid

ATTACHMENTS: Final = 50


def client_id(params: Fields, name: str) -> str:
    """An id that the client chose. Raises AhpError."""
    value = text_of(params, name)
    if not 0 < len(value) <= LONGEST_ID:
        raise AhpError(INVALID_PARAMS, f"{name} has 1 to {LONGEST_ID} characters.")
    return value


def message_id(session: SessionId, name: str) -> MessageId:
    """The id of the message with the client's id `name`: a repeat has the same one, so that it is not sent twice."""
    if is_uuid(name):
        return MessageId(name)
    digits = hashlib.sha256(f"{session}:{name}".encode()).hexdigest()
    return MessageId(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}")


def message_content(action: Fields) -> tuple[Content, ...]:
    """Text and attachments of a message. Raises AhpError."""
    message = object_of(action, "message")
    text, given = text_of(message, "text"), message.get("attachments") or []
    if not isinstance(given, list) or len(given) > ATTACHMENTS:
        raise AhpError(INVALID_PARAMS, f"attachments is a list of at most {ATTACHMENTS} objects.")
    pictures: list[Content] = []
    texts = [text]
    for attachment in given:
        match attachment:
            case {"type": "embeddedResource", "contentType": str(kind), "data": str(data)} if kind.startswith("image/"):
                pictures.append(ImageBlock({"type": "base64", "media_type": kind, "data": data}))
            case {"type": "resource", "uri": str(uri)}:
                texts.append(f"Attached: {_path(uri)}")
            case {"modelRepresentation": str(shown)}:
                texts.append(shown)
    joined = "\n\n".join(part for part in texts if part)
    content = (*((TextBlock(joined),) if joined else ()), *pictures)
    if not content:
        raise AhpError(INVALID_PARAMS, "A message needs some content.")
    return content


def _path(uri: str) -> str:
    try:
        return path_of(uri)
    except BadRequest:
        return uri


def answers_of(given: Any) -> dict[str, Any]:
    """The submitted answers to questions, each as the agent expects it: a text."""
    found: dict[str, Any] = {}
    for name, answer in given.items() if isinstance(given, dict) else ():
        value = answer.get("value") if isinstance(answer, dict) and answer.get("state") == "submitted" else None
        if isinstance(value, dict):
            found[str(name)] = _answer(value)
    return found


def _answer(value: Fields) -> str:
    free = [text for text in value.get("freeformValues") or () if isinstance(text, str) and text]
    chosen = value.get("value")
    if isinstance(chosen, bool):
        return "yes" if chosen else "no"
    if isinstance(chosen, list):
        return ", ".join([*(str(one) for one in chosen), *free])
    return free[0] if free else str(chosen or "")
