"""Files that repeat another session's rows: their logs refer to it, in whatever order they are found and opened."""

import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Row, Writer, lines
from fairlead.model import events as ev
from fairlead.model.agents import Exit
from fairlead.model.commands import Delete
from fairlead.model.ids import SessionId
from sessions import harness as rigs
from sessions.test_copying import a_turn, wire_rows
from sessions.test_transcripts import running
from sessions.transcript_harness import FOUND, TranscriptHarness

OTHER_ID = SessionId(OTHER)
THIRD = "33333333-3333-4333-8333-333333333333"
THIRD_ID = SessionId(THIRD)


def begun() -> tuple[Writer, list[Row]]:
    write = Writer()
    rows = [
        write.prompt("one"),
        write.call("toolu_1", command="ls"),
        write.result("toolu_1", "README.md"),
        write.text("first"),
        write.prompt("two"),
        write.text("second"),
    ]
    return write, rows


def forked(rows: list[Row], session: str = OTHER, parent: str = "") -> list[Row]:
    """Copy the rows as a CLI does: the same uuids under another session's id."""
    mark = {"forkedFrom": {"sessionId": parent}} if parent else {}
    return [{**row, "sessionId": session, **mark} for row in rows]


def later(session: str, text: str) -> list[Row]:
    write = Writer(f"later in {session}")
    rows = [write.prompt(f"asked {text}"), write.text(text)]
    times = [f"2023-02-02T03:00:0{number}.000Z" for number in range(2)]
    return [{**row, "timestamp": time, "sessionId": session} for row, time in zip(rows, times, strict=True)]


def own_rows(harness: TranscriptHarness, session: str) -> int:
    """The number of rows that the log itself stores."""
    with sqlite3.connect(harness.folder / "data" / "fairlead.db") as db:
        query = "select count(*) from entries e join logs l on l.id = e.log where l.session = ? and e.raw is not null"
        return int(db.execute(query, (session,)).fetchone()[0])


def well_formed(events: list[ev.Event]) -> None:
    """Check that no event occurs twice, and that each turn starts before it ends and ends before the next starts."""
    assert len({event.id for event in events}) == len(events)
    open_turn = None
    for event in events:
        if isinstance(event, ev.TurnStarted):
            assert open_turn is None
            open_turn = event.turn
        elif isinstance(event, ev.TurnEnded):
            assert open_turn == event.turn
            open_turn = None


MESSAGES = ["> one", "first", "> two", "second"]


@pytest.mark.rules("S001-110")
@pytest.mark.parametrize("order", list(itertools.permutations([SESSION, OTHER, THIRD])))
@pytest.mark.parametrize("marked", [False, True])
async def test_forks_share_their_beginning_in_any_order_of_opening(
    tmp_path: Path, order: tuple[str, ...], marked: bool
) -> None:
    _, rows = begun()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write([*rows, *later(SESSION, "mine")])
        harness.home.write([*forked(rows, parent=SESSION if marked else ""), *later(OTHER, "other")], OTHER)
        harness.home.write([*forked(rows[:4], THIRD, SESSION if marked else ""), *later(THIRD, "third")], THIRD)
        await harness.start()
        await harness.importer.listing.scan()
        for session in order:
            await harness.importer.import_session(SessionId(session))
        assert await harness.messages(FOUND) == [*MESSAGES, "> asked mine", "mine"]
        assert await harness.messages(OTHER_ID) == [*MESSAGES, "> asked other", "other"]
        assert await harness.messages(THIRD_ID) == ["> one", "first", "> asked third", "third"]
        # Each row is stored once: the six that two of them share, and two of each session's own.
        assert sum(own_rows(harness, session) for session in order) == 6 + 3 * 2
        for session in order:
            well_formed(await harness.log(SessionId(session)))
            view = await harness.view(SessionId(session))
            assert view.summary.agent_session == session
            if marked:
                assert view.summary.parent == (None if session == SESSION else SESSION)
        assert (await harness.view(FOUND)).summary.turns == 3


@pytest.mark.rules("S001-118")
async def test_the_file_that_continues_is_the_fork(tmp_path: Path) -> None:
    """As older versions resume: the old file stays unchanged and a new one continues."""
    _, rows = begun()
    for number, order in enumerate(((SESSION, OTHER), (OTHER, SESSION))):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with running(folder, watch=False) as harness:
            harness.home.write(rows)
            harness.home.write([*forked(rows), *later(OTHER, "other")], OTHER)
            await harness.start()
            await harness.importer.listing.scan()
            for session in order:
                await harness.importer.import_session(SessionId(session))
            assert (await harness.view(FOUND)).summary.parent is None
            assert (await harness.view(OTHER_ID)).summary.parent == (SESSION if order[0] == SESSION else None)
            assert await harness.messages(FOUND) == MESSAGES
            assert await harness.messages(OTHER_ID) == [*MESSAGES, "> asked other", "other"]
            # Rows that both files have are stored once, together with the new rows.
            assert sum(own_rows(harness, session) for session in order) == len(rows) + 2


async def test_a_parent_that_is_written_after_its_fork_was_opened(tmp_path: Path) -> None:
    _, rows = begun()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write([*forked(rows, parent=SESSION), *later(OTHER, "other")], OTHER)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(OTHER_ID)
        assert (await harness.view(OTHER_ID)).summary.parent == SESSION
        harness.home.write(rows)
        await harness.importer.listing.now(FOUND)
        await harness.importer.import_session(FOUND)
        assert (await harness.messages(FOUND), own_rows(harness, SESSION)) == (MESSAGES, 0)
        assert (await harness.view(FOUND)).summary.parent is None


async def test_parent_and_fork_continue_independently_and_across_a_restart(tmp_path: Path) -> None:
    write, rows = begun()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows[:3])
        harness.home.write(forked(rows[:3]), OTHER)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.view(FOUND)
        await harness.view(OTHER_ID)
        assert own_rows(harness, OTHER) == 0
        await harness.crash()
        harness.home.write(rows[3:])
        harness.home.write([{**write.text("another first"), "sessionId": OTHER}, *later(OTHER, "other")], OTHER)
        await harness.start()
        for session in (FOUND, OTHER_ID):
            await harness.importer.follow(session)
            well_formed(await harness.log(session))
        assert await harness.messages(FOUND) == MESSAGES
        assert await harness.messages(OTHER_ID) == ["> one", "another first", "> asked other", "other"]
        # The turn that was open in the shared part ended separately in each session, under the id that it began with.
        ends = [[event for event in await harness.log(s) if isinstance(event, ev.TurnEnded)] for s in (FOUND, OTHER_ID)]
        assert ends[0][0].turn == ends[1][0].turn


async def test_a_turn_that_already_ended_is_not_ended_again(tmp_path: Path) -> None:
    _, rows = begun()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        harness.home.write([*forked(rows), *later(OTHER, "other")], OTHER)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        assert isinstance((await harness.log(FOUND))[-1], ev.TurnEnded)
        await harness.importer.import_session(OTHER_ID)
        well_formed(await harness.log(OTHER_ID))
        assert own_rows(harness, OTHER) == 2


async def test_extra_rows_between_the_copied_ones_belong_to_the_fork(tmp_path: Path) -> None:
    write, rows = begun()
    summary = {"type": "summary", "summary": "about the fork", "leafUuid": rows[3]["uuid"]}
    aside = {**write.row("attachment", attachment={"type": "x"}), "sessionId": OTHER}
    copied = forked(rows)
    async with running(tmp_path, watch=False) as harness:
        harness.home.write([*rows[:2], write.row("attachment", attachment={"type": "y"}), *rows[2:]])
        harness.home.write([summary, *copied[:2], aside, *copied[2:], *later(OTHER, "other")], OTHER)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        await harness.importer.import_session(OTHER_ID)
        assert own_rows(harness, OTHER) == 4
        assert (await harness.view(OTHER_ID)).summary.title == "about the fork"
        assert await harness.messages(OTHER_ID) == [*MESSAGES, "> asked other", "other"]


async def test_a_fork_outlives_its_parent(tmp_path: Path) -> None:
    _, rows = begun()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        harness.home.write(forked(rows), OTHER)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        await harness.importer.import_session(OTHER_ID)
        await harness.do(Delete(session=FOUND))
        assert await harness.messages(OTHER_ID) == MESSAGES
        harness.home.write([*forked(rows, THIRD), *later(THIRD, "third")], THIRD)
        await harness.importer.listing.now(THIRD_ID)
        await harness.importer.import_session(THIRD_ID)
        assert (await harness.messages(THIRD_ID), own_rows(harness, THIRD)) == (
            [*MESSAGES, "> asked third", "third"],
            2,
        )


async def test_forks_are_recognised_after_a_restart_and_when_a_file_is_gone(tmp_path: Path) -> None:
    _, rows = begun()
    async with running(tmp_path) as harness:
        path = harness.home.write(rows)
        await harness.start()
        await harness.importer.import_session(FOUND)
        await harness.stop()
        path.unlink()
        harness.home.write([*forked(rows), *later(OTHER, "other")], OTHER)
        await harness.start()
        await harness.importer.import_session(OTHER_ID)
        assert own_rows(harness, OTHER) == 2
        assert await harness.messages(OTHER_ID) == [*MESSAGES, "> asked other", "other"]


async def test_a_manual_fork_of_a_session_that_ran_in_the_gateway(tmp_path: Path) -> None:
    """Its beginning came over the wire, with deltas and results; the fork's file repeats the conversation."""
    async with running(tmp_path, watch=False) as harness:
        await harness.start()
        agent = await a_turn(harness)
        await agent.result()
        rows = await wire_rows(harness)
        harness.home.write(rows, rigs.SESSION)
        await agent.die(Exit(code=0))
        await harness.until(lambda: rigs.SESSION not in harness.importer._driven)
        harness.home.write([*forked(rows), *later(OTHER, "other")], OTHER)
        await harness.importer.listing.scan()
        await harness.importer.import_session(OTHER_ID)
        assert own_rows(harness, OTHER) == 2
        assert await harness.messages(OTHER_ID) == ["> hello", "all done", "> asked other", "other"]
        well_formed(await harness.log(OTHER_ID))
        assert (await harness.view(OTHER_ID)).summary.agent_session == OTHER


async def test_a_file_with_only_its_first_row_in_common_shares_that_row(tmp_path: Path) -> None:
    _, rows = begun()
    other = later(OTHER, "other")
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        harness.home.write([*forked(rows[:1]), *other], OTHER)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        await harness.importer.import_session(OTHER_ID)
        assert own_rows(harness, OTHER) == 2
        assert (await harness.messages(OTHER_ID))[0] == "> one"
        well_formed(await harness.log(OTHER_ID))


async def test_a_large_fork_of_a_large_file(tmp_path: Path, monkeypatch: Any) -> None:
    """More rows than the interpreter remembers, several pages of the log, and a parent filled in the background."""
    monkeypatch.setattr("fairlead.sessions.transcripts.filling.AT_ONCE_BYTES", 1000)
    write = Writer()
    rows = [row for number in range(2500) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        harness.home.path(OTHER).write_bytes(lines([*forked(rows), *later(OTHER, "other")]))
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        await harness.importer.import_session(OTHER_ID)
        assert own_rows(harness, OTHER) == 2
        assert (await harness.messages(OTHER_ID))[-3:] == ["answer 2499", "> asked other", "other"]
        assert (await harness.view(OTHER_ID)).summary.turns == 2501
