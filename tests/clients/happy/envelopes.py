"""Sessions as envelopes, and Happy's own schema to check them with.

`MappedSession` takes a session from records to envelopes: the interpreter, the core's stage and the mapper, joined as
in the gateway. Every envelope is collected in `made`; the fixture in conftest.py checks all of them with the schema.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agents.claude.golden_claude import Input, feed
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.clients.happy.mapper import HappyReducer
from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import NewRow
from fairlead.sessions.log import PendingEntries
from fairlead_testing.happy_client import HappyClient
from patience import PATIENCE
from tools.happy_wire import WIRE

SESSION = SessionId("11111111-1111-4111-8111-111111111111")

Envelope = dict[str, Any]

made: list[Envelope] = []
"""Every envelope made since the last schema check."""


class MappedSession:
    def __init__(self, now: int = 1000) -> None:
        self.interpreter = ClaudeInterpreter(SESSION)
        self.fold = HappyReducer(SESSION)
        self.entries: list[Entry] = []
        self.envelopes: list[Envelope] = []
        self.rows: list[NewRow] = []
        self.now = now
        self._number = 0
        self._at = 0

    def add(self, given: Input) -> list[Envelope]:
        """Add one input, in the format of the interpreter's golden cases; return the resulting envelopes."""
        self._number += 1
        outcome = feed(self.interpreter, given, self._number)
        return self.take(outcome.events)

    def take(self, events: Iterable[ev.Event]) -> list[Envelope]:
        seq = self.entries[-1].seq if self.entries else 0
        stage = PendingEntries(seq, self._at, self.now)
        fresh: list[Envelope] = []
        for event in events:
            placed, new = stage.add(event)
            self.interpreter.assign_seq(placed, new.seq)
            entry = Entry(new.seq, new.seq - 1, new.at, new.kind, new.event, new.origin, new.raw)
            fresh += self.step(entry)
        self._at = stage.at
        return fresh

    def step(self, entry: Entry) -> list[Envelope]:
        self.entries.append(entry)
        rows = self.fold.step(entry)
        assert all(isinstance(row, NewRow) for row in rows)
        self.rows += [row for row in rows if isinstance(row, NewRow)]
        fresh: list[Envelope] = [json.loads(row.data) for row in rows if isinstance(row, NewRow)]
        self.envelopes += fresh
        made.extend(fresh)
        return fresh

    def run(self, inputs: Iterable[Input]) -> "MappedSession":
        for given in inputs:
            self.add(given)
        return self


def map_envelopes(inputs: Iterable[Input]) -> list[Envelope]:
    return MappedSession().run(inputs).envelopes


def bare(envelopes: Iterable[Envelope]) -> list[tuple[Any, ...]]:
    """Reduce envelopes to role, subagent and event, without ids, times and usage."""
    return [(item["role"], item.get("subagent"), item["ev"]) for item in envelopes]


def kinds(envelopes: Iterable[Envelope]) -> list[str]:
    return [item["ev"]["t"] for item in envelopes]


# --- records -----------------------------------------------------------------------------------------------


def assistant(*blocks: Any, uuid: str = "", **more: Any) -> Input:
    message = {"role": "assistant", "content": list(blocks), **more.pop("message", {})}
    return {"agent": {"type": "assistant", **({"uuid": uuid} if uuid else {}), "message": message, **more}}


def user(content: Any, uuid: str = "", **more: Any) -> Input:
    record = {"type": "user", "message": {"role": "user", "content": content}, **more}
    return {"agent": {**record, **({"uuid": uuid} if uuid else {})}}


def row(kind: str, content: Any, uuid: str, **more: Any) -> Input:
    """Build a transcript row; an assistant row has the stop reason `end_turn` unless `more` overrides it."""
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message["stop_reason"] = more.pop("stop", "end_turn")
    return {"transcript": {"type": kind, "uuid": uuid, "sessionId": SESSION, "message": message, **more}}


def prompt(text: str, uuid: str) -> Input:
    """Build a line that the gateway sends to the agent."""
    message = {"role": "user", "content": text}
    return {"gateway": {"type": "user", "uuid": uuid, "session_id": "", "message": message}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def over(subtype: str = "success", **more: Any) -> Input:
    return {"agent": {"type": "result", "subtype": subtype, "is_error": subtype != "success", **more}}


# --- the schema --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def real_schema() -> "Iterator[Schema]":
    folder = WIRE.folder
    assert folder.exists(), f"Happy's schema is not in {folder}: run `make clis`"
    argv = ["node", str(Path(__file__).with_name("check.cjs")), str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Schema(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=PATIENCE)


class Schema:
    """Happy's schema in one process, used for every check of a run."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def problems(self, schema: str, values: Sequence[Any]) -> list[str | None]:
        """Validate each value against the named schema; None where the value is valid."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"schema": schema, "values": list(values)}) + "\n")
        self._process.stdin.flush()
        answer: list[str | None] = json.loads(self._process.stdout.readline())
        return answer

    def check(self, envelopes: Sequence[Envelope]) -> None:
        """Assert that each envelope is valid, by itself and as it is sent over the wire."""
        if not envelopes:
            return
        for envelope, problem in zip(envelopes, self.problems("sessionEnvelopeSchema", envelopes), strict=True):
            assert problem is None, f"{envelope}: {problem}"
        wrapped = [{"role": "session", "content": item, "meta": {"sentFrom": "cli"}} for item in envelopes]
        for message, problem in zip(wrapped, self.problems("SessionProtocolMessageSchema", wrapped), strict=True):
            assert problem is None, f"{message}: {problem}"


# --- the reference client's view ----------------------------------------------------------------------------


def wire(envelope: Envelope) -> dict[str, Any]:
    return {"role": "session", "content": envelope, "meta": {"sentFrom": "cli"}}


def client_of(envelopes: Iterable[Envelope]) -> HappyClient:
    client = HappyClient()
    for seq, envelope in enumerate(envelopes, 1):
        assert client.receive(seq, wire(envelope))
    return client


def assert_balanced(envelopes: Iterable[Envelope]) -> HappyClient:
    """Assert that no envelope arrived out of place and that nothing was left open."""
    client = client_of(envelopes)
    state = client.state
    assert state.strays == []
    assert (state.open_turn, state.calls, state.subagents) == ("", {}, [])
    return client
