"""Envelopes: what one looks like, and how its id, its title and its usage are made. Pure; no memory.

An envelope's id is a function of the event it tells, so that telling a session again gives the same envelopes.
Keys beyond the protocol's own (`result`, `isError`, `permission`, `localId`) are ones that its schema lets pass.
"""

import hashlib
from typing import Any, Final, Literal

import msgspec

from fairlead.model.events import TokenCount

Role = Literal["user", "agent"]

HIDDEN: Final = "Task"
"""The tool that is shown by its subagent alone; under its later name, `Agent`, it is shown as a call too."""
VISIBLE: Final = "Agent"
INTERRUPTED: Final = "[Request interrupted by user for tool use]"
"""The result of a call that got none."""

_TITLE_UNITS: Final = 80
_ELLIPSIS: Final = "..."

_encoder: Final = msgspec.json.Encoder()


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In the order of the protocol's description. `turn` is on all that the agent says, never on a user's words.
    `localId`, a key of ours: the message's own id, where the agent's record has another."""

    id: str
    time: int
    role: Role
    turn: str = ""
    subagent: str | None = None
    claudeUuid: str = ""
    localId: str = ""
    usage: dict[str, Any] | None = None
    ev: dict[str, Any]


def encode(envelope: Envelope) -> bytes:
    return _encoder.encode(envelope)


def envelope_id(event: str, kind: str, which: int | str = 0) -> str:
    """The name of the envelope of `kind` that tells `event`; `which` tells several apart. A cuid2 in form."""
    return "m" + hashlib.sha256(f"happy-envelope:{event}:{kind}:{which}".encode()).hexdigest()[:23]


def title_of(name: str, arguments: dict[str, Any]) -> str:
    """What a call is called: its own description, if it has one."""
    given = arguments.get("description")
    return _cut(given) if isinstance(given, str) and given.strip() else f"{name} call"


def _cut(text: str) -> str:
    """Counted in UTF-16 as the protocol's own clients do, and never inside a character."""
    if len(text) * 2 <= _TITLE_UNITS:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * _TITLE_UNITS:
        return text
    kept = 2 * (_TITLE_UNITS - len(_ELLIPSIS))
    if 0xD8 <= units[kept - 1] <= 0xDB:
        kept -= 2
    return units[:kept].decode("utf-16-le", "surrogatepass") + _ELLIPSIS


def subagent_title(arguments: dict[str, Any]) -> str:
    """What a subagent is called: the first of these that says something."""
    for name in ("description", "title", "subagent_type", "prompt"):
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def usage_of(tokens: TokenCount | None, window: int) -> dict[str, Any] | None:
    if tokens is None:
        return None
    usage: dict[str, Any] = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
    }
    if window:
        usage["context_window"] = window
    if tokens.tier:
        usage["service_tier"] = tokens.tier
    return usage


# --- kinds of ev ---------------------------------------------------------------------------------------


def call_start(call: str, name: str, arguments: dict[str, Any], subagent: str = "") -> dict[str, Any]:
    """`subagent`: the one that the call starts, for a call that is shown."""
    title = title_of(name, arguments)
    args = {**arguments, "sessionSubagent": subagent} if subagent else arguments
    return {
        "t": "tool-call-start",
        "call": call,
        "name": name or "unknown",
        "title": title,
        "description": title,
        "args": args,
    }


def call_end(call: str, content: Any, is_error: bool, interrupted: bool) -> dict[str, Any]:
    result = INTERRUPTED if interrupted and content is None else content
    return {"t": "tool-call-end", "call": call, "result": result, "isError": is_error}


def file_of(ref: str, number: int, source: dict[str, Any]) -> dict[str, Any]:
    """An image of a user's message; `ref` is what to ask for it by."""
    kind = source.get("media_type")
    mime = kind if isinstance(kind, str) else ""
    data = source.get("data")
    told: dict[str, Any] = {
        "t": "file",
        "ref": ref,
        "name": f"image-{number + 1}{_SUFFIXES.get(mime, '')}",
        "size": _decoded_size(data) if isinstance(data, str) else 0,
    }
    return {**told, "mimeType": mime} if mime else told


_SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")
