"""Decodes the parts of a chat client's frames, or raises the error to answer with. Pure.

As in the original, a frame that is not JSON is answered with an error, and one of an unknown type is ignored.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.model.commands import AnswerPermission
from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.ids import RequestId, SessionId, is_uuid

BAD_FORMAT: Final = "Invalid message format"
BAD_ID: Final = "Invalid conversation id"
NO_MESSAGE: Final = "Message is required"
BAD_ATTACHMENT: Final = "Invalid attachment: an image needs a base64 source of the type jpeg, png, gif or webp"
BAD_DOCUMENT: Final = "Invalid document: it needs a base64 PDF or a plain text as its source"
BAD_PLACE: Final = "lastSeq must be a whole number"
BAD_ANSWER: Final = "requestId and allow are required"

TITLE_LENGTH: Final = 100
IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def read_frame(data: bytes) -> Mapping[str, Any]:
    """Decode one frame; empty if it is JSON, but not an object. Like the functions below, raises BadRequest with the
    message of the `chat:error` to answer with."""
    try:
        message = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest(BAD_FORMAT) from None
    return message if isinstance(message, dict) else {}


def read_conversation(message: Mapping[str, Any]) -> SessionId:
    given = message.get("conversationId")
    if not isinstance(given, str) or not is_uuid(given.lower()):
        raise BadRequest(BAD_ID)
    return SessionId(given.lower())


def read_content(message: Mapping[str, Any]) -> tuple[tuple[Content, ...], str]:
    """The content of a message, and the title of the conversation that it would start."""
    text = message.get("message")
    if not isinstance(text, str):
        raise BadRequest(NO_MESSAGE)
    images = [_image(item) for item in _items(message.get("attachments"), BAD_ATTACHMENT)]
    documents = [_document(item) for item in _items(message.get("documents"), BAD_DOCUMENT)]
    if not text.strip() and not images and not documents:
        raise BadRequest(NO_MESSAGE)
    texts = [TextBlock(text)] if text.strip() else []
    title = text.strip()[:TITLE_LENGTH] or ("File attachment" if documents else "Image message")
    return (*images, *documents, *texts), title


def read_place(message: Mapping[str, Any]) -> tuple[int | None, str]:
    """The number of the last frame that the client has (None: from now on), and the log id."""
    last, log_id = message.get("lastSeq"), message.get("logId")
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or not 0 <= last <= LARGEST_NUMBER):
        raise BadRequest(BAD_PLACE)
    return last, log_id if isinstance(log_id, str) else ""


def read_answer(message: Mapping[str, Any]) -> AnswerPermission:
    request, allow, text = message.get("requestId"), message.get("allow"), message.get("message")
    if not isinstance(request, str) or not request or not isinstance(allow, bool):
        raise BadRequest(BAD_ANSWER)
    return AnswerPermission(
        request=RequestId(request),
        behavior="allow" if allow else "deny",
        message=text if isinstance(text, str) else "",
    )


def _items(given: Any, wrong: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise BadRequest(wrong)
    return given


def _image(given: Any) -> Content:
    match given:
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            if kind in IMAGES and _is_base64(data):
                return ImageBlock({"type": "base64", "media_type": kind, "data": data})
    raise BadRequest(BAD_ATTACHMENT)


def _document(given: Any) -> Content:
    match given:
        case {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": str(data)}}:
            good = _is_base64(data)
        case {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": str(data)}}:
            good = bool(data.strip())
        case _:
            good = False
    if not good or not isinstance(given.get("title"), str | None):
        raise BadRequest(BAD_DOCUMENT)
    kept = {name: given["source"][name] for name in ("type", "media_type", "data")}
    named = {"title": given["title"]} if given.get("title") else {}
    return OtherBlock({"type": "document", "source": kept, **named})


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return bool(data)
