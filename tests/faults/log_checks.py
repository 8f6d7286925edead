"""Invariants of a session's log, whatever was killed: the checks, without any I/O.

`SentEvents` remembers the events that clients received and compares the log with them. `check_log` needs the log alone.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Line = dict[str, Any]

DELTAS = {"text.delta": "text", "thinking.delta": "thinking", "input.delta": "tool.called"}
"""Each kind of delta, and the block that repeats it and replaces it in the log."""
ASKING = frozenset({"permission.asked", "question.asked", "plan.proposed"})


class SentEvents:
    def __init__(self) -> None:
        self._sent: dict[int, Line] = {}

    def note(self, lines: Iterable[Line]) -> None:
        """Record the events that a client received. A seq identifies one event forever."""
        for line in lines:
            event = _content(line)
            before = self._sent.setdefault(line["seq"], event)
            assert before == event, f"seq {line['seq']} was used twice: {before} and {event}"

    def check(self, stored: Sequence[Line]) -> None:
        """Every sent event is in the log with the same content, or is a delta that its block covers."""
        self.note(stored)
        present = {line["seq"] for line in stored}
        blocks = {(line["message"], line.get("block", 0)): line for line in stored if line["type"] in DELTAS.values()}
        marks = {block["seq"]: _marks(block) for block in blocks.values()}
        for seq, event in self._sent.items():
            if seq in present or (_is_stream(event) and seq < stored[-1]["seq"]):
                continue
            assert event["type"] in DELTAS, f"seq {seq} was sent and is not in the log: {event}"
            block = blocks.get((event["message"], event["block"]))
            assert block is not None, f"the delta {seq} was sent, is gone, and no block repeats it: {event}"
            _check_covered(seq, event, block, marks[block["seq"]])


def _is_stream(line: Line) -> bool:
    """The frame of a streamed message (its start, its stop): its bytes are stored only until the message is."""
    return (line["type"], line.get("record")) == ("record", "stream_event")


def _content(line: Line) -> Line:
    # `prev` names the previous event, which changes when deltas are removed.
    return {name: value for name, value in line.items() if name != "prev"}


def _marks(block: Line) -> dict[int, int]:
    """How many characters of a block had been sent at which seq."""
    marks = [tuple(mark) for mark in block.get("marks", ())]
    assert marks == sorted(marks)
    return dict(marks)


def _check_covered(seq: int, delta: Line, block: Line, marks: dict[int, int]) -> None:
    assert block["type"] == DELTAS[delta["type"]]
    assert block["seq"] > seq
    piece = delta["json"] if delta["type"] == "input.delta" else delta.get("text", "")
    end = delta["offset"] + len(piece)
    if block["type"] != "tool.called":
        assert block["text"][delta["offset"] : end] == piece, f"the block says otherwise than the delta {seq}"
    assert marks.get(seq) == end, f"of the block {end} characters were told with {seq}, its mark says {marks.get(seq)}"


def check_log(stored: Sequence[Line], *, idle: bool) -> None:
    """`idle`: nothing is in progress, so everything that began has ended."""
    seqs = [line["seq"] for line in stored]
    assert seqs == sorted(set(seqs)), "seqs ascend"
    for before, line in zip([0, *seqs], stored, strict=False):
        # Deltas may be removed between two pages that we read.
        right = line["prev"] == before if idle else line["prev"] <= before
        assert right, f"the one before {line['seq']} is {before}, and it names {line['prev']}"
    for before, line in itertools.pairwise(stored):
        assert before["at"] < line["at"], f"time stands still or goes back at {line['seq']}"
    twice = [name for name, count in Counter(line["id"] for line in stored).items() if count > 1]
    assert not twice, f"events told twice: {[line for line in stored if line['id'] in twice]}"
    _check_once(stored, "turn.started", {"turn.ended"}, "turn", idle)
    _check_once(stored, "tool.called", {"tool.ended"}, "call", idle, closed_by_turn=True)
    _check_once(stored, "subagent.started", {"subagent.ended"}, "child", idle)
    _check_once(stored, ASKING, {"permission.resolved", "permission.cancelled"}, "request", idle)
    _check_once(stored, "message.queued", {"message.dequeued", "message.cancelled"}, "message", idle)
    _check_agents(stored)
    ran = Counter(line["message"] for line in stored if line["type"] == "user.message")
    assert all(count == 1 for count in ran.values()), f"run twice: {ran}"


def _check_once(
    stored: Sequence[Line],
    begins: str | frozenset[str],
    ends: set[str],
    name: str,
    idle: bool,
    *,
    closed_by_turn: bool = False,
) -> None:
    """Everything begins once and ends at most once, later; exactly once when nothing is in progress."""
    kinds = {begins} if isinstance(begins, str) else begins
    begun: set[str] = set()
    over: set[str] = set()
    closed: set[str] = set()
    for line in stored:
        if line["type"] in kinds:
            assert line[name] not in begun, f"{name} {line[name]} begins twice"
            begun.add(line[name])
        elif line["type"] in ends and line[name] in begun:
            assert line[name] not in over, f"{name} {line[name]} ends twice"
            over.add(line[name])
        elif line["type"] == "turn.ended" and closed_by_turn:
            closed.update(line.get("closed", ()))
    if idle:
        assert begun <= over | closed, f"never ended: {begun - over - closed}"


def _check_agents(stored: Sequence[Line]) -> None:
    """One process at a time: each start comes after the exit of the previous one."""
    running: int | None = None
    for line in stored:
        if line["type"] == "agent.started":
            assert running is None, f"agent {line['pid']} started while {running} ran"
            running = line["pid"]
        elif line["type"] == "agent.exited":
            running = None


def is_prompt(line: Line) -> bool:
    """Whether this is a message of a person: not a subagent's prompt, nor a message of the agent to itself."""
    return line["type"] == "user.message" and "subagent" not in line and line.get("via", "prompt") == "prompt"


def ends(stored: Sequence[Line]) -> dict[str, Line]:
    """The end of each message's turn."""
    turns = {line["turn"]: line["message"] for line in stored if is_prompt(line)}
    return {turns[line["turn"]]: line for line in stored if line["type"] == "turn.ended" and line["turn"] in turns}


def check_truth(end: Line, history: Sequence[Line], message: str) -> None:
    """A turn completed if the agent's own file has its end; otherwise it failed because the gateway was gone."""
    answered = final_answer(history, message)
    if end["status"] == "completed":
        assert answered is not None, f"completed, but the agent wrote no answer: {end}"
        assert end.get("text", "") == answered, f"not what the agent said: {end}"
    else:
        assert (end["status"], end["reason"]) == ("failed", "gateway lost"), end
        assert answered is None, f"failed, but the agent answered {answered!r}"


def final_answer(history: Sequence[Line], prompt: str) -> str | None:
    """The agent's final answer to a prompt in its own file; None if there is none."""
    asked = False
    for event in history:
        if is_prompt(event):
            asked = event["message"] == prompt
        elif asked and event["type"] == "turn.ended" and event["status"] == "completed":
            return str(event.get("text", ""))
    return None


def read_history(text: str) -> list[Line]:
    """The events in the demo agent's own file; a line that a crash truncated is skipped."""
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows
