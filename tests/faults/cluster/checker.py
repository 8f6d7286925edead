"""Judges a run by the histories of all nodes: the truth is one more node, which is made of the streams alone."""

import contextlib
import itertools
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.stores.nats.connection import read_address
from fairlead.stores.nats.store import NatsOptions, NatsStore
from faults.cluster.worker import KEY

FAULTS = ("lost", "twice", "disorder", "hole", "false", "decided_twice", "answered_wrong", "projections", "died")
"""Counts that must be 0."""


async def check(folder: Path, address: str, sessions: list[SessionId]) -> dict[str, Any]:
    truth = await _read_truth(folder, address, sessions)
    events = {session: {entry.seq: entry.event.decode() for entry in log} for session, log in truth.items()}
    prevs = {session: {entry.seq: entry.prev for entry in log} for session, log in truth.items()}
    counts: Counter[str] = Counter(dict.fromkeys(FAULTS, 0))
    counts["entries"] = sum(map(len, truth.values()))
    winners: dict[tuple[str, int], str] = {}
    for session, log in truth.items():
        decoded = [json.loads(entry.event) for entry in log]
        texts = [event["u"] for event in decoded if event["k"] == "text"]
        counts["twice"] += len(texts) - len(set(texts))
        for event in decoded:
            if event["k"] == "resolved":
                counts["decided_twice"] += (session, event["r"]) in winners
                winners[session, event["r"]] = event["by"]
    acknowledged: list[float] = []
    for history in _histories(folder):
        position: dict[str, int] = {}
        for note in history:
            _judge(note, counts, events, prevs, winners, position)
            if note["k"] == "acked":
                acknowledged.append(note["t"])
    counts["projections"] = sum(not _is_prefix(path, truth) for path in _databases(folder))
    acknowledged.sort()
    pauses = [later - earlier for earlier, later in itertools.pairwise(acknowledged)]
    return {**counts, "longest_pause_s": round(max(pauses, default=0.0), 1)}


def _histories(folder: Path) -> Iterator[list[dict[str, Any]]]:
    for file in sorted(folder.glob("*.history")):
        notes = []
        for line in file.read_text().splitlines():
            # The last line may be torn by the kill.
            with contextlib.suppress(ValueError):
                notes.append(json.loads(line))
        yield notes


def _judge(
    note: dict[str, Any],
    counts: Counter[str],
    events: dict[SessionId, dict[int, str]],
    prevs: dict[SessionId, dict[int, int]],
    winners: dict[tuple[str, int], str],
    position: dict[str, int],
) -> None:
    kind, session = note["k"], note.get("s", "")
    counts[kind] += 1
    if kind == "acked":
        counts["lost"] += events[session].get(note["q"]) != note["d"]
    elif kind == "saw":
        before = position.get(session, 0)
        counts["twice"] += note["q"] == before
        counts["disorder"] += note["q"] < before
        counts["hole"] += note["q"] > before != prevs[session].get(note["q"])
        counts["false"] += events[session].get(note["q"]) != note["d"]
        position[session] = note["q"]
    elif kind == "answered":
        counts["answered_wrong"] += winners.get((session, note["r"])) != note["by"]


async def _read_truth(folder: Path, address: str, sessions: list[SessionId]) -> dict[SessionId, list[Entry]]:
    store = await NatsStore.join(folder / "truth", read_address(address), NatsOptions(node="truth", key=KEY))
    truth: dict[SessionId, list[Entry]] = {}
    for session in sessions:
        log: list[Entry] = []
        try:
            while (page := await store.read(session, log[-1].seq if log else 0, 1000)).entries:
                log += page.entries
        except NotFound:
            pass
        truth[session] = log
    await store.close()
    return truth


def _databases(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*/fairlead.db")) if path.parent.name != "truth"]


def _is_prefix(file: Path, truth: dict[SessionId, list[Entry]]) -> bool:
    """Whether a node's database has the truth, or its beginning."""
    db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    query = "select seq, event from entries where log = (select id from logs where session = ?) order by seq"
    try:
        for session, log in truth.items():
            rows = db.execute(query, (session,)).fetchall()
            if rows != [(entry.seq, entry.event.decode()) for entry in log[: len(rows)]]:
                return False
    finally:
        db.close()
    return True
