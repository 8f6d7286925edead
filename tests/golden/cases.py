"""Golden cases of client protocols: the log of a session, and what the clients of a protocol receive from it.

`<protocol>/<case>/` has:

- `case.toml`: the title, and `rules` that the case demonstrates;
- `events.jsonl`: the log. A case without this file uses `sessions/<case>/events.jsonl`, which protocols share;
- `live.jsonl`: the frames to a client that was always connected;
- `catchup.jsonl`: the frames to a client that connects at the end, if they differ from those of `live.jsonl`;
- `history.json`: the history over REST or the snapshots, if the protocol has them (`golden/runner.py`).

A line of `events.jsonl` is an entry (`seq`, `event`, and `raw`: the agent's record by its origin, for projections that
show it), or `drop`: the seqs that leave the log at that moment.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from fairlead.model import events as ev
from fairlead.model.store import Entry, Origin
from fairlead_testing.replay import EventLog, RecordedLog

GOLDEN = Path(__file__).parent


class Line(msgspec.Struct, omit_defaults=True):
    """A line of `events.jsonl`."""

    seq: int = 0
    event: msgspec.Raw = msgspec.Raw()
    raw: dict[Origin, msgspec.Raw] = {}
    drop: tuple[int, ...] = ()


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `case.toml`."""

    title: str
    rules: tuple[str, ...] = ()


def case_names(protocol: str) -> list[str]:
    return sorted(path.parent.name for path in GOLDEN.glob(f"{protocol}/*/case.toml"))


def describe(protocol: str, case: str) -> Description:
    return msgspec.convert(tomllib.loads((GOLDEN / protocol / case / "case.toml").read_text()), Description)


def read_lines(protocol: str, case: str, name: str) -> list[Any]:
    return [json.loads(line) for line in (GOLDEN / protocol / case / name).read_bytes().splitlines()]


def read_catchup(protocol: str, case: str) -> list[Any]:
    same = not (GOLDEN / protocol / case / "catchup.jsonl").exists()
    return read_lines(protocol, case, "live.jsonl" if same else "catchup.jsonl")


def read_history(protocol: str, case: str) -> Any:
    return json.loads((GOLDEN / protocol / case / "history.json").read_bytes())


def log_file(protocol: str, case: str) -> Path:
    own = GOLDEN / protocol / case / "events.jsonl"
    return own if own.exists() else GOLDEN / "sessions" / case / "events.jsonl"


def read_log(protocol: str, case: str) -> EventLog:
    entries: list[Entry] = []
    gone: dict[int, int] = {}
    for text in log_file(protocol, case).read_bytes().splitlines():
        line = msgspec.json.decode(text, type=Line)
        if line.drop:
            gone |= {seq: len(entries) for seq in line.drop if seq not in gone}
            continue
        event = ev.decode(bytes(line.event))
        prev = entries[-1].seq if entries else 0
        entry = Entry(line.seq, prev, event.at, ev.kind_of(event), bytes(line.event))
        for origin, record in line.raw.items():
            entry = msgspec.structs.replace(entry, origin=origin, raw=bytes(record))
        entries.append(entry)
    return EventLog(tuple(entries), gone)


def encode_log(log: RecordedLog) -> bytes:
    """The content of `events.jsonl` for a log, such as `ViewRecorder().run(records)`."""
    lines = []
    for count, entry in enumerate(log.entries, 1):
        raw: dict[Origin, msgspec.Raw] = {} if entry.raw is None else {entry.origin: msgspec.Raw(entry.raw)}
        lines.append(Line(entry.seq, msgspec.Raw(entry.event), raw))
        drop = tuple(sorted(seq for seq, moment in log.gone.items() if moment == count))
        if drop:
            lines.append(Line(drop=drop))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
