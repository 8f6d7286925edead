"""JSON-RPC 2.0 as MCP uses it: one message per request, and the rules of both eras of MCP for it. Pure.

Modern versions (2026-07-28) have no handshake: each request carries its version in `_meta`, repeated in HTTP headers.
Legacy versions begin with `initialize`. Both are answered here without a session, each request by itself.
"""

import base64
import binascii
from typing import Any, Final, Literal

import msgspec

from fairlead.model.web.requests import Head, Response

MODERN: Final = ("2026-07-28",)
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
SUPPORTED: Final = (*MODERN, *LEGACY)
"""The versions of MCP, newest first."""

VERSION_HEADER: Final = "mcp-protocol-version"
_META: Final = "io.modelcontextprotocol/"
VERSION_FIELD: Final = f"{_META}protocolVersion"
CAPABILITIES_FIELD: Final = f"{_META}clientCapabilities"
SERVER_FIELD: Final = f"{_META}serverInfo"

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

Id = str | int
Era = Literal["modern", "legacy"]

_BASE64: Final = ("=?base64?", "?=")
_encoder = msgspec.json.Encoder()


class McpError(Exception):
    """An error of the protocol, with the HTTP status of its response."""

    def __init__(self, code: int, message: str, status: int = 200, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.data = code, message, status, data


class RpcRequest(msgspec.Struct, frozen=True):
    id: Id
    method: str
    params: dict[str, Any]
    era: Era


class RpcNotice(msgspec.Struct, frozen=True):
    """A notification, or a client's response: nothing is answered."""


def read_message(body: bytes) -> tuple[Id | None, dict[str, Any]]:
    """Decode one message; return its id, if it has a valid one, and the message. Raises McpError."""
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise McpError(PARSE_ERROR, "The body is not JSON.", 400) from None
    if isinstance(message, list):
        raise McpError(INVALID_REQUEST, "Send one message per request: batches are not accepted.", 400)
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, 'A message is an object with "jsonrpc": "2.0".', 400)
    name = message.get("id")
    return (name if isinstance(name, str | int) and not isinstance(name, bool) else None), message


def interpret(id: Id | None, message: dict[str, Any], head: Head) -> RpcRequest | RpcNotice:
    """Check a message and its headers by the rules of the version that it names. Raises McpError."""
    method, params = message.get("method"), message.get("params", {})
    if method is None and ("result" in message or "error" in message):
        return RpcNotice()
    if not isinstance(method, str) or not isinstance(params, dict):
        raise McpError(INVALID_REQUEST, "A message has a method, and its params are an object.", 400)
    if "id" not in message:
        return RpcNotice()
    if id is None:
        raise McpError(INVALID_REQUEST, "The id of a request is a text or a whole number.", 400)
    era = _era(method, params, head)
    return RpcRequest(id, method, params, era)


def _era(method: str, params: dict[str, Any], head: Head) -> Era:
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    header, named = head.first(VERSION_HEADER), meta.get(VERSION_FIELD)
    if named is None and header not in MODERN:
        # Without the header a legacy client is one of before 2025-06-18. `initialize` negotiates the version itself.
        if header and header not in LEGACY and method != "initialize":
            raise _unsupported(header)
        return "legacy"
    if named is None:
        raise McpError(INVALID_PARAMS, f"_meta must have {VERSION_FIELD}.", 400)
    if header != named:
        raise McpError(HEADER_MISMATCH, f"The header MCP-Protocol-Version is not {VERSION_FIELD} of _meta.", 400)
    if named not in MODERN:
        raise _unsupported(header)
    if not isinstance(meta.get(CAPABILITIES_FIELD), dict):
        raise McpError(INVALID_PARAMS, f"_meta must have {CAPABILITIES_FIELD}, an object.", 400)
    if head.first("mcp-method") != method:
        raise McpError(HEADER_MISMATCH, "The header Mcp-Method is not the method of the body.", 400)
    if method == "tools/call" and _decoded(head.first("mcp-name")) != params.get("name"):
        raise McpError(HEADER_MISMATCH, "The header Mcp-Name is not the name in the params.", 400)
    return "modern"


def _unsupported(version: str) -> McpError:
    data = {"supported": list(SUPPORTED), "requested": version[:40]}
    return McpError(UNSUPPORTED_VERSION, "Unsupported protocol version", 400, data)


def _decoded(header: str) -> str | None:
    """The value of a header that may be in Base64; None if it is not valid Base64."""
    begin, end = _BASE64
    if not (header.startswith(begin) and header.endswith(end)):
        return header
    try:
        return base64.b64decode(header[len(begin) : -len(end)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def encoded_name(name: str) -> str:
    """The value of the header Mcp-Name for a tool's name."""
    begin, end = _BASE64
    plain = name.isascii() and name.isprintable() and name.strip() == name
    if plain and not (name.startswith(begin) and name.endswith(end)):
        return name
    return f"{begin}{base64.b64encode(name.encode()).decode()}{end}"


def negotiated(requested: Any) -> str:
    """The version that `initialize` answers: the requested one, or the newest that has a handshake."""
    return requested if requested in LEGACY else LEGACY[0]


def result_response(request: RpcRequest, result: dict[str, Any], server: dict[str, Any]) -> Response:
    if request.era == "modern":
        result = {"resultType": "complete", **result, "_meta": {SERVER_FIELD: server}}
    return Response(body=_encoder.encode({"jsonrpc": "2.0", "id": request.id, "result": result}))


def error_response(error: McpError, id: Id | None = None) -> Response:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    named = {} if id is None else {"id": id}
    return Response(status=error.status, body=_encoder.encode({"jsonrpc": "2.0", **named, "error": body}))
