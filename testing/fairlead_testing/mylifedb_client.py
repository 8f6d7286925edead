"""A reference client of the MyLifeDB protocol: pure, the client half of its document. Public, for any test suite.

It converts records to messages and shows each once, shows a sent message before the server has it, builds the thread
tree, derives from the frames whether the agent works, and extends the text of a message while it is streamed. It has
no socket: the owner of the socket calls `opened`, `received`, `closed`, and sends what `send` returns.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairlead_testing.threads import ThreadNode, Working, fold, tree

Record = dict[str, Any]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """The visible part of a record. Names are those of the protocol's document."""

    id: str
    role: str
    content: str
    timestamp: int = 0
    toolCalls: tuple[Record, ...] = ()
    thinking: tuple[Record, ...] = ()


def milliseconds(timestamp: Any) -> int:
    """Milliseconds from ISO 8601 or from a number; 0 for any other value."""
    if isinstance(timestamp, int | float):
        return int(timestamp)
    try:
        return round(datetime.fromisoformat(str(timestamp)).timestamp() * 1000)
    except ValueError:
        return 0


def convert(record: Mapping[str, Any]) -> Message:
    """A record as a message; a record without content gives a message without text."""
    message = record.get("message")
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    text = content if isinstance(content, str) else "\n".join(_field(blocks, "text", "text"))
    return Message(
        id=str(record.get("uuid", "")),
        role=str(message.get("role") or record.get("type", "")),
        content=text,
        timestamp=milliseconds(record.get("timestamp")),
        toolCalls=tuple(
            {"id": block["id"], "name": block["name"], "parameters": block["input"], "status": "completed"}
            for block in blocks
            if block.get("type") == "tool_use"
        ),
        thinking=tuple(
            {"type": "thinking", "thinking": block["thinking"]}
            | ({"signature": block["signature"]} if "signature" in block else {})
            for block in blocks
            if block.get("type") == "thinking"
        ),
    )


def address(page: str, session: str) -> str:
    """The socket of a session, for a page that was loaded from the same gateway."""
    parts = urlsplit(page)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return f"{scheme}://{parts.netloc}/api/claude/sessions/{session}/subscribe"


def build_tree(records: Sequence[Mapping[str, Any]]) -> list[ThreadNode]:
    return tree(records)


class State(msgspec.Struct):
    """What a person sees, without the state of the connection."""

    messages: list[Message] = []
    working: bool = False
    streaming_text: str = ""
    requests: dict[str, Record] = {}
    """Permissions that wait, by request id."""
    mode: str = ""
    todos: list[Any] = []


class MyLifeDbClient:
    def __init__(self) -> None:
        self.state = State()
        self.connected = False
        self.is_streaming = False
        self.texts: list[str] = []
        """The streamed text as shown after each piece."""
        self.published: list[bool] = []
        """The working state after each record."""
        self.notices: list[str] = []
        """Errors that the person sees."""
        self.reports: list[str] = []
        """Messages for the console."""
        self.rows: list[Record] = []
        """The records of this connection's replay and the later ones, in order."""
        self.info: Record = {}
        self.session_state = ""
        self.typing: dict[str, bool] = {}
        self.acks: dict[Any, str] = {}
        self._working = Working()
        self._optimistic: dict[str, str] = {}
        """Messages that the server has not sent back yet: their local id, and their text."""

    # --- the connection

    @property
    def indicator(self) -> str:
        return "" if self.connected else "Disconnected"

    def opened(self, url: str = "") -> None:
        """A new connection replays all history: visible messages stay, derived state is reset."""
        self.reports.append(f"[ChatInterface] Connecting to WebSocket: {url}")
        self.reports.append("[ChatInterface] WebSocket connected")
        self.connected = True
        self.rows = []
        self._begin_again()

    def failed(self) -> None:
        self.connected = False

    def closed(self) -> None:
        self.connected = False

    # --- sending

    def send(self, content: str, uuid: str, now: int, id: str | None = None) -> bytes | None:
        """The frame for the socket; None if it is not open. `uuid` is random, `now` the time in milliseconds."""
        if not self.connected:
            self.reports.append("WebSocket not connected")
            return None
        self.is_streaming = True
        self.state.messages.append(Message(id=uuid, role="user", content=content, timestamp=now))
        self._optimistic[uuid] = content
        frame = {"type": "user_message", "content": content}
        if id is not None:
            frame["id"] = id
        return msgspec.json.encode(frame)

    def send_failed(self, why: str) -> None:
        self.reports.append(f"Failed to send message: {why}")
        self.notices.append(f"Failed to send message: {why}")
        self.is_streaming = False

    # --- receiving

    def received(self, data: str | bytes) -> None:
        try:
            frame = msgspec.json.decode(data)
            if not isinstance(frame, dict):
                raise ValueError("a frame is an object")
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            self.reports.append(f"Failed to parse message: {error}")
            self.is_streaming = False
            return
        self.apply(frame)

    def apply(self, frame: Record) -> None:
        kind = str(frame.get("type", ""))
        self.reports.append(f"[ChatInterface] Received message: {kind} {frame.get('uuid', '')}".rstrip())
        match kind:
            case "error":
                self.notices.append(str(frame.get("error", "")))
                self.is_streaming = False
            case "stream_event":
                self._streamed(frame)
            case "session_info":
                self.info = frame
            case "resume":
                self._resume(str(frame.get("fromUuid", "")), ok=frame.get("verdict") == "ok")
            case "todo_update":
                self.state.todos = frame["data"]["todos"]
            case "session_state":
                self.session_state = frame["state"]
            case "typing":
                self.typing[str(frame.get("name", ""))] = frame.get("isTyping") is True
            case "ack":
                self.acks[frame["id"]] = frame["uuid"]
            case _:
                self.rows.append(frame)
                self._row(frame)

    def _resume(self, uuid: str, *, ok: bool) -> None:
        """The next records follow `uuid`, or are the whole history: drop later ones, because they come again."""
        kept: list[Record] = []
        if ok:
            place = next((n for n, row in enumerate(self.rows) if row.get("uuid") == uuid), -1)
            kept = self.rows[: place + 1]
        self.rows = kept
        self._begin_again()
        for row in kept:
            self._row(row)

    def _begin_again(self) -> None:
        self._working = Working()
        self.is_streaming = False
        state = self.state
        state.working, state.streaming_text, state.requests, state.mode = False, "", {}, ""

    def _row(self, record: Record) -> None:
        state = self.state
        if "message" in record and record.get("uuid"):
            self._show(record)
        match record.get("type"):
            case "assistant" if not _in_subagent(record):
                state.streaming_text = ""
            case "control_request":
                state.requests[str(record["request_id"])] = record["request"]
            case "control_response":
                state.requests.pop(str(record["request_id"]), None)
                response = record.get("response")
                if isinstance(response, dict) and response.get("subtype") == "set_permission_mode":
                    state.mode = response["mode"]
            case "control_cancel_request":
                state.requests.pop(str(record["request_id"]), None)
            case _:
                pass
        self._working = fold(self._working, record)
        state.working = self.is_streaming = self._working.working
        self.published.append(state.working)

    def _show(self, record: Record) -> None:
        """Show a record once: an existing message is unchanged; a sent message replaces its optimistic copy."""
        messages = self.state.messages
        if any(message.id == record["uuid"] for message in messages):
            return
        shown = convert(record)
        if record.get("type") == "user":
            own = next((uuid for uuid, text in self._optimistic.items() if text == shown.content), None)
            if own is not None:
                del self._optimistic[own]
                place = next(n for n, message in enumerate(messages) if message.id == own)
                messages[place] = shown
                return
        messages.append(shown)

    def _streamed(self, frame: Record) -> None:
        event = frame.get("event")
        if not isinstance(event, dict) or _in_subagent(frame):
            return
        delta = event.get("delta")
        if event.get("type") == "content_block_delta" and isinstance(delta, dict) and delta.get("type") == "text_delta":
            self.state.streaming_text += str(delta.get("text", ""))
            self.texts.append(self.state.streaming_text)
        elif event.get("type") == "message_stop":
            self.state.streaming_text = ""


class ChatPage:
    """The page around a client: the open session and the typed text. It returns the socket operations to perform."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.session = ""
        self.client = MyLifeDbClient()
        self.input = ""

    def select(self, session: str) -> list[tuple[str, str]]:
        """Show another session: close the old socket and open one for the new session."""
        if session == self.session:
            return []
        done = self.leave()
        self.session = session
        self.client = MyLifeDbClient()
        return [*done, ("open", address(self.page, session))]

    def leave(self) -> list[tuple[str, str]]:
        if not self.session:
            return []
        old, self.session = self.session, ""
        self.client.closed()
        return [("close", address(self.page, old))]

    def key(self, key: str, uuid: str, now: int) -> list[tuple[str, str]]:
        """Handle a key in the input: Enter sends the typed text."""
        if key != "Enter":
            self.input += key
            return []
        frame = self.client.send(self.input, uuid, now)
        if frame is None:
            return []
        self.input = ""
        return [("send", frame.decode())]


def _in_subagent(record: Mapping[str, Any]) -> bool:
    return bool(record.get("parent_tool_use_id")) or record.get("isSidechain") is True


def _field(blocks: Sequence[Mapping[str, Any]], kind: str, name: str) -> list[str]:
    return [str(block[name]) for block in blocks if block.get("type") == kind and name in block]
