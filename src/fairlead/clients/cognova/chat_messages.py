"""Decodes the frames of a chat client into messages, or into the error to answer with. Pure.

As in the original, a frame that is not JSON is answered with an error, and one of an unknown type is ignored.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.ids import SessionId, is_uuid

BAD_FORMAT: Final = "Invalid message format"
BAD_ID: Final = "Invalid conversation id"
NO_MESSAGE: Final = "Message is required"
BAD_ATTACHMENT: Final = "Invalid attachment: an image needs a base64 source of the type jpeg, png, gif or webp"
BAD_DOCUMENT: Final = "Invalid document: it needs a base64 PDF or a plain text as its source"
BAD_PLACE: Final = "lastSeq must be a whole number"
BAD_ANSWER: Final = "requestId and allow are required"

TITLE_LENGTH: Final = 100
IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class SendMessage(msgspec.Struct, frozen=True):
    """A message; without a conversation it starts a new one with this title."""

    conversation: SessionId | None
    content: tuple[Content, ...]
    title: str


class AbortRun(msgspec.Struct, frozen=True):
    conversation: SessionId


class SubscribeTo(msgspec.Struct, frozen=True):
    """`last`: the number of the last frame that the client has; None: from now on."""

    conversation: SessionId
    last: int | None = None
    log_id: str = ""


class DecidePermission(msgspec.Struct, frozen=True):
    request: str
    allow: bool
    message: str = ""


class Ping(msgspec.Struct, frozen=True):
    pass


ClientMessage = SendMessage | AbortRun | SubscribeTo | DecidePermission | Ping


class BadFrame(BadRequest):
    """A frame that is answered with `chat:error`; `conversation`: the conversation concerned, if it was readable."""

    code = "bad_frame"

    def __init__(self, message: str, conversation: str = "") -> None:
        super().__init__(message, conversation=conversation)
        self.conversation = conversation


def read(data: bytes) -> ClientMessage | None:
    """Decode one frame. Returns None for a frame to ignore; raises BadFrame for one to answer with an error."""
    try:
        message = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFrame(BAD_FORMAT) from None
    if not isinstance(message, dict):
        return None
    match message.get("type"):
        case "chat:send":
            return _send(message)
        case "chat:interrupt":
            return AbortRun(_conversation(message))
        case "chat:subscribe":
            return _join(message)
        case "chat:permission_response":
            return _decide(message)
        case "ping":
            return Ping()
        case _:
            return None


def _conversation(message: Mapping[str, Any]) -> SessionId:
    given = message.get("conversationId")
    if not isinstance(given, str) or not is_uuid(given.lower()):
        raise BadFrame(BAD_ID)
    return SessionId(given.lower())


def _send(message: Mapping[str, Any]) -> SendMessage:
    conversation = None if message.get("conversationId") in (None, "") else _conversation(message)
    about, text = conversation or "", message.get("message")
    if not isinstance(text, str):
        raise BadFrame(NO_MESSAGE, about)
    images = [_image(item, about) for item in _items(message.get("attachments"), BAD_ATTACHMENT, about)]
    documents = [_document(item, about) for item in _items(message.get("documents"), BAD_DOCUMENT, about)]
    if not text.strip() and not images and not documents:
        raise BadFrame(NO_MESSAGE, about)
    texts = [TextBlock(text)] if text.strip() else []
    title = text.strip()[:TITLE_LENGTH] or ("File attachment" if documents else "Image message")
    return SendMessage(conversation, (*images, *documents, *texts), title)


def _items(given: Any, wrong: str, about: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise BadFrame(wrong, about)
    return given


def _image(given: Any, about: str) -> Content:
    source = _source(given, "image")
    if source.get("type") != "base64" or source.get("media_type") not in IMAGES or not _is_base64(source.get("data")):
        raise BadFrame(BAD_ATTACHMENT, about)
    return ImageBlock({"type": "base64", "media_type": source["media_type"], "data": source["data"]})


def _document(given: Any, about: str) -> Content:
    source = _source(given, "document")
    data = source.get("data")
    match source.get("type"), source.get("media_type"):
        case "base64", "application/pdf":
            good = _is_base64(data)
        case "text", "text/plain":
            good = isinstance(data, str) and bool(data.strip())
        case _:
            good = False
    title = given.get("title") if isinstance(given, dict) else None
    if not good or not isinstance(title, str | None):
        raise BadFrame(BAD_DOCUMENT, about)
    named = {"title": title} if title else {}
    kept = {"type": source["type"], "media_type": source["media_type"], "data": data}
    return OtherBlock({"type": "document", "source": kept, **named})


def _source(given: Any, kind: str) -> Mapping[str, Any]:
    source = given.get("source") if isinstance(given, dict) and given.get("type") == kind else None
    return source if isinstance(source, dict) else {}


def _is_base64(data: Any) -> bool:
    if not isinstance(data, str) or not data:
        return False
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _join(message: Mapping[str, Any]) -> SubscribeTo:
    conversation = _conversation(message)
    last, log_id = message.get("lastSeq"), message.get("logId")
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or not 0 <= last <= LARGEST_NUMBER):
        raise BadFrame(BAD_PLACE, conversation)
    return SubscribeTo(conversation, last, log_id if isinstance(log_id, str) else "")


def _decide(message: Mapping[str, Any]) -> DecidePermission:
    request, allow, text = message.get("requestId"), message.get("allow"), message.get("message")
    if not isinstance(request, str) or not request or not isinstance(allow, bool):
        raise BadFrame(BAD_ANSWER)
    return DecidePermission(request, allow, text if isinstance(text, str) else "")
