"""The reference client of the Agent Host Protocol: folds snapshots and actions as the protocol's reducers do. Pure.

client = AhpClient()
client.take(message)                    # each received message, decoded
client.chats, client.sessions           # the states, by channel

Written from the protocol's description, not from the gateway's own fold: the laws compare the two.
"""

import copy
from datetime import datetime, timedelta
from typing import Any

State = dict[str, Any]
Action = dict[str, Any]

_BASE = ("toolCallId", "toolName", "displayName", "intention", "contributor", "_meta")


class AhpClient:
    """`answers` are the results and errors of requests by id, `notices` all notifications that are no actions.
    `rejected` are the envelopes with a reason. An action that arrives before its channel's snapshot waits for it.
    `seen` is the highest number of an action: with it, a client comes back."""

    def __init__(self) -> None:
        self.root: State = {}
        self.chats: dict[str, State] = {}
        self.sessions: dict[str, State] = {}
        self.answers: dict[Any, State] = {}
        self.notices: list[State] = []
        self.rejected: list[State] = []
        self.envelopes: list[State] = []
        self.seen = 0
        self._early: dict[str, list[State]] = {}

    def take(self, message: State) -> None:
        if "id" in message:
            self.answers[message["id"]] = message
            result = message.get("result") or {}
            found = result.get("snapshots", []) + ([result["snapshot"]] if "snapshot" in result else [])
            if "protocolVersion" in result:
                self.seen = result["serverSeq"]
            for snapshot in found:
                self.take_snapshot(snapshot)
            for envelope in result.get("actions", []):
                self._take_envelope(envelope)
            for channel in result.get("missing", []):
                self.chats.pop(channel, None)
                self.sessions.pop(channel, None)
        elif message["method"] == "action":
            self._take_envelope(message["params"])
        else:
            self.notices.append(message)

    def _take_envelope(self, envelope: State) -> None:
        self.seen = max(self.seen, envelope["serverSeq"])
        self.envelopes.append(envelope)
        self._take_action(envelope)

    def take_snapshot(self, snapshot: State) -> None:
        channel, state = snapshot["resource"], copy.deepcopy(snapshot["state"])
        if channel == "ahp-root://":
            self.root = state
            return
        (self.chats if channel.startswith("ahp-chat:") else self.sessions)[channel] = state
        for envelope in self._early.pop(channel, []):
            if envelope["serverSeq"] > snapshot["fromSeq"]:
                self._take_action(envelope)

    def _take_action(self, envelope: State) -> None:
        channel, action = envelope["channel"], copy.deepcopy(envelope["action"])
        if "rejectionReason" in envelope:
            self.rejected.append(envelope)
            return
        states = self.chats if channel.startswith("ahp-chat:") else self.sessions
        if channel not in states:
            self._early.setdefault(channel, []).append(envelope)
            return
        reduce = reduce_chat if states is self.chats else reduce_session
        states[channel] = reduce(states[channel], action)


# --- chats


def reduce_chat(state: State, action: Action) -> State:
    kind = action["type"].removeprefix("chat/")
    match kind:
        case "turnStarted":
            return _turn_started(state, action)
        case "turnComplete":
            return _turn_ended(state, action, "complete")
        case "turnCancelled":
            return _turn_ended(state, action, "cancelled")
        case "error":
            return _turn_ended(state, action, "error", 2)
        case "turnsLoaded":
            known = {turn["id"] for turn in state["turns"]}
            turns = [turn for turn in action["turns"] if turn["id"] not in known] + state["turns"]
            return _set(state, turns=turns, turnsNextCursor=action.get("turnsNextCursor"))
        case "pendingMessageSet" | "pendingMessageRemoved" | "queuedMessagesReordered":
            return _queue(state, kind, action)
        case "draftChanged":
            return _set(state, draft=action.get("draft"))
    turn = state.get("activeTurn")
    if turn is None or action.get("turnId", turn["id"]) != turn["id"]:
        return state
    match kind:
        case "usage":
            turn = {**turn, "usage": action["usage"]}
        case "inputCompleted":
            turn = {**turn, "responseParts": [_input_completed(part, action) for part in turn["responseParts"]]}
        case "responsePart":
            turn = _with_part(turn, action["part"])
        case "toolCallStart":
            call = {name: action[name] for name in _BASE if name in action}
            turn = _with_part(turn, {"kind": "toolCall", "toolCall": {**call, "status": "streaming"}})
        case "inputRequested":
            turn = _with_part(turn, {"kind": "inputRequest", "request": action["request"]})
        case "delta" | "reasoning":
            wanted = "markdown" if kind == "delta" else "reasoning"
            turn = _each(turn, lambda part: _extended(part, action, wanted))
        case "toolCallReady" | "toolCallConfirmed" | "toolCallComplete":
            turn = _each(turn, lambda part: _called(part, kind, action))
        case _:
            raise AssertionError(f"an unknown action: {action}")
    state = {**state, "activeTurn": turn}
    return {**state, "status": _status(state)}


def _set(state: State, **fields: Any) -> State:
    """Fields that are None are removed."""
    merged = {**state, **fields}
    return {name: value for name, value in merged.items() if value is not None}


def _status(state: State, ended: int = 1) -> int:
    turn = state.get("activeTurn")
    if turn is None:
        return ended
    waits = any(
        ("response" not in part)
        if part["kind"] == "inputRequest"
        else part["kind"] == "toolCall" and part["toolCall"]["status"] == "pending-confirmation"
        for part in turn["responseParts"]
    )
    return 24 if waits else 8


def _turn_started(state: State, action: Action) -> State:
    turn = {"id": action["turnId"], "startedAt": action["startedAt"], "message": action["message"], "responseParts": []}
    queue = [one for one in state.get("queuedMessages", []) if one["id"] != action.get("queuedMessageId")]
    state = _set(state, activeTurn=turn, modifiedAt=action["startedAt"], queuedMessages=queue or None)
    return {**state, "status": _status(state)}


def _turn_ended(state: State, action: Action, how: str, status: int = 1) -> State:
    turn = state.get("activeTurn")
    if turn is None or turn["id"] != action["turnId"]:
        return state
    parts = [_skipped(part) for part in turn["responseParts"]] + ([action["part"]] if "part" in action else [])
    done = {**turn, "responseParts": parts, "duration": action["duration"], "state": how}
    begun = datetime.fromisoformat(turn["startedAt"])
    at = (begun + timedelta(milliseconds=action["duration"])).isoformat(timespec="milliseconds")
    return _set(
        state,
        turns=[*state["turns"], done],
        activeTurn=None,
        modifiedAt=at.replace("+00:00", "Z"),
        status=status,
    )


def _with_part(turn: State, part: State) -> State:
    return {**turn, "responseParts": [*turn["responseParts"], part]}


def _each(turn: State, change: Any) -> State:
    return {**turn, "responseParts": [change(part) for part in turn["responseParts"]]}


def _extended(part: State, action: Action, wanted: str) -> State:
    if part.get("id") != action["partId"] or part["kind"] != wanted:
        return part
    return {**part, "content": part["content"] + action["content"]}


def _base(call: State) -> State:
    return {name: call[name] for name in _BASE if name in call}


def _params(call: State) -> State:
    return {name: call[name] for name in ("invocationMessage", "toolInput") if name in call}


def _skipped(part: State) -> State:
    if part["kind"] != "toolCall" or part["toolCall"]["status"] in ("completed", "cancelled"):
        return part
    call = part["toolCall"]
    return {**part, "toolCall": {"status": "cancelled", **_base(call), **_params(call), "reason": "skipped"}}


def _called(part: State, kind: str, action: Action) -> State:
    if part["kind"] != "toolCall" or part["toolCall"]["toolCallId"] != action["toolCallId"]:
        return part
    change = {"toolCallReady": _ready, "toolCallConfirmed": _confirmed, "toolCallComplete": _completed}[kind]
    return {**part, "toolCall": change(part["toolCall"], action)}


def _ready(call: State, action: Action) -> State:
    if call["status"] not in ("streaming", "running", "pending-confirmation"):
        return call
    old = call if call["status"] == "pending-confirmation" else {}
    fields = {**_base(call), **_params(call), **_params(action)}
    if "confirmed" in action:
        return {"status": "running", **fields, "confirmed": action["confirmed"]}
    for name in ("confirmationTitle", "editable", "options"):
        if name in action or name in old:
            fields[name] = action.get(name, old.get(name))
    return {"status": "pending-confirmation", **fields}


def _confirmed(call: State, action: Action) -> State:
    if call["status"] != "pending-confirmation":
        return call
    option = [one for one in call.get("options", []) if one["id"] == action.get("selectedOptionId")]
    chosen = {"selectedOption": option[0]} if option else {}
    fields = {**_base(call), **_params(call)}
    if not action["approved"]:
        why: State = {name: action[name] for name in ("reason", "reasonMessage", "userSuggestion") if name in action}
        return {"status": "cancelled", **fields, **why, **chosen}
    if "editedToolInput" in action:
        fields["toolInput"] = action["editedToolInput"]
    return {"status": "running", **fields, "confirmed": action["confirmed"], **chosen}


def _completed(call: State, action: Action) -> State:
    if call["status"] not in ("running", "pending-confirmation"):
        return call
    how = call["confirmed"] if call["status"] == "running" else "not-needed"
    chosen = {"selectedOption": call["selectedOption"]} if "selectedOption" in call else {}
    return {"status": "completed", **_base(call), **_params(call), "confirmed": how, **chosen, **action["result"]}


def _input_completed(part: State, action: Action) -> State:
    open_one = part["kind"] == "inputRequest" and "response" not in part
    if not open_one or part["request"]["id"] != action["requestId"]:
        return part
    answers = {**part["request"].get("answers", {}), **action.get("answers", {})}
    request = _set(part["request"], answers=answers or None)
    return {**part, "request": request, "response": action["response"]}


def _queue(state: State, kind: str, action: Action) -> State:
    queue = state.get("queuedMessages", [])
    if kind == "queuedMessagesReordered":
        known = {one["id"]: one for one in queue}
        order = [name for name in dict.fromkeys(action["order"]) if name in known]
        queue = [known[name] for name in dict.fromkeys([*order, *known])]
        return _set(state, queuedMessages=queue or None)
    if action["kind"] == "steering":
        message = {"id": action["id"], "message": action["message"]} if kind == "pendingMessageSet" else None
        return _set(state, steeringMessage=message)
    rest = [one for one in queue if one["id"] != action["id"]]
    if kind == "pendingMessageSet":
        new = {"id": action["id"], "message": action["message"]}
        rest = [new if one["id"] == action["id"] else one for one in queue] if len(rest) < len(queue) else [*queue, new]
    return _set(state, queuedMessages=rest or None)


# --- sessions


def reduce_session(state: State, action: Action) -> State:
    match action["type"].removeprefix("session/"):
        case "titleChanged":
            return {**state, "title": action["title"]}
        case "isArchivedChanged":
            return {**state, "status": state["status"] | 64 if action["isArchived"] else state["status"] & ~64}
        case "isReadChanged":
            return {**state, "status": state["status"] | 32 if action["isRead"] else state["status"] & ~32}
        case "chatUpdated":
            chats = [
                {**chat, **action["changes"]} if chat["resource"] == action["chat"] else chat for chat in state["chats"]
            ]
            return {**state, "chats": chats}
        case "configChanged":
            config = state["config"]
            return {**state, "config": {**config, "values": {**config["values"], **action["config"]}}}
        case "inputNeededSet":
            needed = [one for one in state.get("inputNeeded", []) if one["id"] != action["request"]["id"]]
            return {**state, "inputNeeded": [*needed, action["request"]]}
        case "inputNeededRemoved":
            needed = [one for one in state.get("inputNeeded", []) if one["id"] != action["id"]]
            return _set(state, inputNeeded=needed or None)
        case "activeClientSet":
            client = action["activeClient"]
            others = [one for one in state["activeClients"] if one["clientId"] != client["clientId"]]
            return {**state, "activeClients": [*others, client]}
        case "activeClientRemoved":
            others = [one for one in state["activeClients"] if one["clientId"] != action["clientId"]]
            return {**state, "activeClients": others}
        case _:
            raise AssertionError(f"an unknown action: {action}")
