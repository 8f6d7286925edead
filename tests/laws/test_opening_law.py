"""The law of opening: opening a transcript does not change it. It keeps its age, a finished session is not shown as
working, and each row keeps its time; with any rows without a time in the file, even as the first row."""

import asyncio
import json
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.claude_transcripts.transcript_files import SESSION, Row, Writer, three_subagents
from fairlead.clients.happy.mapper import VIEW as HAPPY
from fairlead.clients.happy.mapper import HappyReducer
from fairlead.clients.mylifedb.fold import NAME as MYLIFEDB
from fairlead.clients.mylifedb.fold import MyLifeDbReducer, read_memory
from fairlead.model.queries import ReadProjection, ReadRows
from fairlead.model.views import ReducerProjection
from sessions.harness import ANN
from sessions.test_transcripts import running
from sessions.transcript_harness import FOUND

UNTIMED: tuple[Row, ...] = (
    {"type": "summary", "summary": "What it was about", "leafUuid": "a0000000-0000-4000-8000-000000000001"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": {}}},
    {"type": "mode", "mode": "default", "sessionId": SESSION},
    {"type": "last-prompt", "lastPrompt": "something", "sessionId": SESSION},
)
BEGIN = 1_690_000_000_000
"""Months before the time of the harness's clock."""

untimed = st.lists(st.sampled_from(UNTIMED), max_size=2)
turns = st.lists(st.tuples(st.booleans(), untimed), min_size=1, max_size=4)
gaps = st.integers(1_000, 900_000)


def moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@st.composite
def transcripts(draw: st.DrawFn) -> list[Row]:
    """A finished session: answered, or cut off in a call long ago."""
    write, at = Writer(), BEGIN
    rows: list[Row] = [*draw(untimed)]
    for number, (calls, between) in enumerate(draw(turns)):
        made = [write.prompt(f"prompt {number}")]
        if calls:
            made += [write.call(f"toolu_{number}", command="ls"), write.result(f"toolu_{number}")]
        made.append(write.text(f"answer {number}"))
        rows += [*made[:-1], *between, made[-1]]
    if draw(st.booleans()):
        rows += [write.prompt("one more"), write.call("toolu_last", command="sleep")]
    rows += draw(untimed)
    for row in rows:
        if "timestamp" in row:
            at += draw(gaps)
            row["timestamp"] = moment(at)
    # A row without a uuid is identified by its content.
    return [row if "uuid" in row else {**row, "n": number} for number, row in enumerate(rows)]


async def opened(folder: Path, rows: list[Row]) -> None:
    async with running(folder, watch=False) as harness:
        harness.views = {
            MYLIFEDB: ReducerProjection(MYLIFEDB, MyLifeDbReducer),
            HAPPY: ReducerProjection(HAPPY, HappyReducer),
        }
        path = harness.home.write(rows)
        os.utime(path, ns=(BEGIN * 1_000_000, BEGIN * 1_000_000))
        await harness.start()
        await harness.importer.listing.scan()
        (before,) = await harness.listed()
        view = await harness.view()
        (after,) = await harness.listed()
        for summary in (view.summary, after):
            assert (summary.state, summary.updated, summary.created) == ("idle", before.updated, before.created)
        assert read_memory(await harness.gateway.ask(ANN, ReadProjection(FOUND, MYLIFEDB))).state == "idle"
        page = await harness.gateway.ask(ANN, ReadRows(FOUND, HAPPY, after=0, limit=500))
        types = [json.loads(row.data)["ev"]["t"] for row in page.rows]
        assert types.count("turn-start") == types.count("turn-end")
        await check_times(harness, rows)
        await harness.crash()
        await harness.start()
        (again,) = await harness.listed()
        assert (again.state, again.updated) == ("idle", before.updated)


async def check_times(harness: Any, rows: list[Row]) -> None:
    entries = [entry for entry in (await harness.store.read(FOUND, 0, 1000)).entries if entry.raw]
    assert [json.loads(entry.raw) for entry in entries] == rows
    times = [row.get("timestamp") for row in rows]
    for number, entry in enumerate(entries):
        wanted = times[number]
        if wanted is None:
            near = [*reversed(times[:number]), *times[number:]]
            wanted = next(time for time in near if time)
            # Times in a log increase: a row without a time gets one that is milliseconds later.
            assert abs(datetime.fromisoformat(wanted).timestamp() * 1000 - entry.at) < 500
        else:
            assert 0 <= entry.at - round(datetime.fromisoformat(wanted).timestamp() * 1000) < 20


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=transcripts())
def test_opening_a_transcript_does_not_change_it(rows: list[Row]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        asyncio.run(opened(folder, rows))
    finally:
        shutil.rmtree(folder)


def test_a_transcript_without_any_times_is_as_old_as_its_file(tmp_path: Path) -> None:
    write = Writer()
    rows = [write.prompt("hello"), write.text("answer")]
    for row in rows:
        del row["timestamp"]

    async def run() -> None:
        async with running(tmp_path, watch=False) as harness:
            path = harness.home.write([UNTIMED[0], *rows])
            os.utime(path, ns=(BEGIN * 1_000_000, BEGIN * 1_000_000))
            await harness.start()
            await harness.importer.listing.scan()
            view = await harness.view()
            assert (view.summary.state, view.summary.updated) == ("idle", BEGIN)
            assert all(abs(entry.at - BEGIN) < 100 for entry in (await harness.store.read(FOUND, 0, 100)).entries)

    asyncio.run(run())


@pytest.mark.parametrize("named", [True, False])
def test_a_subagents_rows_keep_their_times_too(tmp_path: Path, named: bool) -> None:
    """Also if a separate file names their call: an event from that file has no time."""
    before, side, after = three_subagents(agents=True)

    async def run() -> None:
        async with running(tmp_path, watch=False) as harness:
            harness.home.write([*before, *after])
            for call, rows in zip(("toolu_a", "toolu_b", "toolu_c"), side, strict=True):
                harness.home.subagent(call.removeprefix("toolu_"), rows, call if named else "")
            await harness.start()
            await harness.importer.listing.scan()
            (listed,) = await harness.listed()
            view = await harness.view()
            assert (view.summary.state, view.summary.updated) == ("idle", listed.updated)
            entries = [entry for entry in (await harness.store.read(FOUND, 0, 1000)).entries if entry.raw]
            imported = [(json.loads(entry.raw or b""), entry.at) for entry in entries if entry.origin == "transcript"]
            assert len(imported) == len(before) + len(after) + sum(map(len, side))
            for row, at in imported:
                assert abs(at - round(datetime.fromisoformat(row["timestamp"]).timestamp() * 1000)) < 500

    asyncio.run(run())
