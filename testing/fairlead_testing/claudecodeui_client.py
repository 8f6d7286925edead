"""The reference client of claudecodeui's chat: what an app shows of its sessions, and what it sends. Pure, public.

client = ClaudeCodeUiClient(write=socket_send)
client.feed(frame)                          # each received frame
client.subscribe("...")                     # from the last number that this client has of the session
client.send("...", "hello")
client.loaded("...", page["messages"])      # history, as GET messages returned it
client.closed(); client.opened(write=...)   # a new connection: every session continues at its position
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

Frame = dict[str, Any]

ROWS = frozenset({"text", "thinking", "tool_use", "tool_result", "error", "task_notification", "interactive_prompt"})


class Shown(msgspec.Struct):
    """One session as the app shows it. `seq` is the number of the last frame; a new connection continues after it."""

    rows: list[Frame] = []
    history: list[Frame] = []
    streaming: str = ""
    """A text that is being written."""
    requests: dict[str, Frame] = {}
    completes: list[Frame] = []
    budget: Frame | None = None
    processing: bool = False
    gaps: int = 0
    errors: list[str] = []
    """Codes of the errors that answered this client's frames."""
    notes: list[str] = []
    """Notes that only this client received, outside of runs."""
    seq: int = 0

    @property
    def merged(self) -> list[Frame]:
        """History, followed by rows that it does not have yet: compared by id, and a streamed text by its content."""
        ids = {row["id"] for row in self.history}
        calls = {row["toolId"] for row in self.history if row["kind"] == "tool_use" and "toolResult" in row}
        texts = {row["content"].strip() for row in self.history if row["kind"] == "text"}

        def is_new(row: Frame) -> bool:
            if "id" not in row:
                return row["content"].strip() not in texts
            return row["id"] not in ids and not (row["kind"] == "tool_result" and row["toolId"] in calls)

        return [*self.history, *filter(is_new, self.rows)]


class ClaudeCodeUiClient:
    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self.sessions: dict[str, Shown] = {}
        self.listed: dict[str, Frame] = {}
        """The last `session_upserted` of each session."""
        self.progress: list[Frame] = []
        self.errors: list[str] = []
        """Codes of errors that name no session."""
        self._write = write

    # --- the connection

    def closed(self) -> None:
        self._write = None

    def opened(self, write: Callable[[str], None]) -> None:
        self._write = write
        if self.sessions:
            self.subscribe(*self.sessions)

    # --- receiving

    def feed(self, text: str | bytes) -> None:
        self.apply(json.loads(text))

    def apply(self, frame: Frame) -> None:
        kind, session = frame["kind"], frame.get("sessionId")
        if kind == "loading_progress":
            self.progress.append(frame)
        elif kind == "session_upserted":
            self.listed[frame["sessionId"]] = frame
        elif kind == "protocol_error":
            self._error(frame)
        elif session is None:
            for shown in self.sessions.values():
                shown.requests.pop(frame.get("requestId", ""), None)
        else:
            self._take(self.sessions.setdefault(session, Shown()), frame)

    def _error(self, frame: Frame) -> None:
        session = frame["sessionId"]
        if session is None:
            self.errors.append(frame["code"])
            return
        shown = self.sessions.setdefault(session, Shown())
        shown.errors.append(frame["code"])
        if frame["code"] == "REPLAY_GAP":
            # The client's copy is out of date: it must read history again, and its numbers restart.
            shown.gaps += 1
            shown.rows, shown.streaming, shown.seq = [], "", 0

    def _take(self, shown: Shown, frame: Frame) -> None:
        if frame["kind"] == "chat_subscribed":
            shown.processing = frame["isProcessing"]
            shown.requests = {asked["requestId"]: asked for asked in frame["pendingPermissions"]}
        elif frame["kind"] in ROWS and frame.get("seq") is None:
            shown.notes.append(frame["content"])
        elif frame.get("seq") is None:
            shown.requests.pop(frame.get("requestId", ""), None)
        elif frame["seq"] > shown.seq:
            shown.seq = frame["seq"]
            self._show(shown, frame)

    def _show(self, shown: Shown, frame: Frame) -> None:
        kind = frame["kind"]
        if kind == "complete":
            self._finish(shown)
            shown.completes.append(frame)
            shown.processing = False
            shown.requests.clear()
            return
        if kind == "permission_cancelled":
            shown.requests.pop(frame["requestId"], None)
            return
        shown.processing = True
        if kind == "stream_delta":
            shown.streaming += frame["content"]
        elif kind == "stream_end":
            self._finish(shown, frame if "content" in frame else None)
        elif kind == "permission_request":
            shown.requests[frame["requestId"]] = frame
        elif kind == "status":
            shown.budget = frame.get("tokenBudget", shown.budget)
        elif kind in ROWS:
            shown.rows.append(frame)

    def _finish(self, shown: Shown, whole: Frame | None = None) -> None:
        """`whole`: the text that has ended, if history has it too."""
        if whole is not None:
            shown.rows.append({**whole, "kind": "text"})
        elif shown.streaming.strip():
            shown.rows.append({"kind": "text", "role": "assistant", "content": shown.streaming})
        shown.streaming = ""

    def loaded(self, session: str, messages: Sequence[Frame]) -> None:
        """Take the newest page of history, as REST returned it."""
        self.sessions.setdefault(session, Shown()).history = list(messages)

    # --- sending

    def send(self, session: str, content: str, **fields: Any) -> bool:
        self.sessions.setdefault(session, Shown())
        return self._say({"type": "chat.send", "sessionId": session, "content": content, **fields})

    def abort(self, session: str) -> bool:
        return self._say({"type": "chat.abort", "sessionId": session})

    def subscribe(self, *sessions: str) -> bool:
        """Subscribe to each session from this client's position in it."""
        places = [{"sessionId": name, "lastSeq": self.sessions.setdefault(name, Shown()).seq} for name in sessions]
        return self._say({"type": "chat.subscribe", "sessions": places})

    def decide(self, request: str, *, allow: bool, **fields: Any) -> bool:
        return self._say({"type": "chat.permission-response", "requestId": request, "allow": allow, **fields})

    def _say(self, frame: Frame) -> bool:
        if self._write is None:
            return False
        self._write(json.dumps(frame))
        return True
