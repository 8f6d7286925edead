"""The mapper to Happy's envelopes, by itself: events a second, compared with only reading and writing the same JSON.

python bench/envelopes.py [--quick]
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args

import msgspec

from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.auth.api.session_keys import Scheme, SessionKey
from fairlead.clients.happy.mapper import HappyReducer
from fairlead.clients.happy.messages import HappyEncoder
from fairlead.model import events as ev
from fairlead.model.ids import CallId, EventId, MessageId, SessionId, TurnId
from fairlead.model.store import Entry
from fairlead.model.views import NewRow
from figures import Figures, table

SESSION = SessionId("11111111-1111-4111-8111-111111111111")


def _turn(number: int) -> Iterator[ev.Event]:
    """A prompt, an answer, five calls with their results, a subagent with two, and the end."""
    turn = TurnId(f"t{number:023}")
    names = iter(range(100))

    def base() -> dict[str, Any]:
        return {"id": EventId(f"{number:08}-0000-4000-8000-{next(names):012}/0/x"), "turn": turn}

    message = MessageId(f"{number:08}-0000-4000-8000-000000000099")
    words = "What the agent says, a line or two of it, as an answer has them. " * 3
    yield ev.TurnStarted(**base())
    yield ev.UserMessage(message=message, content=(), **base())
    yield ev.Text(message=message, block=0, text=words, tokens=ev.TokenCount(input=10, output=20), **base())
    task = CallId(f"toolu_task_{number}")
    child = subagent_id(task)
    yield ev.ToolCalled(call=task, name="Task", input={"prompt": "look"}, message=message, **base())
    yield ev.SubagentStarted(child=child, call=task, title="Look", prompt="look", **base())
    for place in range(7):
        call = CallId(f"toolu_{number}_{place}")
        inside = child if place > 4 else None
        given = {"command": f"grep -rn {place} src", "description": "Look for it"}
        yield ev.ToolCalled(call=call, name="Bash", input=given, message=message, subagent=inside, **base())
        yield ev.ToolEnded(call=call, content="src/a.py:1: found\n" * 8, subagent=inside, **base())
    yield ev.ToolEnded(call=task, name="Task", content="found", **base())
    yield ev.SubagentEnded(child=child, call=task, **base())
    yield ev.Text(message=message, block=1, text=words, **base())
    yield ev.TurnEnded(status="completed", **base())


def entries(count: int) -> list[Entry]:
    made: list[Entry] = []
    number = 0
    while len(made) < count:
        for event in _turn(number):
            seq = len(made) + 1
            at = 1_700_000_000_000 + seq
            event = msgspec.structs.replace(event, at=at)
            made.append(Entry(seq, seq - 1, at, ev.kind_of(event), ev.encode(event)))
        number += 1
    return made


def _per_entry(log: list[Entry], work: Callable[[Entry], object], rounds: int) -> float:
    """Microseconds, the best of the rounds."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time_ns()
        for entry in log:
            work(entry)
        best = min(best, (time.process_time_ns() - begun) / len(log) / 1000)
    return best


def measure(quick: bool) -> Figures:
    rounds, size = (2, 4_000) if quick else (4, 40_000)
    log = entries(size)
    fold = HappyReducer(SESSION)
    rows = [row.data for entry in log for row in fold.step(entry) if isinstance(row, NewRow)]
    placed = [Entry(n, n - 1, 1_700_000_000_000, "row", data) for n, data in enumerate(rows, 1)]
    bare = _per_entry(log, lambda entry: msgspec.json.encode(msgspec.json.decode(entry.event)), rounds)
    key = bytes(32)
    costs = {
        "JSON read and written, no more": bare,
        "an event mapped": min(_per_entry(log, HappyReducer(SESSION).step, 1) for _ in range(rounds)),
        "an envelope for the socket": _per_entry(placed, lambda row: HappyEncoder(None).encode(SESSION, row), rounds),
    }
    for scheme in get_args(Scheme):
        sealed = HappyEncoder(SessionKey(scheme, key))
        costs[f"an envelope sealed ({scheme})"] = _per_entry(placed, partial(sealed.encode, SESSION), rounds)
    long = HappyReducer(SESSION)
    part = len(log) // 10
    for entry in log[:-part]:
        long.step(entry)
    costs["an event mapped, at the end of a long log"] = _per_entry(log[-part:], long.step, 1)
    table(
        f"Envelopes: {len(log):,} events come to {len(rows):,}",
        ("CPU us", "per second", "ratio"),
        {name: (cost, 1e6 / cost, cost / bare) for name, cost in costs.items()},
    )
    return {"microseconds": costs, "events": len(log), "envelopes": len(rows), "memory_bytes": len(long.snapshot())}


if __name__ == "__main__":
    measure("--quick" in sys.argv)
