"""Sessions of other programs as envelopes: announced or found, in overlapping files, each record is emitted once."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Writer
from clients.happy.envelopes import Envelope, made
from fairlead.clients.happy.mapper import VIEW, HappyReducer
from fairlead.model.ids import SessionId
from fairlead.model.queries import ReadRows
from fairlead.model.store import RowPage
from fairlead.model.views import ReducerProjection
from fairlead.sessions.api.transcripts import AnnounceSession
from sessions.harness import ANN
from sessions.transcript_harness import FOUND, TranscriptHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TranscriptHarness]:
    """Run without a file watcher: every emitted session was announced."""
    harness = TranscriptHarness(tmp_path, watch=False)
    harness.views[VIEW] = ReducerProjection(VIEW, HappyReducer)
    await harness.start()
    yield harness
    await harness.stop()


async def announce(harness: TranscriptHarness, path: Path, session: str = SESSION) -> None:
    await harness.importer.handlers()[AnnounceSession](ANN, AnnounceSession(session, str(path)))


async def envelopes(harness: TranscriptHarness, session: SessionId = FOUND) -> list[Envelope]:
    page: RowPage = await harness.gateway.ask(ANN, ReadRows(session, VIEW, after=0, limit=1000))
    stored = [json.loads(row.data) for row in page.rows]
    made.extend(stored)
    return stored


def words(items: list[Envelope]) -> list[Any]:
    return [item["ev"]["text"] for item in items if item["ev"]["t"] == "text"]


@pytest.mark.rules("S001-113", "S001-114", "S001-115")
async def test_announcing_a_session_again_changes_nothing(harness: TranscriptHarness) -> None:
    """Announced while it is being read, before it was first opened, and after another session took its place."""
    write = Writer()
    path = harness.home.write([write.prompt("one"), write.text("first")])
    for _ in range(2):
        await announce(harness, path)
    before = await envelopes(harness)
    await announce(harness, path)
    assert await envelopes(harness) == before
    harness.home.write([write.prompt("two"), write.text("second")])
    for _ in range(3):
        await announce(harness, path)
    assert words(await envelopes(harness)) == ["one", "first", "two", "second"]
    assert len(await harness.listed()) == 1
    finished = await envelopes(harness)
    on = Writer(OTHER)
    other = harness.home.write([on.prompt("elsewhere"), on.text("there")], OTHER)
    await announce(harness, other, OTHER)
    assert words(await envelopes(harness, SessionId(OTHER))) == ["elsewhere", "there"]
    listed = await harness.listed()
    await announce(harness, path)
    assert await envelopes(harness) == finished
    assert words(await envelopes(harness, SessionId(OTHER))) == ["elsewhere", "there"]
    assert await harness.listed() == listed, "it is not made the newest, nor started again"


@pytest.mark.rules("S001-117")
async def test_rows_appended_to_any_file_are_emitted_once_and_in_order(
    harness: TranscriptHarness, rng: random.Random
) -> None:
    writers = {session: Writer(session) for session in (SESSION, OTHER)}
    expected: dict[str, list[str]] = {session: [] for session in writers}
    paths = {}
    for session, write in writers.items():
        paths[session] = harness.home.write([write.prompt("begin"), write.text("begun")], session=session)
        expected[session] += ["begin", "begun"]
    for number in range(25):
        session = rng.choice(list(writers))
        write = writers[session]
        row = write.prompt(f"p{number}") if rng.random() < 0.4 else write.text(f"t{number}")
        expected[session].append(f"p{number}" if row["type"] == "user" else f"t{number}")
        harness.home.write([row], session)
        if rng.random() < 0.5:
            one = rng.choice(list(writers))
            await announce(harness, paths[one], one)
            await envelopes(harness, SessionId(one))
    for session, path in paths.items():
        await announce(harness, path, session)
        assert words(await envelopes(harness, SessionId(session))) == expected[session]


@pytest.mark.rules("S001-121", "S001-122")
async def test_a_sidechain_repeated_in_a_second_file_is_emitted_once(harness: TranscriptHarness) -> None:
    write = Writer()
    rows = [
        write.prompt("go"),
        write.call("toolu_1", "Task", prompt="job"),
        write.prompt("job", thread="toolu_1"),
        write.text("inside", thread="toolu_1"),
        write.result("toolu_1", "done"),
        write.text("outside"),
    ]
    path = harness.home.write(rows)
    await announce(harness, path)
    first = await envelopes(harness)
    assert words(first) == ["go", "job", "inside", "outside"]
    more = [write.prompt("more"), write.text("and more")]
    # Its rows come once more behind the new ones: in the same file, and in the file of a session that continues it.
    harness.home.write([*more, *rows[2:4]])
    await announce(harness, path)
    again = await envelopes(harness)
    assert again[: len(first)] == first
    assert words(again)[len(words(first)) :] == ["more", "and more"]
    on = Writer(OTHER)
    other = harness.home.write([{**row, "sessionId": OTHER} for row in [*rows, *more]], OTHER)
    harness.home.write([on.prompt("on"), on.text("and on")], OTHER)
    await announce(harness, other, OTHER)
    await announce(harness, path)
    assert words(await envelopes(harness, SessionId(OTHER))) == [*words(again), "on", "and on"]
    assert await envelopes(harness) == again
