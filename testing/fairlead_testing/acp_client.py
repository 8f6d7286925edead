"""The reference client of ACP (Agent Client Protocol) v1: what an editor shows of one session. Pure, public.

editor = AcpEditor()
editor.feed(message)             # each received message, decoded
editor.text, editor.calls, editor.plan, editor.requests
"""

from typing import Any

import msgspec

Fields = dict[str, Any]

CHUNKS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


class EditorMessage(msgspec.Struct):
    """A message or thought: consecutive chunks with one id. `parts` are texts, and blocks that are no text."""

    kind: str
    id: str
    parts: list[Any] = []

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    def add(self, block: Fields) -> None:
        if block["type"] != "text":
            self.parts.append(block)
        elif self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += block["text"]
        else:
            self.parts.append(block["text"])


class AcpEditor:
    """Reduces messages of the agent to the state that an editor shows."""

    def __init__(self) -> None:
        self.messages: list[EditorMessage] = []
        self.calls: dict[str, Fields] = {}
        """The tool calls, each with all its updates merged."""
        self.order: list[str] = []
        """Messages and calls in the order in which they began, without the calls of subagents."""
        self.inside: dict[str, list[str]] = {}
        """The calls of subagents, by the call that started the subagent."""
        self.plan: list[Fields] = []
        self.mode = ""
        self.options: list[Fields] = []
        self.commands: list[Fields] = []
        self.usage: Fields = {}
        self.info: Fields = {}
        self.notices: list[Fields] = []
        self.compactions: dict[str, str] = {}
        self.requests: dict[Any, Fields] = {}
        """The open requests to the person, by id."""
        self.answers: dict[Any, Fields] = {}
        """The agent's answers to the client's calls, by id."""
        self.seq = 0
        """The position in the log after which the client can resume."""

    def feed(self, message: Fields) -> None:
        match message:
            case {"method": "session/update", "params": {"update": update}}:
                self._update(update)
            case {"method": "$/cancel_request", "params": {"requestId": id}}:
                self.requests.pop(id, None)
            case {"method": _, "id": id}:
                assert id not in self.requests, f"{id} is open already"
                self.requests[id] = message
            case {"id": id}:
                assert id not in self.answers, f"{id} is answered already"
                self.answers[id] = message

    def answered(self, id: Any) -> None:
        """The person answered this request."""
        del self.requests[id]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(message.text for message in self.messages if message.kind == kind)

    def _update(self, update: Fields) -> None:
        fields = {name: value for name, value in update.items() if name not in ("sessionUpdate", "_meta")}
        self.seq = update.get("_meta", {}).get("fairlead", {}).get("seq", self.seq)
        match kind := update["sessionUpdate"]:
            case "tool_call" | "tool_call_update":
                self._call(kind, fields, update.get("_meta", {}).get("claudeCode", {}).get("parentToolUseId"))
            case "plan":
                self.plan = fields["entries"]
            case "current_mode_update":
                self.mode = fields["currentModeId"]
            case "config_option_update":
                self.options = fields["configOptions"]
            case "available_commands_update":
                self.commands = fields["availableCommands"]
            case "usage_update":
                self.usage = fields
            case "session_info_update":
                self.info |= fields
            case "notice":
                self.notices.append(fields)
            case "compaction_update":
                self.compactions[fields["compactionId"]] = fields["status"]
            case _:
                assert kind in CHUNKS, f"an unknown update: {kind}"
                self._chunk(kind, fields["messageId"], fields["content"])

    def _call(self, kind: str, fields: Fields, parent: str | None) -> None:
        call = fields["toolCallId"]
        if kind == "tool_call":
            assert call not in self.calls, f"the call {call} was there already"
            (self.order if parent is None else self.inside.setdefault(parent, [])).append(call)
        else:
            assert call in self.calls, f"there is no call {call} to update"
        self.calls[call] = self.calls.get(call, {}) | fields

    def _chunk(self, kind: str, id: str, block: Fields) -> None:
        found = next((message for message in self.messages if (message.kind, message.id) == (kind, id)), None)
        if found is None:
            found = EditorMessage(kind, id)
            self.messages.append(found)
            self.order.append(f"{kind} {id}")
        found.add(block)
