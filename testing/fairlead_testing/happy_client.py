"""The reference client of Happy's session protocol: its state after the messages that it received. Pure, public.

Three parts, as in the app: `normalise` turns a message into what a chat shows, or None; `Tracer` puts the output of
subagents under the call that started them; `HappyClient` takes messages by their `seq`, live and from pages, each once
and in order, and tracks what is open. It ignores what it does not understand, as the app does: nothing here raises.
"""

import re
from typing import Any, Final

import msgspec

CUID: Final = re.compile(r"[0-9a-z]{2,32}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOTIFICATION: Final = re.compile(r"\s*<task-notification>")


# --- one message ---------------------------------------------------------------------------------------------


class Shown(msgspec.Struct, kw_only=True):
    """A message as a chat shows it. `event`: it is not a row but a signal ("ready")."""

    id: str
    time: int = 0
    role: str = "agent"
    isSidechain: bool = False
    content: list[dict[str, Any]] = []
    event: str = ""
    usage: dict[str, Any] | None = None


def envelope_of(message: Any) -> dict[str, Any] | None:
    """The envelope inside a message, in the wire's form, the app's own, or the legacy one."""
    if not isinstance(message, dict) or message.get("role") not in ("session", "agent"):
        return None
    content = message.get("content")
    if isinstance(content, dict) and content.get("type") == "session":
        content = content.get("data")
    elif message["role"] == "agent":
        return None
    return content if isinstance(content, dict) and _is_envelope(content) else None


def _is_envelope(data: dict[str, Any]) -> bool:
    ev = data.get("ev")
    subagent = data.get("subagent")
    return (
        isinstance(data.get("id"), str)
        and _is_number(data.get("time"))
        and data.get("role") in ("user", "agent")
        and isinstance(data.get("turn", ""), str)
        and (subagent is None or (isinstance(subagent, str) and CUID.fullmatch(subagent) is not None))
        and isinstance(ev, dict)
        and _is_ev(ev, data["role"])
    )


def _is_ev(ev: dict[str, Any], role: str) -> bool:
    match ev.get("t"):
        case "text":
            return isinstance(ev.get("text"), str)
        case "service":
            return isinstance(ev.get("text"), str) and role == "agent"
        case "tool-call-start":
            texts = (ev.get(name) for name in ("call", "name", "title", "description"))
            return all(isinstance(text, str) for text in texts) and isinstance(ev.get("args"), dict)
        case "tool-call-end":
            return isinstance(ev.get("call"), str)
        case "file":
            return all(isinstance(ev.get(name), str) for name in ("ref", "name")) and _is_number(ev.get("size"))
        case "turn-end":
            return ev.get("status") in ("completed", "failed", "cancelled")
        case "start" | "stop":
            return role == "agent"
        case "turn-start":
            return True
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def normalise(message: Any) -> Shown | None:
    """The message as a chat shows it; None if a chat does not show it."""
    if isinstance(message, dict) and message.get("role") == "user":
        content = message.get("content")
        words = content.get("text") if isinstance(content, dict) else None
        return Shown(id="", role="user", content=[_text(words, None)]) if isinstance(words, str) else None
    envelope = envelope_of(message)
    return None if envelope is None else _shown(envelope)


def _shown(envelope: dict[str, Any]) -> Shown | None:
    ev, role = envelope["ev"], envelope["role"]
    parent = envelope.get("subagent")
    usage = envelope.get("usage")
    base: dict[str, Any] = {"id": envelope["id"], "time": int(envelope["time"]), "usage": usage}
    only_usage = ev["t"] == "service" and not ev["text"].strip() and usage is not None
    if only_usage:
        return Shown(**base)
    if role == "agent" and not envelope.get("turn"):
        return None
    content: list[dict[str, Any]]
    match ev["t"]:
        case "turn-end":
            return Shown(**base, event="ready")
        case "text":
            words = strip_notifications(ev["text"])
            if not words.strip() and ev["text"].strip():
                return None
            kind = "thinking" if ev.get("thinking") else "text"
            content = [_text(words, parent, kind)]
        case "service":
            content = [_text(ev["text"], parent)]
        case "tool-call-start":
            content = [_call(ev["call"], ev["name"], ev["args"], ev["description"], parent)]
        case "tool-call-end":
            content = [_result(ev["call"], ev.get("result"), ev.get("isError", False), parent)]
        case "file":
            args = {"ref": ev["ref"], "name": ev["name"], "size": ev["size"]}
            content = [_call(envelope["id"], "file", args, ev["name"], parent)]
            content.append(_result(envelope["id"], None, False, parent))
        case _:
            return None
    return Shown(**base, role=role, isSidechain=parent is not None, content=content)


def _text(words: str, parent: str | None, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, kind: words, "parentUUID": parent}


def _call(call: str, name: str, args: dict[str, Any], description: str, parent: str | None) -> dict[str, Any]:
    facts = {"id": call, "name": name, "input": args, "description": description}
    return {"type": "tool-call", **facts, "parentUUID": parent}


def _result(call: str, content: Any, is_error: bool, parent: str | None) -> dict[str, Any]:
    return {
        "type": "tool-result",
        "tool_use_id": call,
        "content": content,
        "is_error": is_error,
        "parentUUID": parent,
    }


def strip_notifications(words: str) -> str:
    """The text without the task notifications at its beginning, which may be nested."""
    while _NOTIFICATION.match(words):
        depth, place = 0, 0
        for tag in re.finditer(r"<(/?)task-notification>", words):
            depth += -1 if tag[1] else 1
            place = tag.end()
            if not depth:
                break
        if depth:
            return words
        words = words[place:]
    return words


# --- whose it is -----------------------------------------------------------------------------------------------


class Tracer:
    """`children` are messages by their parent message, `main` those of the chat itself, `orphans` those whose parent
    has not come yet (only in old history: the gateway sends a message only once its parent is known)."""

    def __init__(self) -> None:
        self.main: list[str] = []
        self.children: dict[str, list[str]] = {}
        self.orphans: dict[str, list[Shown]] = {}
        self._owners: dict[str, str] = {}
        """Maps call ids, subagents and messages of sidechains to their parent message."""
        self._prompts: dict[str, str] = {}

    def trace(self, message: Shown, *, uuid: str = "", prompt: str = "") -> None:
        """`uuid` and `prompt` are those of a sidechain's message in old history."""
        for part in message.content:
            if part["type"] == "tool-call":
                self._index(message, part)
        parent = next((part["parentUUID"] for part in message.content if part.get("parentUUID")), None)
        owner = self._prompts.get(prompt) if prompt else None
        owner = owner or (self._owners.get(parent) if parent else None)
        if not message.isSidechain:
            self.main.append(message.id)
        elif owner is not None:
            self.children.setdefault(owner, []).append(message.id)
            if uuid:
                self._owners[uuid] = owner
                self._adopt(uuid)
        elif parent and _UUID.fullmatch(parent):
            self.orphans.setdefault(parent, []).append(message)
        else:
            self.main.append(message.id)

    def _index(self, message: Shown, part: dict[str, Any]) -> None:
        self._owners[part["id"]] = message.id
        names = [part["id"]]
        subagent = part["input"].get("sessionSubagent")
        if isinstance(subagent, str):
            self._owners[subagent] = message.id
            names.append(subagent)
        prompt = part["input"].get("prompt")
        if part["name"] in ("Task", "Agent") and isinstance(prompt, str):
            self._prompts.setdefault(prompt, message.id)
        for name in names:
            self._adopt(name)

    def _adopt(self, name: str) -> None:
        for orphan in self.orphans.pop(name, ()):
            self.trace(orphan)


# --- a client ----------------------------------------------------------------------------------------------------


class ClientTurn(msgspec.Struct):
    id: str
    status: str = ""


class HappyState(msgspec.Struct):
    """`calls` and `subagents` are the open ones; `strays` are messages that came where they are not allowed."""

    last_seq: int = 0
    shown: list[Shown] = []
    turns: list[ClientTurn] = []
    calls: dict[str, str | None] = {}
    subagents: list[str] = []
    started: list[str] = []
    strays: list[str] = []
    results: dict[str, Any] = {}
    last_time: int = 0

    @property
    def open_turn(self) -> str:
        return self.turns[-1].id if self.turns and not self.turns[-1].status else ""


class HappyClient:
    def __init__(self) -> None:
        self.state = HappyState()
        self.tracer = Tracer()

    def receive(self, seq: int, message: Any) -> bool:
        """Take a live message. False: an earlier one is missing, nothing was taken; fetch from `state.last_seq` on."""
        if seq <= self.state.last_seq:
            return True
        if seq != self.state.last_seq + 1:
            return False
        self.state.last_seq = seq
        self._take(message)
        return True

    def page(self, messages: list[tuple[int, Any]]) -> None:
        """Take fetched messages, in the order of their `seq`."""
        for seq, message in messages:
            if seq > self.state.last_seq:
                self.state.last_seq = seq
                self._take(message)

    def _take(self, message: Any) -> None:
        envelope = envelope_of(message)
        if envelope is not None:
            self._count(envelope)
        shown = normalise(message)
        if shown is not None:
            self.state.shown.append(shown)
            if shown.content:
                self.tracer.trace(shown)

    def _count(self, envelope: dict[str, Any]) -> None:
        state, ev = self.state, envelope["ev"]
        turn, subagent, kind = envelope.get("turn"), envelope.get("subagent"), ev["t"]
        if envelope["time"] <= state.last_time:
            state.strays.append(f"{envelope['id']}: time does not grow")
        state.last_time = int(envelope["time"])
        if envelope["role"] == "user":
            return
        if kind == "turn-start":
            if state.open_turn or any(known.id == turn for known in state.turns):
                state.strays.append(f"{envelope['id']}: a second turn-start")
            state.turns.append(ClientTurn(str(turn)))
            state.started.clear()
            return
        if not turn or turn != state.open_turn:
            state.strays.append(f"{envelope['id']}: {kind} outside its turn")
        if kind == "turn-end":
            if state.subagents:
                state.strays.append(f"{envelope['id']}: a turn's end with open subagents")
            state.turns[-1].status = ev["status"]
        elif kind == "start":
            if subagent in state.started:
                state.strays.append(f"{envelope['id']}: a second start")
            state.started.append(str(subagent))
            state.subagents.append(str(subagent))
        elif kind == "stop":
            if subagent in state.subagents:
                state.subagents.remove(str(subagent))
            else:
                state.strays.append(f"{envelope['id']}: a stop without a start")
        elif subagent is not None and subagent not in state.started:
            state.strays.append(f"{envelope['id']}: a subagent speaks before its start")
        if kind == "tool-call-start":
            state.calls[ev["call"]] = subagent
        elif kind == "tool-call-end":
            if ev["call"] not in state.calls:
                state.strays.append(f"{envelope['id']}: the end of a call that was not begun")
            state.calls.pop(ev["call"], None)
            state.results[ev["call"]] = (ev.get("result"), ev.get("isError", False))
