"""Decodes the frames of a chat client, or raises the error to answer with. Pure.

Follows the original: where it treats wrong fields as absent, so does this, and every error is a `protocol_error`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.clients.claudecodeui.chat.attachments import named_uploads
from fairlead.model.commands import AnswerPermission, SetRules
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.formats.frames import decode_message
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.ids import RequestId, SessionId, is_uuid
from fairlead.model.policy import PermissionMode
from fairlead.uploads.api import FILES, Upload

INVALID: Final = "Invalid websocket payload"
MOST_SESSIONS: Final = 200
"""Maximum number of sessions in one subscribe; each of them is read."""
SESSION_ERRORS: Final = {
    "SESSION_NOT_FOUND": 'Session "{}" was not found. Create it via POST /api/providers/sessions first.',
    "RUN_IN_PROGRESS": 'Session "{}" already has a run in progress.',
    "NO_ACTIVE_RUN": 'Session "{}" has no run in progress.',
    "REPLAY_GAP": 'The output of session "{}" since then cannot be replayed: read its messages again.',
}
MOST_NAMED: Final = 10
"""Maximum number of rules that one note lists."""


class SendMessage(msgspec.Struct, frozen=True):
    """A prompt. `mode`, `model`, `effort`: empty if the client does not change them. `message`: the client's own id of
    the prompt, which identifies a repeat. `rules`: the tool rules of the client's own settings. `uploads`: the files
    that the client claims; the upload service decides which of them are attached."""

    session: SessionId
    text: str
    mode: str = ""
    model: str = ""
    effort: str = ""
    queue: bool = False
    message: str = ""
    rules: SetRules | None = None
    uploads: tuple[Upload, ...] = ()


class AbortRun(msgspec.Struct, frozen=True):
    session: SessionId


class SubscribeTo(msgspec.Struct, frozen=True):
    """`last`: the number of the last frame that the client has; 0: none. `stream`: whether it wants texts as deltas;
    None: only while it shows this session."""

    session: SessionId
    last: int = 0
    stream: bool | None = None


class ChatError(BadRequest, code="chat_error"):
    """Sent as `protocol_error`, with `wire_code` as its code. `session`: the session concerned, if any."""

    def __init__(self, wire_code: str, message: str, session: str | None = None) -> None:
        super().__init__(message, word=wire_code, session=session)
        self.wire_code = wire_code
        self.session = session


def session_error(code: str, session: str) -> ChatError:
    return ChatError(code, SESSION_ERRORS[code].format(session), session)


def failed(error: FairleadError, session: str | None) -> ChatError:
    return ChatError("INTERNAL_ERROR", error.message, session)


def rejected_rules_text(refused: Mapping[str, str]) -> str:
    """Text for the user: which tool rules of the client's settings were rejected."""
    named = [f"{rule[:80]}: {why.rstrip('.')[:200]}." for rule, why in refused.items()][:MOST_NAMED]
    more = [f"And {len(refused) - MOST_NAMED} more."] if len(refused) > MOST_NAMED else []
    return "\n".join(["These tool permissions of your settings are not applied:", *named, *more])


def not_remembered(error: FairleadError) -> str:
    return f"Your answer applies only this time and is not remembered. {error.message}"


def read_frame(data: bytes) -> Mapping[str, Any]:
    """Decode one frame. Like the functions below, raises ChatError for one to answer with an error."""
    message = decode_message(data)
    if not isinstance(message, dict):
        raise ChatError("INTERNAL_ERROR", INVALID)
    return message


def unknown_type(message: Mapping[str, Any]) -> ChatError:
    kind = message.get("type")
    encoded = kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()
    name = encoded if "type" in message else "undefined"
    return ChatError("UNKNOWN_MESSAGE_TYPE", f'Unknown message type "{name[:80]}".')


def read_session(message: Mapping[str, Any], kind: str) -> SessionId:
    given = message.get("sessionId")
    name = given.strip() if isinstance(given, str) else ""
    if not name:
        raise ChatError("SESSION_ID_REQUIRED", f"{kind} requires a sessionId.")
    if not is_uuid(name.lower()):
        raise session_error("SESSION_NOT_FOUND", name[:120])
    return SessionId(name.lower())


def read_prompt(message: Mapping[str, Any]) -> SendMessage:
    session, content, given = read_session(message, "chat.send"), message.get("content"), message.get("options")
    options: Mapping[str, Any] = given if isinstance(given, dict) else {}
    mine = message.get("messageId")
    if mine is not None and (not isinstance(mine, str) or not is_uuid(mine)):
        raise ChatError("INTERNAL_ERROR", "messageId must be a UUID in lower case.", session)
    uploads = named_uploads(options)
    if len(uploads) > FILES:
        raise ChatError("INTERNAL_ERROR", f"At most {FILES} files go with a message.", session)
    return SendMessage(
        session,
        content if isinstance(content, str) else "",
        mode=_mode(options),
        model=_chosen(options.get("model")),
        effort=_chosen(options.get("effort")),
        queue=options.get("queue") is True,
        message=mine or "",
        rules=_rules(session, options.get("toolsSettings")),
        uploads=uploads,
    )


def _rules(session: SessionId, given: Any) -> SetRules | None:
    if not isinstance(given, dict):
        return None
    allow, deny = _texts(given.get("allowedTools")), _texts(given.get("disallowedTools"))
    return SetRules(session=session, allow=allow, deny=deny)


def _texts(given: Any) -> tuple[str, ...]:
    return tuple(item for item in given if isinstance(item, str)) if isinstance(given, list) else ()


def _mode(options: Mapping[str, Any]) -> str:
    """The requested mode. The gateway's policy decides whether a mode without permission requests is allowed."""
    mode = options.get("permissionMode")
    tools = options.get("toolsSettings")
    skip = options.get("skipPermissions") is True or (isinstance(tools, dict) and tools.get("skipPermissions") is True)
    if skip and mode != PermissionMode.PLAN:
        return PermissionMode.BYPASS_PERMISSIONS
    return mode if isinstance(mode, str) and mode.strip() else ""


def _chosen(given: Any) -> str:
    """The chosen value; the app sends `default` where the user chose nothing."""
    value = given.strip() if isinstance(given, str) else ""
    return "" if value == "default" else value


def read_subscriptions(message: Mapping[str, Any]) -> list[SubscribeTo]:
    """The sessions of one subscribe, in its order. An id that is not a UUID is answered as an unknown session."""
    given = message.get("sessions")
    found = [join for item in (given if isinstance(given, list) else ()) if (join := _one(item)) is not None]
    if len(found) > MOST_SESSIONS:
        raise ChatError("INTERNAL_ERROR", f"One chat.subscribe names at most {MOST_SESSIONS} sessions.")
    return found


def _one(item: Any) -> SubscribeTo | None:
    if not isinstance(item, dict):
        return None
    name, last = item.get("sessionId"), item.get("lastSeq")
    if not isinstance(name, str) or not name.strip():
        return None
    if not isinstance(last, int | float) or isinstance(last, bool) or not 0 <= last <= LARGEST_NUMBER:
        last = 0
    stream = item.get("stream")
    return SubscribeTo(SessionId(name.strip().lower()), int(last), stream if isinstance(stream, bool) else None)


def read_answer(message: Mapping[str, Any]) -> AnswerPermission | None:
    """The answer to a permission request; None for one to ignore."""
    request, text, given = message.get("requestId"), message.get("message"), message.get("updatedInput")
    allow, remember = bool(message.get("allow")), message.get("rememberEntry")
    if not isinstance(request, str) or not request:
        return None
    return AnswerPermission(
        request=RequestId(request),
        behavior="allow" if allow else "deny",
        message=text if isinstance(text, str) else "",
        updated_input=given if isinstance(given, dict) else None,
        remember=(remember,) if allow and isinstance(remember, str) and remember else (),
    )
