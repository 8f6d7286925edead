"""The reference client of Cognova's chat: what an app shows of its conversations, and what it sends. Pure, public.

client = CognovaClient(write=socket_send)
client.feed(frame)                          # each received frame
client.send("hello")                        # starts a conversation; with an id it continues that one
client.closed(); client.opened(write=...)   # a new connection: every conversation continues at its position
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

Frame = dict[str, Any]


class Tool(msgspec.Struct):
    name: str
    result: str | None = None
    is_error: bool = False


class Answer(msgspec.Struct):
    """`status` is `streaming`, `complete` or `interrupted`."""

    parts: list[str] = []
    """Runs of text and ids of calls, in order: `text:...`, `tool:<id>`."""
    tools: dict[str, Tool] = {}
    status: str = "streaming"
    cost_usd: float = 0.0
    duration_ms: int = 0
    errors: list[str] = []

    @property
    def text(self) -> str:
        return "".join(part[5:] for part in self.parts if part.startswith("text:"))


class Subagent(msgspec.Struct):
    """A subagent's output, and the call that started it."""

    call: str = ""
    texts: list[str] = []


class Shown(msgspec.Struct):
    """One conversation as the app shows it. `seq` is the number of the last frame; a new connection continues after
    it."""

    answers: list[Answer] = []
    requests: dict[str, Frame] = {}
    settled: list[str] = []
    errors: list[str] = []
    subagents: dict[str, Subagent] = {}
    seq: int = 0
    log_id: str = ""

    @property
    def streaming(self) -> bool:
        return bool(self.answers) and self.answers[-1].status == "streaming"


class CognovaClient:
    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self.connected = False
        self.conversations: dict[str, Shown] = {}
        self.created: list[str] = []
        self.errors: list[str] = []
        """Errors that name no conversation."""
        self._write = write

    # --- the connection

    def closed(self) -> None:
        self.connected = False
        self._write = None

    def opened(self, write: Callable[[str], None]) -> None:
        self._write = write
        for conversation in self.conversations:
            self.subscribe(conversation)

    # --- receiving

    def feed(self, text: str | bytes) -> None:
        self.apply(json.loads(text))

    def apply(self, frame: Frame) -> None:
        kind, name = frame["type"], frame.get("conversationId")
        if kind == "chat:connected":
            self.connected = True
        elif kind == "chat:session_created":
            self.created.append(str(name))
            self.conversations[str(name)] = Shown()
        elif kind == "chat:error" and name is None:
            self.errors.append(frame["message"])
        elif name is not None:
            self._take(self.conversations.setdefault(name, Shown()), frame)

    def _take(self, shown: Shown, frame: Frame) -> None:
        seq, kind = frame.get("seq"), frame["type"]
        if kind == "chat:subscribed":
            self._subscribed(shown, frame)
        elif seq is None:
            if kind == "chat:error":
                shown.errors.append(frame["message"])
        elif kind == "chat:permission_request" or seq > shown.seq:
            # A pending request is sent to every client that joins, whatever its position.
            shown.seq = max(shown.seq, seq)
            self._show(shown, frame)

    def _subscribed(self, shown: Shown, frame: Frame) -> None:
        if frame["verdict"] == "gap":
            shown.answers, shown.requests, shown.settled, shown.errors = [], {}, [], []
            shown.subagents = {}
            shown.seq = 0
        shown.seq = frame.get("lastSeq", shown.seq)
        shown.log_id = frame["logId"]

    def _show(self, shown: Shown, frame: Frame) -> None:
        match frame:
            case {"type": "chat:stream_start"}:
                shown.answers.append(Answer())
            case {"type": "chat:permission_request", "requestId": request}:
                if request not in shown.settled:
                    shown.requests[request] = {"toolName": frame["toolName"], "input": frame["input"]}
            case {"type": "chat:subagent_start", "subagentId": subagent, "toolUseId": call}:
                shown.subagents[subagent] = Subagent(call)
            case {"type": "chat:subagent_text", "subagentId": subagent, "text": text}:
                shown.subagents.setdefault(subagent, Subagent()).texts.append(text)
            case {"type": "chat:permission_resolved", "requestId": request}:
                shown.requests.pop(request, None)
                shown.settled.append(request)
            case _:
                if not shown.answers:
                    # This client joined in the middle of an answer.
                    shown.answers.append(Answer())
                self._answer(shown, shown.answers[-1], frame)

    def _answer(self, shown: Shown, answer: Answer, frame: Frame) -> None:
        match frame:
            case {"type": "chat:text_delta", "delta": delta}:
                if answer.parts and answer.parts[-1].startswith("text:"):
                    answer.parts[-1] += delta
                else:
                    answer.parts.append(f"text:{delta}")
            case {"type": "chat:tool_start", "toolUseId": call, "toolName": name}:
                answer.parts.append(f"tool:{call}")
                answer.tools[call] = Tool(name)
            case {"type": "chat:tool_end", "toolUseId": call, "result": result, "isError": is_error}:
                # A call of background work may end in a later answer than the one that started it.
                tools = next((one.tools for one in reversed(shown.answers) if call in one.tools), answer.tools)
                tool = tools.setdefault(call, Tool(""))
                tool.result, tool.is_error = result, is_error
            case {"type": "chat:stream_end", "costUsd": cost, "durationMs": duration}:
                answer.status, answer.cost_usd, answer.duration_ms = "complete", cost, duration
            case {"type": "chat:interrupted"}:
                answer.status = "interrupted"
            case {"type": "chat:error", "message": message}:
                (answer if shown.streaming else shown).errors.append(message)

    # --- sending

    def send(self, message: str, conversation: str | None = None, **more: Any) -> bool:
        where = {} if conversation is None else {"conversationId": conversation}
        return self._say({"type": "chat:send", "message": message, **where, **more})

    def interrupt(self, conversation: str) -> bool:
        return self._say({"type": "chat:interrupt", "conversationId": conversation})

    def subscribe(self, conversation: str) -> bool:
        """Subscribe from this client's position; a client that has nothing of it yet gets only new frames."""
        shown = self.conversations.get(conversation)
        place = {} if shown is None else {"lastSeq": shown.seq, "logId": shown.log_id}
        return self._say({"type": "chat:subscribe", "conversationId": conversation, **place})

    def decide(self, request: str, *, allow: bool, message: str = "") -> bool:
        words = {"message": message} if message else {}
        return self._say({"type": "chat:permission_response", "requestId": request, "allow": allow, **words})

    def _say(self, frame: Frame) -> bool:
        if self._write is None:
            return False
        self._write(json.dumps(frame))
        return True
