"""Search in transcripts that nobody has opened here: indexed in the background, by offset, within bounds."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.claude_transcripts.transcript_files import OTHER, Writer, conversation
from fairlead.agents.claude.transcripts import file_reader
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.commands import Delete
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT
from fairlead.sessions.transcripts.text_index import REST
from fairlead_testing.clock import ManualClock
from sessions import test_transcripts
from sessions.harness import ANN
from sessions.transcript_harness import FOUND, TranscriptHarness

OTHER_ID = SessionId(OTHER)
EVE = Identity("cred-eve", "eve", "eve", frozenset({"view", "chat"}))


async def eventually(harness: TranscriptHarness, true: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for a condition while time passes: changes that follow closely are listed together."""

    async def later() -> Any:
        answer = await true()
        if not answer:
            await harness.clock.advance(1.0)
        return answer

    return await test_transcripts.eventually(later)


@contextlib.asynccontextmanager
async def running(folder: Path, **fields: Any) -> AsyncIterator[TranscriptHarness]:
    harness = TranscriptHarness(folder, texts=True, **fields)
    try:
        yield harness
    finally:
        if hasattr(harness, "importer"):
            await harness.stop()


async def result(harness: TranscriptHarness, words: str, who: Identity = ANN, **within: Any) -> q.SearchResult:
    found: q.SearchResult = await harness.gateway.ask(who, q.SearchText(words, **within))
    return found


async def found(harness: TranscriptHarness, words: str) -> list[SessionId]:
    """The sessions with the words, when everything is indexed."""

    async def complete() -> q.SearchResult | None:
        answer = await result(harness, words)
        return None if answer.not_searched else answer

    return [hit.session for hit in (await eventually(harness, complete)).hits]


async def test_what_was_said_in_a_session_that_nobody_opened_is_found(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        write = Writer()
        harness.home.write(
            [
                write.prompt("please mend the quagga"),
                write.call("t1", command="make zebra"),
                write.result("t1", "the okapi ran"),
                write.text("the quagga is mended"),
            ]
        )
        harness.home.subagent(
            "a1", [write.prompt("find the tapir", "t1", "a1"), write.text("a tapir", "t1", "a1")], "t1"
        )
        await harness.start()
        assert await found(harness, "quagga") == [FOUND, FOUND]
        assert await found(harness, "zebra") == await found(harness, "okapi") == [FOUND]
        assert FOUND in await found(harness, "tapir")
        (hit, _) = (await result(harness, "quagga mend")).hits
        assert (hit.seq, hit.title) == (0, "please mend the quagga")
        assert "\x02quagga\x03" in hit.snippet
        (summary,) = (await result(harness, "quagga")).sessions
        assert (summary.session, summary.state) == (FOUND, TRANSCRIPT), "a search opens no session"


async def test_growth_is_indexed_from_the_last_offset_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        if size == file_reader.CHUNK:
            offsets.append(offset)
        return pread(descriptor, size, offset)

    async with running(tmp_path) as harness:
        write = Writer()
        path = harness.home.write([write.prompt("first quagga"), write.text("yes")])
        await harness.start()
        assert await found(harness, "quagga") == [FOUND]
        size = path.stat().st_size
        monkeypatch.setattr(os, "pread", counted)
        harness.home.write([write.prompt("then an okapi")])
        await eventually(harness, lambda: _has(harness, "okapi"))
        await harness.stop()
        harness.home.write([write.prompt("at last a zebra")])
        await harness.start()
        await eventually(harness, lambda: _has(harness, "zebra"))
        assert offsets and min(offsets) >= size
        assert await found(harness, "quagga") == [FOUND], "nothing is indexed twice"
        read = len(offsets)
        await harness.stop()
        await harness.start()
        assert await found(harness, "zebra") == [FOUND]
        assert len(offsets) == read, "a file that did not change is not read"


async def _has(harness: TranscriptHarness, words: str) -> bool:
    return bool((await result(harness, words)).hits)


async def test_replaced_and_deleted_files_leave_the_index(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        path = harness.home.write(conversation("a quagga of the old file"))
        await harness.start()
        assert FOUND in await found(harness, "quagga")
        path.write_bytes(b"")
        harness.home.write(conversation("an okapi"))
        await eventually(harness, lambda: _has(harness, "okapi"))
        assert await found(harness, "quagga") == []
        path.unlink()

        async def gone() -> bool:
            return not await harness.texts.marks()

        await eventually(harness, gone)
        assert await found(harness, "okapi") == []
        harness.home.write(conversation("a zebra"), OTHER)
        await eventually(harness, lambda: _has(harness, "zebra"))
        await harness.stop()
        harness.home.path(OTHER).unlink()
        await harness.start()
        await eventually(harness, gone)


async def test_an_opened_session_is_found_once_and_a_deleted_one_never(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        harness.home.write(conversation("a quagga"))
        harness.home.write(conversation("a zebra"), OTHER)
        await harness.start()
        assert FOUND in await found(harness, "quagga")
        await harness.view(FOUND)
        await harness.store.wait_indexed()
        hits = (await result(harness, "quagga")).hits
        assert hits and all(hit.seq for hit in hits), "found in its log"
        await harness.gateway.command(ANN, Delete(session=OTHER_ID))
        assert (await result(harness, "zebra")).hits == ()

        async def left() -> bool:
            return not await harness.texts.marks()

        await eventually(harness, left)


async def test_other_users_find_and_count_nothing_of_the_owners_files(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        harness.home.write(conversation("a quagga"))
        await harness.start()
        assert FOUND in await found(harness, "quagga")
        harness.index.soon(FOUND, None)
        harness.index._waiting[FOUND] = None
        answer = await result(harness, "quagga", EVE)
        assert (answer.hits, answer.sessions, answer.not_searched) == ((), (), 0)


async def test_the_answer_says_how_many_sessions_are_not_searched(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        harness.index_bytes = 1
        harness.home.write(conversation("a quagga"))
        harness.home.write(conversation("a zebra"), OTHER)
        await harness.start()
        answer = await result(harness, "quagga")
        assert (answer.hits, answer.not_searched) == ((), 2), "the index is full before it has begun"
        assert (await result(harness, "quagga", session=FOUND)).not_searched == 1
    (tmp_path / "without").mkdir()
    without = TranscriptHarness(tmp_path / "without")
    without.home.write(conversation("a quagga"))
    try:
        await without.start()
        assert (await result(without, "quagga")).not_searched == 1, "it is switched off"
    finally:
        await without.stop()


async def test_a_full_index_still_forgets_and_then_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        path = harness.home.write(conversation("a quagga"))
        await harness.start()
        assert FOUND in await found(harness, "quagga")
        harness.index._most = await harness.texts.size()
        write = Writer(OTHER)
        harness.home.write([write.prompt("a zebra"), write.text("yes")], OTHER)

        async def left() -> int:
            return (await result(harness, "zebra")).not_searched

        assert await eventually(harness, left) == 1
        path.unlink()

        async def gone() -> bool:
            return FOUND not in await harness.texts.marks()

        await eventually(harness, gone)
        harness.index._most = 1 << 30
        harness.home.write([write.prompt("an okapi")], OTHER)
        await eventually(harness, lambda: _has(harness, "okapi"))
        assert OTHER_ID in await found(harness, "zebra")


class SlowClock(ManualClock):
    """Each look at the clock takes a tenth of a second; sleeps are recorded and return at once."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = 0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        self.looked += 1
        return self.looked / 10

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_after_each_step_the_index_rests_longer_than_it_worked(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        clock = SlowClock()
        harness.index._services = msgspec.structs.replace(harness.services, clock=clock)
        write = Writer()
        harness.home.write([write.prompt(f"quagga {number} {'x' * 20_000}") for number in range(40)])
        await eventually(harness, lambda: _has(harness, "quagga 39"))
        steps = [slept for slept in clock.slept if slept == pytest.approx(REST * 0.1)]
        assert len(steps) >= 3, "a large file is read in several steps"


async def test_a_file_that_cannot_be_read_is_counted_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        reader = harness.importer.source.reader

        async def broken(session: SessionId, *args: Any, **named: Any) -> Any:
            if session == FOUND:
                raise PermissionError("no")
            return await reader(session, *args, **named)

        monkeypatch.setattr(harness.importer.source, "reader", broken)
        harness.home.write(conversation("a quagga"))
        harness.home.write(conversation("a zebra"), OTHER)
        await eventually(harness, lambda: _has(harness, "zebra"))

        async def one_left() -> bool:
            return (await result(harness, "quagga")).not_searched == 1

        await eventually(harness, one_left)
