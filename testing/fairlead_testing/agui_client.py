"""A reference client of AG-UI: applies the events of runs to messages and state, and checks the rules of the protocol.

It has the rules that AG-UI's own client enforces. A breach raises `BrokenRule`.
"""

import copy
import json
from typing import Any

Event = dict[str, Any]
Message = dict[str, Any]


class BrokenRule(Exception):
    """The server broke a rule of the protocol."""


def payloads_of(data: bytes) -> list[bytes]:
    """The data of each event of a `text/event-stream`; comments are left out."""
    frames = (
        [line[5:].strip() for line in frame.split(b"\n") if line[:5] == b"data:"] for frame in data.split(b"\n\n")
    )
    return [b"\n".join(lines) for lines in frames if lines]


def events_of(data: bytes) -> list[Event]:
    return [json.loads(payload) for payload in payloads_of(data)]


def _check(condition: object, rule: str, event: Event) -> None:
    if not condition:
        raise BrokenRule(f"{rule}: {event}")


class AgUiClient:
    """The messages and the state of one thread."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.state: Any = {}
        self.customs: list[Event] = []
        self.interrupts: list[Event] = []
        self.outcomes: list[str] = []
        self.error: Event | None = None
        self.running = False
        self._open: dict[tuple[str, str], str | None] = {}
        self._active: set[str] = set()
        self._closed: set[str] = set()

    def feed(self, data: bytes) -> None:
        for event in events_of(data):
            self.apply(event)

    def message(self, name: str) -> Message | None:
        return next((message for message in self.messages if message["id"] == name), None)

    def apply(self, event: Event) -> None:
        kind = event["type"]
        _check(None not in event.values(), "no field is null", event)
        _check(self.running or kind == "RUN_STARTED", "events are inside a run", event)
        handler = getattr(self, f"_{kind.lower()}", None)
        _check(handler is not None, "the type is known", event)
        assert handler is not None
        handler(event)

    # --- runs

    def _run_started(self, event: Event) -> None:
        _check(not self.running, "a run is over before the next begins", event)
        self.running, self.error, self.interrupts = True, None, []
        self._open, self._active, self._closed = {}, set(), set()

    def _run_finished(self, event: Event) -> None:
        _check(not self._open and not self._active, "everything is closed before the end", event)
        outcome = event["outcome"]
        self.running = False
        self.outcomes.append(outcome["type"])
        self.interrupts = outcome.get("interrupts", [])

    def _run_error(self, event: Event) -> None:
        self.running, self.error = False, event
        self.outcomes.append("error")

    def _custom(self, event: Event) -> None:
        self.customs.append(event)

    # --- state

    def _messages_snapshot(self, event: Event) -> None:
        new = {message["id"]: copy.deepcopy(message) for message in event["messages"]}
        _check(len(new) == len(event["messages"]), "message ids are unique", event)
        keeps = all(message["role"] != "reasoning" for message in event["messages"])
        # Messages that the client has stay in their places.
        kept = [m for m in self.messages if m["id"] in new or (keeps and m["role"] == "reasoning")]
        self.messages = [new.pop(m["id"], m) for m in kept]
        self.messages += new.values()

    def _state_snapshot(self, event: Event) -> None:
        self.state = event["snapshot"]

    def _state_delta(self, event: Event) -> None:
        for patch in event["delta"]:
            *path, last = patch["path"].strip("/").split("/")
            place = self.state
            for name in path:
                place = place[name]
            _check(patch["op"] == "replace" and last in place, "a patch fits the state", event)
            place[last] = patch["value"]

    # --- texts and reasoning

    def _begin(self, what: str, name: str, event: Event) -> None:
        _check((what, name) not in self._open, "nothing is started twice", event)
        self._open[what, name] = event.get("subagentRunId")

    def _inside(self, what: str, name: str, event: Event) -> None:
        _check((what, name) in self._open, "pieces and ends follow a start", event)
        _check(self._open[what, name] == event.get("subagentRunId"), "the subagent stays the same", event)

    def _finish(self, what: str, name: str, event: Event) -> None:
        self._inside(what, name, event)
        del self._open[what, name]

    def _new(self, event: Event, role: str) -> None:
        if self.message(event["messageId"]) is None:
            owner = {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}
            self.messages.append({"id": event["messageId"], "role": role, "content": "", **owner})

    def _append(self, event: Event) -> None:
        _check(event["delta"], "a delta is not empty", event)
        message = self.message(event["messageId"])
        assert message is not None
        message["content"] += event["delta"]

    def _text_message_start(self, event: Event) -> None:
        self._begin("text", event["messageId"], event)
        self._new(event, event.get("role", "assistant"))

    def _text_message_content(self, event: Event) -> None:
        self._inside("text", event["messageId"], event)
        self._append(event)

    def _text_message_end(self, event: Event) -> None:
        self._finish("text", event["messageId"], event)

    def _reasoning_start(self, event: Event) -> None:
        self._begin("span", event["messageId"], event)

    def _reasoning_message_start(self, event: Event) -> None:
        self._begin("reasoning", event["messageId"], event)
        self._new(event, "reasoning")

    def _reasoning_message_content(self, event: Event) -> None:
        self._inside("reasoning", event["messageId"], event)
        self._append(event)

    def _reasoning_message_end(self, event: Event) -> None:
        self._finish("reasoning", event["messageId"], event)

    def _reasoning_end(self, event: Event) -> None:
        self._finish("span", event["messageId"], event)

    # --- calls

    def call(self, name: str) -> Message | None:
        calls = (call for message in self.messages for call in message.get("toolCalls", ()))
        return next((call for call in calls if call["id"] == name), None)

    def _tool_call_start(self, event: Event) -> None:
        self._begin("call", event["toolCallId"], event)
        _check(self.call(event["toolCallId"]) is None, "a call is sent once", event)
        parent = self.message(event["parentMessageId"])
        if parent is None:
            owner = {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}
            parent = {"id": event["parentMessageId"], "role": "assistant", "toolCalls": [], **owner}
            self.messages.append(parent)
        _check(parent.get("subagentRunId") == event.get("subagentRunId"), "a call has its message's owner", event)
        function = {"name": event["toolCallName"], "arguments": ""}
        parent["toolCalls"].append({"id": event["toolCallId"], "type": "function", "function": function})

    def _tool_call_args(self, event: Event) -> None:
        self._inside("call", event["toolCallId"], event)
        _check(event["delta"], "a delta is not empty", event)
        call = self.call(event["toolCallId"])
        assert call is not None
        call["function"]["arguments"] += event["delta"]

    def _tool_call_end(self, event: Event) -> None:
        self._finish("call", event["toolCallId"], event)

    def _tool_call_result(self, event: Event) -> None:
        _check(self.message(event["messageId"]) is None, "a result is sent once", event)
        names = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
        owner = {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}
        place = next((n for n, m in enumerate(self.messages, 1) if self._carries(m, event["toolCallId"])), None)
        place = len(self.messages) if place is None else place
        while place < len(self.messages) and self.messages[place]["role"] == "tool":
            place += 1
        self.messages.insert(place, {**names, "content": event["content"], **owner})

    def _carries(self, message: Message, call: str) -> bool:
        return any(one["id"] == call for one in message.get("toolCalls", ()))

    # --- subagents

    def _subagent_started(self, event: Event) -> None:
        name = event["subagentRunId"]
        _check(name not in self._active | self._closed, "a subagent starts once in a run", event)
        _check(event["name"], "a subagent has a name", event)
        parent = event.get("parentSubagentRunId")
        _check(parent is None or parent in self._active | self._closed, "its parent was started", event)
        self._active.add(name)

    def _subagent_finished(self, event: Event) -> None:
        _check(event["subagentRunId"] in self._active, "a subagent that ends was started", event)
        self._active.discard(event["subagentRunId"])
        self._closed.add(event["subagentRunId"])

    _subagent_error = _subagent_finished
