"""The parameters of an editor's calls, and the blocks of its prompts. Pure.

Unknown fields are ignored, as the protocol wants it; a known one of the wrong type is an error that names it.
"""

from pathlib import PurePosixPath
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import quoteattr

import msgspec

from fairlead.clients.acp.updates import EditorFeatures
from fairlead.clients.acp.wire import INVALID_PARAMS, BadMessage, ClientCall, Fields
from fairlead.model.auth import Identity
from fairlead.model.content import Content, ImageBlock, TextBlock
from fairlead.model.ids import SessionId, session_id

FOLDERS: Final = 50
SERVERS: Final = 50
"""Maximum number of additional folders, and of MCP servers, of one session."""
BLOCKS: Final = 200
"""Maximum number of blocks of one prompt."""

P = TypeVar("P", bound=msgspec.Struct)


class InitializeParams(msgspec.Struct, frozen=True):
    protocolVersion: int
    clientCapabilities: Any = None


class McpServer(msgspec.Struct, frozen=True):
    name: str


class NewParams(msgspec.Struct, frozen=True):
    cwd: str
    mcpServers: tuple[McpServer, ...] = ()
    additionalDirectories: tuple[str, ...] = ()


class SessionParams(msgspec.Struct, frozen=True):
    sessionId: str

    @property
    def session(self) -> SessionId:
        return session_id(self.sessionId)


class OpenParams(SessionParams, frozen=True):
    """`session/load` and `session/resume`. The session keeps its folder and its MCP servers: `cwd` is not used."""

    meta: Any = msgspec.field(name="_meta", default=None)

    @property
    def position(self) -> tuple[int, str] | None:
        """The position after which the client wants to resume, and the log that it belongs to."""
        match self.meta:
            case {"fairlead": {"after": int(after), "logId": str(log_id)}} if not isinstance(after, bool):
                return after, log_id
            case _:
                return None


class ListParams(msgspec.Struct, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class PromptParams(SessionParams, frozen=True):
    prompt: tuple[Fields, ...] = ()


class ModeParams(SessionParams, frozen=True):
    modeId: str = ""


class OptionParams(SessionParams, frozen=True):
    configId: str = ""
    value: Any = None


class CancelRequestParams(msgspec.Struct, frozen=True):
    requestId: int | str | None = None


def read_params(call: ClientCall, kind: type[P]) -> P:
    """Raises BadMessage if the parameters do not fit."""
    try:
        return msgspec.convert(call.params, kind)
    except msgspec.ValidationError as error:
        raise BadMessage(INVALID_PARAMS, f"The parameters do not fit: {error}.") from None


def read_folders(given: NewParams) -> tuple[str, tuple[str, ...]]:
    """The session's folder and its additional folders. Raises BadMessage unless the paths are absolute."""
    if len(given.additionalDirectories) > FOLDERS or len(given.mcpServers) > SERVERS:
        raise BadMessage(INVALID_PARAMS, f"A session has at most {FOLDERS} folders and {SERVERS} MCP servers.")
    for path in (given.cwd, *given.additionalDirectories):
        if not PurePosixPath(path).is_absolute():
            raise BadMessage(INVALID_PARAMS, f"A path must be absolute, which {path[:80]!r} is not.")
    return given.cwd, given.additionalDirectories


def read_features(capabilities: Any, who: Identity) -> EditorFeatures:
    """The features of a client. What it declares in a wrong type counts as missing."""
    declared = capabilities if isinstance(capabilities, dict) else {}
    session, elicitation = declared.get("session"), declared.get("elicitation")
    return EditorFeatures(
        forms=_has(elicitation, "form"),
        notices=_has(session, "notices"),
        compaction=_has(session, "compaction"),
        approves=who.may("approve"),
    )


def _has(declared: Any, name: str) -> bool:
    """An empty object means yes."""
    return isinstance(declared, dict) and isinstance(declared.get(name), dict)


# --- prompts


def prompt_content(blocks: tuple[Fields, ...], cwd: str) -> tuple[Content, ...]:
    """A prompt as a message's content. Raises BadMessage for a block that cannot be sent."""
    if not 0 < len(blocks) <= BLOCKS:
        raise BadMessage(INVALID_PARAMS, f"A prompt has from 1 to {BLOCKS} blocks.")
    return tuple(_content(block, cwd) for block in blocks)


def _content(block: Fields, cwd: str) -> Content:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return ImageBlock({"type": "base64", "media_type": kind, "data": data})
        case {"type": "resource_link", "uri": str(uri)}:
            return TextBlock(_reference(uri, cwd))
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            # As text, which every agent accepts; documents are a block of Claude's only.
            return TextBlock(f"\n<file path={quoteattr(_reference(uri, cwd).removeprefix('@'))}>\n{text}\n</file>\n")
        case {"type": str(kind)}:
            raise BadMessage(INVALID_PARAMS, f"A prompt cannot have this block of the type {kind[:40]!r}.")
        case _:
            raise BadMessage(INVALID_PARAMS, "A block of a prompt needs a type.")


def _reference(uri: str, cwd: str) -> str:
    """How a file is mentioned in a prompt: by `@` and its path within the session's folder, else by its whole path or
    address."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return uri
    path = PurePosixPath(unquote(parts.path))
    inside = bool(cwd) and path.is_relative_to(cwd) and path != PurePosixPath(cwd)
    return f"@{path.relative_to(cwd)}" if inside else str(path)
