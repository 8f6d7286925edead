"""JSON-RPC 2.0, one message in a text frame: reads requests, writes answers, errors and notifications. Pure."""

from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest, Busy, FairleadError, NotAllowed, NotFound, Stale
from fairlead.model.formats.frames import decode_message, json_frame

Fields = dict[str, Any]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
SESSION_NOT_FOUND: Final = -32001
PROVIDER_NOT_FOUND: Final = -32002
SESSION_EXISTS: Final = -32003
TURN_IN_PROGRESS: Final = -32004
UNSUPPORTED_VERSION: Final = -32005
NOT_FOUND: Final = -32008
PERMISSION_DENIED: Final = -32009
ALREADY_EXISTS: Final = -32010

_CODES: Final[tuple[tuple[type[FairleadError], int], ...]] = (
    (NotFound, NOT_FOUND),
    (NotAllowed, PERMISSION_DENIED),
    (Busy, TURN_IN_PROGRESS),
    (Stale, ALREADY_EXISTS),
    (BadRequest, INVALID_PARAMS),
)
"""The code of each error of the gateway, the first that fits."""

LONGEST_ID: Final = 200
"""Maximum characters of a request's id, and of the ids that a client chooses."""


class AhpError(BadRequest, code="ahp_error"):
    """An error with a code of the protocol. `request`: the id of the malformed request, if it has one."""

    def __init__(self, number: int, message: str, data: Any = None, request: "str | int | None" = None) -> None:
        super().__init__(message)
        self.number = number
        self.details = data
        self.request = request


class RpcMessage(msgspec.Struct, frozen=True):
    """A request, or a notification (without an id)."""

    method: str
    params: Fields
    id: str | int | None = None


def read_message(data: bytes) -> RpcMessage | None:
    """Decode a message; None for a response, which answers nothing that we asked. Raises AhpError."""
    given = decode_message(data)
    if given is None:
        raise AhpError(PARSE_ERROR, "The message is not JSON.")
    if not isinstance(given, dict):
        raise AhpError(INVALID_REQUEST, "A message is a JSON object.")
    if "method" not in given and ("result" in given or "error" in given):
        return None
    method, params = given.get("method"), given.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        raise AhpError(
            INVALID_REQUEST, "A message has a method, and its params are an object.", None, request_id(given)
        )
    return RpcMessage(method, params, request_id(given))


def request_id(given: Any) -> str | int | None:
    name = given.get("id") if isinstance(given, dict) else None
    if isinstance(name, str):
        return name if len(name) <= LONGEST_ID else None
    return name if isinstance(name, int) and not isinstance(name, bool) else None


def text_of(params: Fields, name: str) -> str:
    """A parameter that must be a text. Raises AhpError."""
    value = params.get(name)
    if not isinstance(value, str):
        raise AhpError(INVALID_PARAMS, f"{name} must be a text.")
    return value


def texts_of(params: Fields, name: str, most: int) -> list[str]:
    """A parameter that is a list of texts; missing: an empty one. Raises AhpError."""
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > most or not all(isinstance(item, str) for item in value):
        raise AhpError(INVALID_PARAMS, f"{name} must be a list of at most {most} texts.")
    return value


def object_of(params: Fields, name: str) -> Fields:
    """A parameter that is an object; missing: an empty one. Raises AhpError."""
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise AhpError(INVALID_PARAMS, f"{name} must be an object.")
    return value


def result_frame(name: str | int, result: Any) -> bytes:
    return json_frame({"jsonrpc": "2.0", "id": name, "result": result})


def error_frame(name: str | int | None, error: FairleadError, not_found: int = NOT_FOUND) -> bytes:
    """`not_found`: the code for an object that does not exist."""
    if isinstance(error, AhpError):
        number, data = error.number, error.details
    else:
        number = next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)
        number, data = not_found if number == NOT_FOUND else number, {"code": error.code}
    fields: Fields = {"code": number, "message": error.message}
    if data is not None:
        fields["data"] = data
    return json_frame({"jsonrpc": "2.0", "id": name, "error": fields})


def notification_frame(method: str, params: Fields) -> bytes:
    return json_frame({"jsonrpc": "2.0", "method": method, "params": params})
