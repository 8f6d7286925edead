"""Envelopes: their structure, and how the id, title and usage are built. Pure and stateless.

An envelope's id is a function of its source event, so that mapping a session again gives the same envelopes.
The keys that the protocol does not define (`result`, `isError`, `permission`, `localId`) are allowed by its schema.
"""

import hashlib
from typing import Any, Final, Literal

import msgspec

from fairlead.model.events import TokenCount

Role = Literal["user", "agent"]

HIDDEN: Final = "Task"
"""The tool that appears only as its subagent; under its later name, `Agent`, it appears as a call as well."""
VISIBLE: Final = "Agent"
INTERRUPTED: Final = "[Request interrupted by user for tool use]"
"""The result of an interrupted call that returned nothing."""

_TITLE_UNITS: Final = 80
_ELLIPSIS: Final = "..."

encode: Final = msgspec.json.Encoder().encode


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields in the order of the protocol's description. `turn` is set on all agent output, never on a user's message.
    `localId`, a key that Fairlead adds: the message's own id, where the agent's record has a different one."""

    id: str
    time: int
    role: Role
    turn: str = ""
    subagent: str | None = None
    claudeUuid: str = ""
    localId: str = ""
    usage: dict[str, Any] | None = None
    ev: dict[str, Any]


def envelope_id(event: str, kind: str, which: int | str = 0) -> str:
    """Return the id of the envelope of `kind` for `event`; `which` distinguishes several. Formed like a cuid2."""
    return "m" + hashlib.sha256(f"happy-envelope:{event}:{kind}:{which}".encode()).hexdigest()[:23]


def title_of(name: str, arguments: dict[str, Any]) -> str:
    """Return a call's title: its own description, if it has one."""
    given = arguments.get("description")
    return _cut(given) if isinstance(given, str) and given.strip() else f"{name} call"


def _cut(text: str) -> str:
    """Truncate `text`, counting UTF-16 units as the protocol's own clients do, and never inside a character."""
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
    """Return a subagent's title: the first of these arguments that is not blank."""
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
    """`subagent`: the subagent that the call starts, if the call itself is shown."""
    title = title_of(name, arguments)
    args = {**arguments, "sessionSubagent": subagent} if subagent else arguments
    names = {"name": name or "unknown", "title": title, "description": title}
    return {"t": "tool-call-start", "call": call, **names, "args": args}


def call_end(call: str, content: Any, is_error: bool, interrupted: bool) -> dict[str, Any]:
    result = INTERRUPTED if interrupted and content is None else content
    return {"t": "tool-call-end", "call": call, "result": result, "isError": is_error}


def file_of(ref: str, number: int, source: dict[str, Any]) -> dict[str, Any]:
    """An image of a user's message; clients request it by `ref`."""
    kind = source.get("media_type")
    mime = kind if isinstance(kind, str) else ""
    data = source.get("data")
    size = _decoded_size(data) if isinstance(data, str) else 0
    block = {"t": "file", "ref": ref, "name": f"image-{number + 1}{_SUFFIXES.get(mime, '')}", "size": size}
    return {**block, "mimeType": mime} if mime else block


_SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")
