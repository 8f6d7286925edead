"""ACP's messages: JSON-RPC 2.0, one message per line. Pure.

Agents print other text on stdout at times, and send fields of the wrong type: reading rejects nothing, and a line that
is no message is `Message` without an id and a method.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.links.framing import encode_line
from fairlead.model.formats.frames import decode_message

PROTOCOL_VERSION: Final = 1

METHOD_NOT_FOUND: Final = -32601
AUTH_REQUIRED: Final = -32000

INITIALIZE: Final = "initialize"
NEW: Final = "session/new"
LOAD: Final = "session/load"
RESUME: Final = "session/resume"
PROMPT: Final = "session/prompt"
CANCEL: Final = "session/cancel"
SET_MODE: Final = "session/set_mode"
SET_MODEL: Final = "session/set_model"
"""Not in the schema; for agents that list `models` in place of an option of the category model (Gemini CLI)."""
SET_OPTION: Final = "session/set_config_option"
UPDATE: Final = "session/update"
REQUEST_PERMISSION: Final = "session/request_permission"
ELICIT: Final = "elicitation/create"
CANCEL_REQUEST: Final = "$/cancel_request"

RpcId = int | str


class RpcError(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: Any = None


class Message(msgspec.Struct, frozen=True):
    """A message of either side: with `method` a request (`id`) or a notification; without it the answer to `id`."""

    id: RpcId | None = None
    method: str = ""
    params: dict[str, Any] = {}
    result: Any = None
    error: RpcError | None = None

    @property
    def is_request(self) -> bool:
        return bool(self.method) and self.id is not None

    @property
    def is_answer(self) -> bool:
        return not self.method and self.id is not None

    @property
    def update(self) -> dict[str, Any]:
        """The update of a `session/update`, else empty."""
        return as_dict(self.params.get("update")) if self.method == UPDATE else {}


def decode(raw: bytes) -> Message:
    data = decode_message(raw)
    if not isinstance(data, dict):
        return Message()
    given = data.get("id")
    failed = as_dict(data.get("error"))
    code = failed.get("code")
    error = RpcError(code if isinstance(code, int) else 0, as_text(failed.get("message")), failed.get("data"))
    return Message(
        id=given if isinstance(given, int | str) and not isinstance(given, bool) else None,
        method=as_text(data.get("method")),
        params=as_dict(data.get("params")),
        result=data.get("result"),
        error=error if "error" in data else None,
    )


def request_line(number: RpcId, method: str, params: dict[str, Any]) -> bytes:
    return encode_line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification_line(method: str, params: dict[str, Any]) -> bytes:
    return encode_line({"jsonrpc": "2.0", "method": method, "params": params})


def answer_line(number: RpcId, result: Any) -> bytes:
    return encode_line({"jsonrpc": "2.0", "id": number, "result": result})


def error_line(number: RpcId, code: int, message: str) -> bytes:
    return encode_line({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


# --- markers: records of the gateway for the interpreter, never sent ---------------------------------------------


class ReadyMarker(msgspec.Struct, frozen=True, kw_only=True, tag_field="fairlead", tag="ready"):
    """The conversation is open. `process` is a unique name of the agent's process. `trusts_titles`: the title of a
    shell call is its whole command."""

    process: str
    agent_session: str
    version: str = ""
    model: str = ""
    cwd: str = ""
    trusts_titles: bool = False


class CancelMarker(msgspec.Struct, frozen=True, kw_only=True, tag_field="fairlead", tag="cancel"):
    """A person wants the turn to end."""

    cause: str


def encode_marker(marker: ReadyMarker | CancelMarker) -> bytes:
    return msgspec.json.encode(marker)


def decode_marker(raw: bytes) -> ReadyMarker | CancelMarker | None:
    try:
        return msgspec.json.decode(raw, type=ReadyMarker | CancelMarker)
    except msgspec.DecodeError:
        return None


# --- values of any type ------------------------------------------------------------------------------------------


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
