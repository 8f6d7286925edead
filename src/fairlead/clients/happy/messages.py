"""Messages: encode envelopes for the socket and for pages, plain or encrypted, and decode posted ones. Pure."""

import uuid
from typing import Any, Final

import msgspec

from fairlead.auth.api.session_keys import SessionKey
from fairlead.clients.happy.encryption import seal, unseal
from fairlead.clients.happy.envelopes import envelope_id
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadRequest
from fairlead.model.formats.frames import text_frame
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import MessageId, SessionId, event_id, is_uuid
from fairlead.model.store import Entry, ProjectionRow

_NAMES: Final = uuid.UUID("7d0b7c2e-5b51-4d8a-9d53-3f1f6a1f7f4c")
"""Namespace to derive message ids from local ids that are not UUIDs."""
LOCAL_ID: Final = 150


# --- out ------------------------------------------------------------------------------------------------


class _Head(msgspec.Struct):
    id: str
    role: str
    claudeUuid: str = ""
    localId: str = ""


_heads: Final = msgspec.json.Decoder(_Head)
_encoder: Final = msgspec.json.Encoder()


def wire_message(envelope: bytes, seq: int | None = None) -> bytes:
    """Wrap an envelope as clients of this protocol expect it; `seq` for the socket, where no page carries it."""
    place = b"" if seq is None else b',"seq":%d' % seq
    return b'{"role":"session","content":%s,"meta":{"sentFrom":"cli"%s}}' % (envelope, place)


def page_message(row: ProjectionRow, key: SessionKey | None) -> msgspec.Raw:
    """Encode a row for a page; the socket uses the same form for encrypted rows. A user's message has its local id."""
    head = _heads.decode(row.data)
    message = wire_message(row.data)
    content: Any = {"t": "plain", "c": msgspec.Raw(message)}
    if key is not None:
        content = {"t": "encrypted", "c": seal(key, message)}
    message_fields = {
        "id": head.id,
        "seq": row.ordinal,
        "content": content,
        "localId": head.localId or head.claudeUuid or None if head.role == "user" else None,
        "createdAt": row.at,
        "updatedAt": row.at,
    }
    return msgspec.Raw(_encoder.encode(message_fields))


class HappyEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.gateway.FrameEncoder`: the rows, encrypted if the session has a key."""

    key: SessionKey | None

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        if self.key is None:
            return text_frame(wire_message(entry.event, entry.seq))
        return text_frame(bytes(page_message(ProjectionRow(entry.seq, entry.seq, entry.at, entry.event), self.key)))


# --- in -------------------------------------------------------------------------------------------------


class Posted(msgspec.Struct, frozen=True):
    """`content` is the message itself, or its encrypted form if the session has a key."""

    content: Any
    localId: str


class _Words(msgspec.Struct):
    type: str
    text: str


class _UserMessage(msgspec.Struct):
    role: str
    content: _Words


def text_of(posted: Posted, key: SessionKey | None) -> TextBlock:
    """Return the text of a posted user message. BadRequest for anything else: only the gateway makes envelopes."""
    if not 0 < len(posted.localId) <= LOCAL_ID:
        raise BadRequest(f"A localId has 1 to {LOCAL_ID} characters.", field="localId")
    content = posted.content
    if key is not None:
        if not isinstance(content, str):
            raise BadRequest("This session has a key: content is the sealed message in base64.", field="content")
        content = unseal(key, content)
    try:
        message = msgspec.convert(content, _UserMessage)
    except msgspec.ValidationError as error:
        raise BadRequest(f"A message does not fit: {error}.", field="content") from None
    if message.role != "user" or message.content.type != "text" or not message.content.text.strip():
        raise BadRequest("Only a user's text can be posted here.", field="content")
    return TextBlock(message.content.text)


def message_id(session: SessionId, local: str) -> MessageId:
    """Return the message's id: the local id if it is a UUID, so that a client recognizes its own message;
    else a UUID derived from it."""
    lowered = local.lower()
    return MessageId(lowered if is_uuid(lowered) else str(uuid.uuid5(_NAMES, f"{session}/{local}")))


def row_key(message: str, kind: str = "text", number: int = 0) -> str:
    """Return the key of the row of a user's message, or of an image in it."""
    return envelope_id(event_id(message, "user.message"), kind, number)
