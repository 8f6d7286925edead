"""claudecodeui's chat from inside: the cost of an event on its way to the sockets and into history, compared with the
bare encoding of the same frame.

python bench/ccui_chat.py [--quick]

A part of `make bench`. No network and no disk: this measures the protocol's own work. The comparison with
claudecodeui itself is in `ccui_peer.py`.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from fairlead.clients.claudecodeui.chat.frames import ChatEncoder
from fairlead.clients.claudecodeui.chat.history import HistoryReducer
from fairlead.model import events as ev
from fairlead.model.formats.frames import json_frame
from fairlead.model.ids import CallId, EventId, MessageId, SessionId, TurnId, event_id
from fairlead.model.store import Entry
from figures import Figures, table

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
TURN = TurnId("t" + "0" * 23)
WORDS = "the quick brown fox jumps over the lazy dog "


def kinds(count: int) -> dict[str, list[ev.Event]]:
    """Events as an agent emits them, `count` of each kind."""
    message = MessageId("msg_1")

    def name(number: int, kind: str) -> EventId:
        return event_id(f"00000000-0000-4000-8000-{number:012d}", kind)

    return {
        "a piece of text": [
            ev.TextDelta(id=name(n, "text.delta"), turn=TURN, message=message, block=0, offset=n, text="quick ")
            for n in range(count)
        ],
        "a text of 4 kB": [
            ev.Text(id=name(n, "text"), turn=TURN, message=message, block=0, text=WORDS * 90) for n in range(count)
        ],
        "a call": [
            ev.ToolCalled(
                id=name(n, "tool.called"),
                turn=TURN,
                call=CallId(f"toolu_{n}"),
                name="Bash",
                input={"command": "make test", "description": WORDS},
                message=message,
            )
            for n in range(count)
        ],
        "a result of 4 kB": [
            ev.ToolEnded(id=name(n, "tool.ended"), turn=TURN, call=CallId(f"toolu_{n}"), content=WORDS * 90)
            for n in range(count)
        ],
    }


def entries(events: Sequence[ev.Event]) -> list[Entry]:
    return [Entry(n, n - 1, 0, ev.kind_of(event), ev.encode(event)) for n, event in enumerate(events, 1)]


def each_us(stored: Sequence[Entry], work: Callable[[Entry], object]) -> float:
    begun = time.perf_counter_ns()
    for entry in stored:
        work(entry)
    return (time.perf_counter_ns() - begun) / 1000 / len(stored)


def measure(quick: bool) -> Figures:
    rows: dict[str, list[float | str]] = {}
    variant, fold = ChatEncoder(), HistoryReducer(SESSION)
    for kind, events in kinds(2_000 if quick else 20_000).items():
        stored = entries(events)
        first = variant.encode(SESSION, stored[0])
        messages = payloads(first)
        live = each_us(stored, partial(variant.encode, SESSION))
        kept = each_us(stored, fold.step)
        bare = each_us(stored, partial(_bare, messages))
        rows[kind] = [live, kept, bare, live / bare]
    table("claudecodeui's chat, µs an event", ("to all sockets", "into history", "bare frame", "ratio"), rows)
    return {"us": {kind: cells[:3] for kind, cells in rows.items()}}


def payloads(frames: bytes) -> list[object]:
    """The messages in these frames, which are shorter than 64 kB: an event can have more than one."""
    found: list[object] = []
    while frames:
        start, size = (2, frames[1]) if frames[1] < 126 else (4, int.from_bytes(frames[2:4]))
        found.append(msgspec.json.decode(frames[start : start + size]))
        frames = frames[start + size :]
    return found


def _bare(messages: list[object], entry: Entry) -> bytes:
    return b"".join(map(json_frame, messages))


if __name__ == "__main__":
    measure("--quick" in sys.argv)
