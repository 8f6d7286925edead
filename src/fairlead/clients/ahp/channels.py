"""The channels of the protocol: their URIs, and file URIs. Pure.

A session and its chat have the same UUID: a session of Fairlead has one conversation.
"""

from typing import Final
from urllib.parse import quote, unquote, urlsplit

from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId, is_uuid

PROVIDER: Final = "fairlead"
"""The one provider of the root state; it is also the scheme of the sessions' URIs."""
ROOT: Final = "ahp-root://"
_SESSION: Final = f"{PROVIDER}:/"
_CHAT: Final = "ahp-chat:/"


def session_uri(session: str) -> str:
    return _SESSION + session


def chat_uri(session: str) -> str:
    return _CHAT + session


def session_of(uri: str) -> SessionId | None:
    """The session of a session's channel; None for other channels."""
    return _named(uri, _SESSION)


def chat_of(uri: str) -> SessionId | None:
    """The session of a chat's channel; None for other channels."""
    return _named(uri, _CHAT)


def session_named(uri: str) -> SessionId | None:
    """The session of its own channel or of its chat's."""
    return session_of(uri) or chat_of(uri)


def channel_name(uri: str) -> str:
    """The URI of a channel as this host writes it: a client may write the UUID in another way."""
    if (session := session_of(uri)) is not None:
        return session_uri(session)
    return uri if (chat := chat_of(uri)) is None else chat_uri(chat)


def _named(uri: str, prefix: str) -> SessionId | None:
    name = uri.removeprefix(prefix).lower()
    return SessionId(name) if uri.startswith(prefix) and is_uuid(name) else None


def file_uri(path: str) -> str:
    return "file://" + quote(path, safe="/")


def path_of(uri: str) -> str:
    """The path of a file URI of this machine. Raises BadRequest."""
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        raise BadRequest("This is not a URI.", uri=uri[:200]) from None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise BadRequest("Only file URIs of the gateway's machine can be read here.", uri=uri[:200])
    return path
