"""Golden cases of the Claude interpreter: inputs in `golden/claude/<case>/records.jsonl`, expected events in
`events.jsonl`. Most were recorded from the real CLI; `written-*` were written by hand.

A line of `records.jsonl` is one input: `{"agent": record}`, `{"gateway": our line}`, `{"transcript": row}`,
`{"interrupt": cause}` or `{"exit": reason}`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.wire.markers import InterruptMarker, encode_marker
from fairlead.model import events
from fairlead.model.agents import Interpretation, Record
from fairlead.model.ids import SessionId
from fairlead.model.store import Origin

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "claude"
SESSION = SessionId("11111111-1111-4111-8111-111111111111")

Input = dict[str, Any]


def cases() -> list[str]:
    """The recorded cases."""
    return sorted(path.name for path in GOLDEN.iterdir() if not path.name.startswith("written-"))


def written() -> list[str]:
    """The cases that were written by hand."""
    return sorted(path.name for path in GOLDEN.glob("written-*"))


def inputs(case: str) -> list[Input]:
    return [json.loads(line) for line in (GOLDEN / case / "records.jsonl").read_text().splitlines()]


def raw(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def feed(interpreter: ClaudeInterpreter, given: Input, number: int) -> Interpretation:
    """Feed one input of a case; the cause of an exit is built from `number`."""
    ((kind, what),) = given.items()
    if kind == "exit":
        return interpreter.exited(what, f"exit-{number}")
    if kind == "interrupt":
        return interpreter.step(Record(encode_marker(InterruptMarker(cause=what)), "gateway"))
    origin: Origin = msgspec.convert(kind, Origin)
    return interpreter.step(Record(raw(what), origin))


class Log:
    """Stand in for the core: assign seqs, pass them to the interpreter and record the seqs of dropped entries."""

    def __init__(self, interpreter: ClaudeInterpreter | None = None) -> None:
        self.interpreter = interpreter or ClaudeInterpreter(SESSION)
        self.entries: list[tuple[int, events.Event]] = []
        self.dropped: set[int] = set()
        self._number = 0

    def add(self, given: Input) -> Interpretation:
        self._number += 1
        outcome = feed(self.interpreter, given, self._number)
        for event in outcome.events:
            self.entries.append((len(self.entries) + 1, event))
            self.interpreter.assign_seq(event, len(self.entries))
        self.dropped.update(outcome.drop)
        return outcome

    def run(self, case: list[Input]) -> "Log":
        for given in case:
            self.add(given)
        return self

    @property
    def events(self) -> list[events.Event]:
        return [event for _, event in self.entries]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield every event with its seq, as a live client receives it."""
        for seq, event in self.entries:
            yield {"seq": seq, **json.loads(events.encode(event))}


def output(case: list[Input]) -> list[str]:
    """Return the output lines of a case: each event with its seq, and after the events of an input its dropped seqs."""
    log = Log()
    lines = []
    for given in case:
        before = len(log.entries)
        outcome = log.add(given)
        for seq, event in log.entries[before:]:
            lines.append(raw({"seq": seq, **json.loads(events.encode(event))}).decode())
        if outcome.drop:
            lines.append(raw({"drop": list(outcome.drop)}).decode())
    return lines
