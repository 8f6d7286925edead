"""A log for ACP's interpreter: it numbers the events and removes dropped ones, as the core does."""

import json
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.acp import wire
from fairlead.agents.acp.interpreter.interpreter import AcpInterpreter
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Record
from fairlead.model.ids import EventId, SessionId

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "acp-agents"
SESSION = SessionId("5f0c1e8e-4d58-4a3a-9a3c-0d5f3a1f0001")
CWD = "/srv/project"
PROCESS = "p1"


class AcpLog:
    """`events` by their seq, without the dropped ones."""

    def __init__(self, *, trusts_titles: bool = False) -> None:
        self.interpreter = AcpInterpreter(SESSION)
        self.events: dict[int, ev.Event] = {}
        self.ids: set[str] = set()
        self._seq = 0
        self._asked: dict[wire.RpcId, ev.PermissionRequested] = {}
        ready = {"agent_session": "s1", "version": "1.0", "model": "m", "cwd": CWD}
        marker = wire.ReadyMarker(process=PROCESS, trusts_titles=trusts_titles, **ready)
        self.gateway(wire.encode_marker(marker))

    def gateway(self, raw: bytes) -> list[ev.Event]:
        return self.add(self.interpreter.step(Record(raw, "gateway")))

    def agent(self, message: dict[str, Any] | bytes) -> list[ev.Event]:
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.add(self.interpreter.step(Record(raw, "agent")))

    def prompt(self, name: str = "m1", text: str = "hello") -> list[ev.Event]:
        params = {"sessionId": "s1", "prompt": [{"type": "text", "text": text}]}
        return self.gateway(wire.request_line(name, wire.PROMPT, params))

    def update(self, name: str, **fields: Any) -> list[ev.Event]:
        params = {"sessionId": "s1", "update": {"sessionUpdate": name, **fields}}
        return self.agent({"jsonrpc": "2.0", "method": wire.UPDATE, "params": params})

    def chunk(self, text: str, kind: str = "agent_message_chunk", **fields: Any) -> list[ev.Event]:
        return self.update(kind, content={"type": "text", "text": text}, **fields)

    def answered(self, name: str = "m1", stop: str = "end_turn", **fields: Any) -> list[ev.Event]:
        return self.agent({"jsonrpc": "2.0", "id": name, "result": {"stopReason": stop, **fields}})

    def deny(self, request: ev.PermissionRequested, message: str = "No.") -> None:
        about: dict[str, Any] = {"request": request.request, "call": request.call, "tool": request.tool}
        name = EventId(f"{request.request}/denied")
        resolved = ev.PermissionResolved(id=name, behavior="deny", how="person", message=message, **about)
        self.add(Interpretation((resolved,)))

    def add(self, outcome: Interpretation) -> list[ev.Event]:
        for event in outcome.events:
            self._seq += 1
            assert event.id not in self.ids, event.id
            self.ids.add(event.id)
            self.events[self._seq] = event
            self.interpreter.assign_seq(event, self._seq)
        for seq in outcome.drop:
            del self.events[seq]
        return list(outcome.events)

    # --- recorded traffic

    def replay(self, trace: Path) -> None:
        """Feed recorded lines: `> ` is the client's, `< ` the agent's. A rejected permission counts as denied."""
        for line in trace.read_text("utf-8").splitlines():
            message = wire.decode(line[2:].encode())
            if line.startswith("< "):
                for event in self.agent(line[2:].encode()):
                    if isinstance(event, ev.PermissionRequested) and message.id is not None:
                        self._asked[message.id] = event
            elif message.method == wire.PROMPT:
                self.gateway(line[2:].encode())
            elif message.method == wire.CANCEL:
                self.gateway(wire.encode_marker(wire.CancelMarker(cause="c")))
            elif message.id in self._asked:
                self._decided(self._asked[message.id], message)

    def _decided(self, asked: ev.PermissionRequested, answer: wire.Message) -> None:
        outcome = wire.as_dict(wire.as_dict(answer.result).get("outcome"))
        chosen = [option for option in asked.data["options"] if option["optionId"] == outcome.get("optionId")]
        if chosen and chosen[0]["kind"].startswith("reject"):
            self.deny(asked)

    def written(self) -> list[dict[str, Any]]:
        """The events in a short form for people to read: no ids that repeat the turn's."""
        rows: list[dict[str, Any]] = [msgspec.to_builtins(event) for event in self.events.values()]
        return [{key: value for key, value in row.items() if key not in ("id", "turn", "at")} for row in rows]


def asked(events: list[ev.Event]) -> ev.PermissionRequested:
    (found,) = [event for event in events if isinstance(event, ev.PermissionRequested)]
    return found
