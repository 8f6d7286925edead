"""Decode a client's fields to a command: strict about names and types. Shared by REST and the socket."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

import msgspec

from fairlead.model.commands import Command, Create, Fork, Send, Steer
from fairlead.model.content import Content, OtherBlock, TextBlock, content_block
from fairlead.model.errors import BadId, BadRequest
from fairlead.model.ids import MessageId, is_uuid, session_id

T = TypeVar("T", bound=msgspec.Struct)

KINDS: Final[dict[str, type[Command]]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Command)}
"""Every command by its type on the wire."""

_USER_BLOCKS: Final = frozenset({"text", "image", "document"})
"""Types of content blocks that a user may send. Only the agent makes other blocks (such as a tool's result)."""
KEY_LENGTH: Final = 200


class UnknownType(BadRequest, code="unknown_type"):
    pass


class UnknownField(BadRequest, code="unknown_field"):
    """An unknown field is rejected rather than ignored: a client that sends a field expects an effect."""


class PingFrame(msgspec.Struct, frozen=True):
    pass


def command(kind: str, fields: dict[str, Any], fresh: Callable[[], str]) -> Command:
    """Build a command; raise BadRequest or a subclass if the fields are invalid. `fresh` draws a new session's id if
    the client leaves it out."""
    found = KINDS.get(kind)
    if found is None:
        raise UnknownType(f"There is no frame of the type {kind[:40]!r}.", type=kind[:40])
    fields = dict(fields)
    blocks: tuple[Content, ...] | None = None
    if found in (Send, Steer):
        blocks = content(fields.pop("text", None), fields.pop("content", None))
        fields["content"] = ()
    reject_unknown(fields, found)
    new = {Create: "session", Fork: "child"}.get(found)
    if new is not None and new not in fields:
        fields[new] = fresh()
    for name in ("session", "child"):
        if isinstance(fields.get(name), str):
            fields[name] = session_id(fields[name])
    made = convert(fields, found)
    check_key(made.key)
    if isinstance(made, Send | Steer) and blocks is not None:
        message_id(made.message)
        return msgspec.structs.replace(made, content=blocks)
    return made


def content(text: Any, blocks: Any) -> tuple[Content, ...]:
    """Decode a message's content, given either as text or as a list of blocks."""
    if (text is None) == (blocks is None):
        raise BadRequest("A message has either text or content.")
    if text is not None:
        if not isinstance(text, str) or not text:
            raise BadRequest("text must be a text that is not empty.", field="text")
        return (TextBlock(text),)
    if not isinstance(blocks, list) or not blocks:
        raise BadRequest("content must be a list of blocks that is not empty.", field="content")
    return tuple(_user_block(block) for block in blocks)


def _user_block(block: Any) -> Content:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str) or kind not in _USER_BLOCKS:
        raise BadRequest(f"A block of content has one of the types {', '.join(sorted(_USER_BLOCKS))}.", field="content")
    made = content_block(block)
    if isinstance(made, OtherBlock) and kind != "document":
        raise BadRequest(f"A block of the type {kind} lacks something, or has it in a wrong type.", field="content")
    return made


def message_id(given: str | None) -> MessageId | None:
    """Check a client's own id of its message: a UUID in lower case, because the agent returns it in lower case."""
    if given is None:
        return None
    if not is_uuid(given):
        raise BadId(what="message", given=given[:80])
    return MessageId(given)


def check_key(key: str) -> str:
    if len(key) > KEY_LENGTH:
        raise BadRequest(f"An idempotency key has at most {KEY_LENGTH} characters.", field="key")
    return key


def reject_unknown(fields: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    unknown = sorted(str(name)[:40] for name in fields if name not in kind.__struct_fields__)
    if unknown:
        raise UnknownField(f"There is no field {', '.join(unknown)} here.", fields=unknown)


def convert(fields: dict[str, Any], kind: type[T]) -> T:
    """Build a `kind` of a frame's fields; raise BadRequest or a subclass if they do not fit."""
    reject_unknown(fields, kind)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The frame does not fit: {error}.") from None
