"""Copies made before the agent deletes its files: only with consent, the newest that fit, the oldest dropped first."""

from pathlib import Path

from agents.claude_transcripts.transcript_files import Writer, conversation, lines
from fairlead.model.commands import Delete, Send
from fairlead.model.content import TextBlock
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT
from sessions.test_transcripts import running
from sessions.transcript_harness import TranscriptHarness

SESSIONS = [SessionId(f"{number}0000000-0000-4000-8000-000000000000") for number in range(1, 6)]


def write_all(harness: TranscriptHarness) -> int:
    """Write one session a day, oldest first, all of the same size; return that size."""
    for day, session in enumerate(SESSIONS, 1):
        rows = conversation("hello", session, cwd=str(harness.cwd))
        harness.home.write([{**row, "timestamp": f"2023-01-0{day}T00:00:00.000Z"} for row in rows], session)
    return harness.home.path(SESSIONS[0]).stat().st_size


async def archived(harness: TranscriptHarness) -> list[int]:
    """The numbers of the sessions that have a log."""
    states = {summary.session: summary.state for summary in await harness.listed(limit=100)}
    return [number for number, session in enumerate(SESSIONS, 1) if states.get(session, TRANSCRIPT) != TRANSCRIPT]


async def test_the_newest_sessions_that_fit_are_kept(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False, archive=True) as harness:
        size = write_all(harness)
        harness.archive_bytes = 3 * size + 10
        await harness.start()
        await harness.importer.listing.scan()
        await harness.archiver.round()
        assert await archived(harness) == [3, 4, 5]
        view = await harness.archiver.view()
        assert (view.on, view.sessions, view.bytes, view.limit) == (True, 3, 3 * size, 3 * size + 10)


async def test_the_oldest_copies_are_dropped_when_newer_sessions_come(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False, archive=True) as harness:
        size = write_all(harness)
        for session in SESSIONS[3:]:
            harness.home.path(session).rename(tmp_path / session)
        harness.archive_bytes = 3 * size + 10
        await harness.start()
        await harness.importer.listing.scan()
        await harness.archiver.round()
        assert await archived(harness) == [1, 2, 3]
        harness.home.path(SESSIONS[0]).unlink()
        for session in SESSIONS[3:]:
            (tmp_path / session).rename(harness.home.path(session))
        await harness.importer.listing.scan()
        await harness.archiver.round()
        assert await archived(harness) == [3, 4, 5]
        # A session whose file still exists is listed as before; a session whose file is gone is no longer listed.
        assert [summary.session for summary in await harness.listed(limit=100)] == [*reversed(SESSIONS[1:])]
        assert await harness.messages(SESSIONS[1]) == ["> hello", "answer to hello"]
        await harness.archiver.round()
        assert await archived(harness) == [2, 3, 4, 5], "what a person opened again is not the archive's to let go"


async def test_sessions_in_use_are_not_dropped(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False, archive=True) as harness:
        size = write_all(harness)
        harness.archive_bytes = 5 * size
        await harness.start()
        await harness.importer.listing.scan()
        await harness.archiver.round()
        await harness.importer.turn_timeouts.settle(SESSIONS[0])
        await harness.do(Send(session=SESSIONS[0], content=(TextBlock("go on"),)))
        agent = await harness.kind.launched()
        await agent.prompted()
        await harness.do(Delete(session=SESSIONS[4]))
        harness.archiver._limit = size
        await harness.archiver.round()
        assert await archived(harness) == [1, 4]
        assert (await harness.archiver.view()).sessions == 1


async def test_nothing_is_copied_to_a_full_archive_and_the_state_survives_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False, archive=True) as harness:
        size = write_all(harness)
        harness.archive_bytes = size - 1
        await harness.start()
        await harness.importer.listing.scan()
        await harness.archiver.round()
        assert await archived(harness) == []
        harness.archiver._limit = 2 * size
        await harness.archiver.round()
        await harness.stop()
        harness.archive_bytes = size
        await harness.start()
        await harness.archiver.round()
        assert await archived(harness) == [5]
        await harness.importer.listing.scan()
        await harness.archiver.round()
        assert await archived(harness) == [5]


async def test_a_damaged_file_does_not_stop_the_archive(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False, archive=True) as harness:
        write_all(harness)
        harness.home.path(SESSIONS[4]).write_bytes(lines([Writer(SESSIONS[4]).prompt("x")]) + b"\0{{")
        await harness.start()
        await harness.importer.listing.scan()
        harness.home.path(SESSIONS[2]).unlink()
        await harness.archiver.round()
        assert await archived(harness) == [1, 2, 4, 5]
