"""JSON-RPC 2.0 as the Agent Client Protocol uses it: one message per text frame, no batches. Pure."""

from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest, FairleadError, NotAllowed, NotFound, OutsideRoots
from fairlead.model.formats.frames import json_frame

PROTOCOL_VERSION: Final = 1

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

ID_LENGTH: Final = 400
"""Maximum characters of an id. Ids are kept while their request is open; Fairlead's own contain an agent's id."""

CallIdentifier = int | str | None
Fields = dict[str, Any]


class ClientCall(msgspec.Struct, frozen=True):
    """A request of the client, or (`notification`) a message without an answer."""

    id: CallIdentifier
    method: str
    params: Fields
    notification: bool


class ClientAnswer(msgspec.Struct, frozen=True):
    """The client's answer to a request of ours; `result` is None if it failed."""

    id: CallIdentifier
    result: Any


class BadMessage(BadRequest, code="bad_message"):
    """A message that is not JSON-RPC, or parameters that do not fit. `number` is its JSON-RPC code."""

    def __init__(self, number: int, message: str, id: CallIdentifier = None) -> None:
        super().__init__(message)
        self.number = number
        self.id = id


def read_message(data: bytes) -> ClientCall | ClientAnswer:
    """Decode a frame. Raises BadMessage."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadMessage(PARSE_ERROR, "The message is not JSON.") from None
    if not isinstance(value, dict):
        raise BadMessage(INVALID_REQUEST, "A message is one object; batches are not supported.")
    given = value.get("id")
    if given is not None and not _is_id(given):
        raise BadMessage(INVALID_REQUEST, f"An id is a whole number or a text of at most {ID_LENGTH} characters.")
    if "method" not in value:
        if "id" not in value or ("result" not in value and "error" not in value):
            raise BadMessage(INVALID_REQUEST, "A message has a method, or it is the answer to a request.", given)
        return ClientAnswer(given, value.get("result"))
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        raise BadMessage(INVALID_REQUEST, "A method is a text.", given)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise BadMessage(INVALID_PARAMS, "The parameters are an object.", given)
    return ClientCall(given, method, params, "id" not in value)


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= ID_LENGTH
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def result_frame(id: CallIdentifier, result: Any) -> bytes:
    return json_frame({"jsonrpc": "2.0", "id": id, "result": result})


def error_frame(id: CallIdentifier, error: FairleadError) -> bytes:
    return failure_frame(id, error_number(error), error.message, {"code": error.code, **error.data})


def failure_frame(id: CallIdentifier, number: int, message: str, data: Fields) -> bytes:
    return json_frame({"jsonrpc": "2.0", "id": id, "error": {"code": number, "message": message, "data": data}})


def request_frame(id: CallIdentifier, method: str, params: Fields) -> bytes:
    return json_frame({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def notification_frame(method: str, params: Fields) -> bytes:
    return json_frame({"jsonrpc": "2.0", "method": method, "params": params})


def error_number(error: FairleadError) -> int:
    """The JSON-RPC code of an error; its own code is in `data`."""
    match error:
        case BadMessage():
            return error.number
        case BadRequest() | OutsideRoots():
            return INVALID_PARAMS
        case NotFound():
            return NOT_FOUND
        case NotAllowed():
            return AUTH_REQUIRED
        case _:
            return INTERNAL_ERROR
