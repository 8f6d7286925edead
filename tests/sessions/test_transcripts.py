"""Sessions of other programs: listed, opened, followed, imported, archived."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Writer, conversation, line, lines
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.model import events as ev
from fairlead.model.agents import Exit, Record
from fairlead.model.commands import Delete, Rename, Send
from fairlead.model.content import TextBlock
from fairlead.model.errors import BadRequest, Busy, NotFound, OutsideRoots
from fairlead.model.ids import SessionId
from fairlead.model.queries import PreviewTranscript
from fairlead.model.store import TRANSCRIPT
from fairlead.sessions.api.transcripts import ArchiveTranscripts, ImportTranscript
from fairlead_testing.clock import ManualClock
from patience import PATIENCE
from sessions.harness import ANN
from sessions.test_feed import Lines, Socket
from sessions.transcript_harness import FOUND, TranscriptHarness

OTHER_ID = SessionId(OTHER)
WRITTEN_AT = 1_672_628_405_000
"""A few seconds after the first rows that `Writer` writes."""


@contextlib.asynccontextmanager
async def running(folder: Path, **fields: Any) -> AsyncIterator[TranscriptHarness]:
    rig = TranscriptHarness(folder, **fields)
    try:
        yield rig
    finally:
        if hasattr(rig, "keeper"):
            await rig.stop()


async def eventually(true: Any) -> Any:
    """Wait until another task makes the condition true, with a time limit."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await true()):
            await asyncio.sleep(0.002)
    return found


# --- lists -------------------------------------------------------------------------------------------------


async def test_sessions_are_listed_without_being_copied(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        rig.home.write(conversation("fix the test"))
        rig.home.write([Writer(OTHER).prompt("<command-name>/clear</command-name>")], OTHER)
        await rig.start()
        (summary,) = await rig.listed()
        assert (summary.session, summary.state, summary.agent) == (FOUND, TRANSCRIPT, "claude")
        assert (summary.title, summary.cwd, summary.branch, summary.turns) == (
            "fix the test",
            "/srv/project",
            "main",
            1,
        )
        with pytest.raises(NotFound):
            await rig.store.read(FOUND, 0, 10)
        assert await rig.listed(transcripts=False) == ()


async def test_new_sessions_and_new_projects_are_listed_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.start()
        rig.home.write(conversation("one"))
        await eventually(rig.listed)
        project = rig.home.folder / "projects" / "-srv-new"
        project.mkdir()
        (project / f"{OTHER}.jsonl").write_bytes(lines(conversation("two", OTHER)))
        await rig.clock.advance(5)
        await eventually(lambda: _titles(rig, "two"))


async def _titles(rig: TranscriptHarness, wanted: str) -> bool:
    return wanted in [summary.title for summary in await rig.listed()]


async def test_a_file_that_has_not_changed_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(conversation("one"))
        await rig.start()
        await rig.keeper.listing.scan()
        opened: list[str] = []
        monkeypatch.setattr(
            "fairlead.agents.claude.transcripts.index.summarize_file",
            lambda path, session=None: opened.append(str(path)),
        )
        await rig.keeper.listing.scan()
        assert opened == []


async def test_a_session_whose_file_is_gone_leaves_the_list_unless_it_was_opened(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        rig.home.write(conversation("one"))
        rig.home.write(conversation("two", OTHER), OTHER)
        await rig.start()
        await rig.view(OTHER_ID)
        rig.home.path().unlink()
        rig.home.path(OTHER).unlink()
        await rig.clock.advance(5)
        await eventually(lambda: _gone(rig))
        assert [summary.title for summary in await rig.listed()] == ["two"]
        assert await rig.said(OTHER_ID) == ["> two", "answer to two"]


async def _gone(rig: TranscriptHarness) -> bool:
    return len(await rig.listed()) == 1


async def test_a_deleted_session_does_not_come_back_and_its_file_stays(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        path = rig.home.write(conversation("one"))
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.do(Delete(session=FOUND))
        rig.home.write(conversation("more"))
        await rig.keeper.listing.scan()
        assert await rig.listed() == ()
        assert path.exists() and rig.kind.forgotten == []
        with pytest.raises(NotFound):
            await rig.view()


async def test_deleting_with_files_asks_the_agent_to_forget(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(conversation("one"))
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.do(Delete(session=FOUND, files=True))
        assert rig.kind.forgotten == [SESSION]


def noting(call: Any, touched: list[str]) -> Any:
    def noted(*given: Any, **more: Any) -> Any:
        touched.append(str(given))
        return call(*given, **more)

    return noted


async def test_idle_files_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files there are: they have no timers, and no file is read in a day."""
    waiting = []
    for number, count in enumerate((1, 60)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with running(folder) as rig:
            for name in range(count):
                session = f"{name:08}-1111-4111-8111-111111111111"
                rig.home.write(conversation("idle", session), session)
            await rig.start()
            await _asleep(rig)
            await rig.clock.advance(60)
            await _asleep(rig)
            waiting.append(rig.clock.waiting)
            touched: list[str] = []
            for call in ("stat", "scandir", "open", "pread"):
                monkeypatch.setattr(os, call, noting(getattr(os, call), touched))
            await rig.clock.advance(86_400)
            await _asleep(rig)
            monkeypatch.undo()
            assert [given for given in touched if ".claude" in given] == []
    assert waiting[0] == waiting[1]


async def _asleep(rig: TranscriptHarness) -> None:
    """Wait until both periodic tasks sleep: the sweep of idle sessions and the archive's check."""
    await rig.until(lambda: rig.clock.waiting >= 2)


# --- opening -----------------------------------------------------------------------------------------------


@pytest.mark.rules("S000-010", "S000-012", "S001-008")
async def test_opening_a_session_reads_it_into_its_log_with_its_own_times(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        rows = conversation("hello")
        rig.home.write(rows)
        await rig.start()
        await rig.keeper.listing.scan()
        (before,) = await rig.listed()
        view = await rig.view()
        assert await rig.said() == ["> hello", "answer to hello"]
        kinds = await rig.kinds(FOUND)
        assert kinds == [
            "session.opened", "session.resumed", "turn.started", "user.message", "tool.called", "tool.ended", "text",
            "turn.ended",
        ]  # fmt: skip
        assert view.summary.state == "idle"
        assert (view.summary.created, view.summary.updated) == (before.created, before.updated)
        page = await rig.store.read(FOUND, 0, 100)
        assert [json.loads(entry.raw) for entry in page.entries if entry.raw] == rows
        assert {entry.origin for entry in page.entries if entry.raw} == {"transcript"}


async def test_opening_a_session_again_reads_nothing_again(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(conversation("hello"))
        await rig.start()
        await rig.keeper.listing.scan()
        head = (await rig.view()).head
        await rig.keeper.follow(FOUND)
        assert (await rig.view()).head == head


@pytest.mark.rules("S001-075", "S001-076", "S001-109", "S001-120")
async def test_after_a_restart_only_added_rows_are_emitted(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path, watch=False) as rig:
        rig.home.write([write.prompt("one"), write.text("first")])
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.view()
        before = await rig.log(FOUND)
        await rig.crash()
        rig.home.write([write.prompt("two"), write.text("second")])
        await rig.start()
        await rig.keeper.follow(FOUND)
        assert await rig.said() == ["> one", "first", "> two", "second"]
        after = await rig.log(FOUND)
        assert after[: len(before)] == before
        assert len({event.id for event in after}) == len(after)


async def test_rows_written_while_the_gateway_was_down_are_emitted_after_its_start(tmp_path: Path) -> None:
    """The turn of the other program continues: it is not mistaken for a lost turn of the gateway."""
    write = Writer()
    async with running(tmp_path) as rig:
        rig.clock = ManualClock(WRITTEN_AT)
        rig.home.write([write.prompt("one"), write.call("toolu_1", command="ls")])
        await rig.start()
        await rig.view()
        await rig.crash()
        rig.home.write([write.result("toolu_1"), write.text("done")])
        await rig.start()
        await eventually(lambda: _has(rig, FOUND, "done"))
        await eventually(lambda: _rests(rig))
        ends = [event.status for event in await rig.log(FOUND) if isinstance(event, ev.TurnEnded)]
        assert ends == ["completed"]


async def _rests(rig: TranscriptHarness) -> bool:
    """Advance the clock; true when the turn has ended."""
    await rig.clock.advance(1)
    return (await rig.view()).summary.state == "idle"


async def test_a_restart_in_the_middle_of_an_import_continues_at_its_position(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fairlead.agents.claude.transcripts.reader.BATCH_ROWS", 3)
    write = Writer()
    rows = [row for number in range(20) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(rows)
        await rig.start()
        await rig.keeper.listing.scan()
        log, count = rig.keeper.filler.log, 0

        async def broken(*given: Any) -> None:
            nonlocal count
            count += 1
            if count > 4:
                raise asyncio.CancelledError
            await log(*given)

        monkeypatch.setattr(rig.keeper.filler, "log", broken)
        with pytest.raises(asyncio.CancelledError):
            await rig.view()
        await rig.crash()
        rig.watch = True
        await rig.start()
        await eventually(lambda: _has(rig, FOUND, "answer 19"))
        assert len(await rig.said()) == 40
        await eventually(lambda: _nothing_to_fill(rig))
        events = await rig.log(FOUND)
        assert len({event.id for event in events}) == len(events)


async def _nothing_to_fill(rig: TranscriptHarness) -> bool:
    return not await rig.store.documents.list("transcript-filling")


async def test_a_title_set_by_a_user_stays_and_otherwise_the_summary_is_the_title(tmp_path: Path) -> None:
    summary = {"type": "summary", "summary": "about tests", "leafUuid": "l"}
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(conversation("hello"))
        await rig.start()
        await rig.keeper.listing.scan()
        assert (await rig.view()).summary.title == "hello"
        rig.home.write([summary])
        await rig.keeper.follow(FOUND)
        assert (await rig.view()).summary.title == "about tests"
        await rig.do(Rename(session=FOUND, title="mine"))
        rig.home.write([{**summary, "summary": "other"}])
        await rig.keeper.follow(FOUND)
        assert (await rig.view()).summary.title == "mine"


@pytest.mark.rules("S000-199")
async def test_sending_to_a_found_session_resumes_it(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(conversation("hello", cwd=str(rig.cwd)))
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.view()
        await rig.keeper.turn_timeouts.settle(FOUND)
        await rig.do(Send(session=FOUND, content=(TextBlock("go on"),)))
        agent = await rig.kind.launched()
        assert (agent.launch.resume, agent.launch.cwd) == (SESSION, str(rig.cwd))
        assert await agent.prompted() == "go on"


async def test_a_session_outside_the_roots_can_be_read_and_not_resumed(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(conversation("hello", cwd="/etc"))
        await rig.start()
        await rig.keeper.listing.scan()
        assert await rig.said() == ["> hello", "answer to hello"]
        with pytest.raises(OutsideRoots):
            await rig.do(Send(session=FOUND, content=(TextBlock("go on"),)))
        assert rig.kind.agents == []


async def test_a_large_session_opens_at_once_and_fills_in_the_background(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fairlead.sessions.transcripts.filling.AT_ONCE_BYTES", 1000)
    write = Writer()
    rows = [row for number in range(500) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(rows)
        await rig.start()
        await rig.keeper.listing.scan()
        watch = await rig.gateway.watch(ANN, FOUND, None, Lines(), Socket())
        watch.start()
        assert rig.loaded(FOUND).supervisor.following
        await rig.until(lambda: not rig.loaded(FOUND).supervisor.following)
        assert sum(isinstance(event, ev.Text) for event in await rig.log(FOUND)) == 500
        watch.close()


# --- previews ------------------------------------------------------------------------------------------------


async def test_a_preview_shows_the_end_without_opening_the_session(tmp_path: Path) -> None:
    write = Writer()
    rows = [row for number in range(300) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(rows)
        await rig.start()
        await rig.keeper.listing.scan()
        page = await rig.gateway.ask(ANN, PreviewTranscript(FOUND, 4))
        events = [json.loads(bytes(item)) for item in page.events]
        assert [event["text"] for event in events if event["type"] == "text"] == ["answer 298", "answer 299"]
        assert all("seq" not in event for event in events)
        (summary,) = await rig.listed()
        assert summary.state == TRANSCRIPT
        with pytest.raises(NotFound):
            await rig.gateway.ask(ANN, PreviewTranscript(OTHER_ID, 4))


# --- following -------------------------------------------------------------------------------------------------


@pytest.mark.rules("S000-014", "S000-015", "S000-149", "S000-223", "S001-116")
async def test_rows_of_another_program_reach_subscribers(tmp_path: Path) -> None:
    """The clock does not advance: no interval has to pass."""
    write = Writer()
    other = Writer(OTHER)
    async with running(tmp_path) as rig:
        rig.home.write([write.prompt("one"), write.text("first")])
        rig.home.write([other.prompt("elsewhere")], OTHER)
        await rig.start()
        await rig.view()
        await rig.view(OTHER_ID)
        for number in range(5):
            data = line(write.text(f"part {number}"))
            rig.home.write(data[:30])
            rig.home.write(data[30:])
        rig.home.write([other.text("there too")], OTHER)
        await eventually(lambda: _has(rig, FOUND, "part 4"))
        await eventually(lambda: _has(rig, OTHER_ID, "there too"))
        assert await rig.said() == ["> one", "first", *(f"part {number}" for number in range(5))]


async def _has(rig: TranscriptHarness, session: SessionId, text: str) -> bool:
    return text in await rig.said(session)


async def test_a_session_that_is_slow_to_read_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, other = Writer(), Writer(OTHER)
    async with running(tmp_path) as rig:
        rig.home.write([write.prompt("one")])
        rig.home.write([other.prompt("two")], OTHER)
        await rig.start()
        await rig.view()
        await rig.view(OTHER_ID)
        may_go_on, follow = asyncio.Event(), rig.keeper.follow

        async def slow(session: SessionId) -> None:
            if session == FOUND:
                await may_go_on.wait()
            await follow(session)

        monkeypatch.setattr(rig.keeper, "follow", slow)
        rig.home.write([write.text("much")])
        rig.home.write([other.text("little")], OTHER)
        await eventually(lambda: _has(rig, OTHER_ID, "little"))
        rig.home.write([write.text("and more")])
        may_go_on.set()
        await eventually(lambda: _has(rig, FOUND, "and more"))
        assert await rig.said() == ["> one", "much", "and more"]


async def test_a_subagents_file_is_followed_too(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path) as rig:
        rig.home.write([write.prompt("one"), write.call("toolu_a", "Agent", prompt="job")])
        await rig.start()
        await rig.view()
        rig.home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
        rig.home.subagent("a1", [write.text("deep", "a", "a1")])
        await eventually(lambda: _has(rig, FOUND, "deep"))
        rig.home.subagent("a1", [write.text("deeper", "a", "a1")])
        await eventually(lambda: _has(rig, FOUND, "deeper"))
        texts = [event for event in await rig.log(FOUND) if isinstance(event, ev.Text)]
        assert all(event.subagent is not None for event in texts)


async def test_a_subagents_file_next_to_its_session_is_followed_too(tmp_path: Path) -> None:
    """As older versions wrote them; the call is known only from the result, which comes last."""
    write = Writer(version="2.0.20")
    async with running(tmp_path) as rig:
        rig.home.write([write.prompt("one")])
        await rig.start()
        await rig.view()
        rig.home.beside("a1", [write.text("deep", "a", "a1")])
        rig.home.write([write.call("toolu_a", "Task", prompt="job")])
        rig.home.beside("a1", [write.text("deeper", "a", "a1")])
        rig.home.write([write.result("toolu_a", "done", data={"status": "completed", "agentId": "a1"})])
        await eventually(lambda: _has(rig, FOUND, "deeper"))
        texts = [event for event in await rig.log(FOUND) if isinstance(event, ev.Text)]
        assert [(event.text, event.subagent is not None) for event in texts] == [("deep", True), ("deeper", True)]


@pytest.mark.rules("S001-007", "S001-111", "S001-112", "S001-121")
async def test_repeated_rows_are_emitted_once(tmp_path: Path) -> None:
    write = Writer()
    rows = [write.prompt("one"), write.text("first"), {"type": "summary", "summary": "s", "leafUuid": "l"}]
    rows.append(write.row("system", subtype="informational", content="note", level="info"))
    side = [write.call("toolu_a", "Task", prompt="job"), write.prompt("job", "a"), write.text("deep", "a")]
    async with running(tmp_path, watch=False) as rig:
        rig.home.write([*rows, *side])
        await rig.start()
        await rig.keeper.listing.scan()
        head = (await rig.view()).head
        rig.home.write([*rows, *side])
        # Only the uuid counts, whatever else the row contains.
        for row, other in (
            (rows[0], write.prompt("else")),
            (rows[1], write.text("else")),
            (rows[3], {"content": "else"}),
        ):
            rig.home.write([{**row, **other, "uuid": row["uuid"]}])
        await rig.keeper.follow(FOUND)
        assert (await rig.view()).head == head
        rig.home.write([{**rows[2], "summary": "changed"}])
        await rig.keeper.follow(FOUND)
        assert (await rig.view()).head == head + 1
        rig.home.write([{**rows[1], "uuid": "another", "message": {**rows[1]["message"], "id": "another"}}])
        await rig.keeper.follow(FOUND)
        assert (await rig.said()).count("first") == 2


async def test_a_truncated_or_replaced_file_emits_nothing_twice(tmp_path: Path) -> None:
    write = Writer()
    rows = [row for number in range(30) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as rig:
        path = rig.home.write(rows)
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.view()
        path.write_bytes(lines(rows[:4]))
        await rig.keeper.follow(FOUND)
        new = tmp_path / "new"
        new.write_bytes(lines([*rows[:4], write.text("another way")]))
        os.replace(new, path)
        await rig.keeper.follow(FOUND)
        messages = await rig.said()
        assert len(messages) == 61
        assert messages[-1] == "another way"
        events = await rig.log(FOUND)
        assert len({event.id for event in events}) == len(events)


async def test_a_copy_with_the_same_content_continues_at_its_position(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path, watch=False) as rig:
        path = rig.home.write([write.prompt("one"), write.text("first")])
        await rig.start()
        await rig.keeper.listing.scan()
        head = (await rig.view()).head
        moved = rig.home.folder / "projects" / "-srv-renamed"
        moved.mkdir()
        (moved / path.name).write_bytes(path.read_bytes() + line(write.text("moved")))
        path.unlink()
        await rig.keeper.listing.scan()
        await rig.keeper.follow(FOUND)
        assert (await rig.said())[-1] == "moved"
        # A new turn, since the one before is over, and its text.
        assert (await rig.view()).head == head + 2


async def test_a_session_that_continues_in_another_folder_emits_nothing_twice(tmp_path: Path) -> None:
    """More rows than the interpreter remembers: repeated rows are recognised by the log alone."""
    write = Writer()
    rows = [row for number in range(2300) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path) as rig:
        path = rig.home.write(rows)
        await rig.start()
        await rig.view()
        moved = rig.home.folder / "projects" / "-a-worktree"
        moved.mkdir()
        head = (await rig.view()).head
        (moved / path.name).write_bytes(lines([*rows, write.prompt("there"), write.text("from there")]))
        await eventually(lambda: _has(rig, FOUND, "from there"))
        rig.home.write([write.text("from here")])
        await eventually(lambda: _has(rig, FOUND, "from here"))
        assert (await rig.said())[-4:] == ["answer 2299", "> there", "from there", "from here"]
        # A new turn, its prompt, and two answers.
        assert (await rig.view()).head == head + 4
        await rig.stop()
        await rig.start()
        assert len(await rig.listed()) == 1
        await rig.keeper.follow(FOUND)
        assert (await rig.view()).head == head + 4


async def test_a_session_that_runs_here_is_read_only_from_its_wire(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.start()
        agent = await rig.working("hello")
        session = agent.launch.session
        write = Writer(session)
        rig.home.write([write.prompt("hello"), write.text("from the file")], session)
        await agent.text("from the wire")
        await agent.result()
        await asyncio.sleep(0.05)
        assert "from the file" not in await rig.said(session)
        await agent.die(Exit(code=0))
        await rig.until(lambda: rig.loaded(session).supervisor.agent is None and session not in rig.keeper._driven)
        assert [summary.session for summary in await rig.listed()] == [session]
        rig.home.write([write.prompt("by hand"), write.text("in a terminal")], session)
        await eventually(lambda: _has(rig, session, "in a terminal"))
        assert "from the file" not in await rig.said(session)


async def test_a_turn_is_over_when_its_answer_was_final_and_nothing_follows(tmp_path: Path) -> None:
    write, now = Writer(), {"timestamp": "2023-11-14T22:13:15.000Z"}
    async with running(tmp_path) as rig:
        rig.home.write([write.prompt("one", **now)])
        await rig.start()
        assert (await rig.view()).summary.state == "working"
        rig.home.write([write.text("done", **now)])
        await eventually(lambda: _has(rig, FOUND, "done"))
        assert (await rig.view()).summary.state == "working"

        async def ended_by_silence() -> list[ev.TurnEnded]:
            # The file may still be read to its end when the clock moves: its timer starts after that.
            await _pass(rig, 4)
            return [event for event in await rig.log(FOUND) if isinstance(event, ev.TurnEnded)]

        (ended,) = await eventually(ended_by_silence)
        assert (ended.status, (await rig.view()).summary.state) == ("completed", "idle")
        rig.home.write([write.prompt("two", **now), write.call("toolu_1", command="sleep")])
        await eventually(lambda: _has(rig, FOUND, "> two"))
        await _pass(rig, 4)
        assert (await rig.view()).summary.state == "working"
        for _ in range(2):
            await _pass(rig, 300)
        ended = [event for event in await rig.log(FOUND) if isinstance(event, ev.TurnEnded)][-1]
        assert (ended.status, ended.reason) == ("failed", "nothing more was written")


async def test_an_orphan_goes_to_the_main_thread_after_ten_minutes_and_to_its_call_when_that_comes(
    tmp_path: Path,
) -> None:
    write, now = Writer(), {"timestamp": "2023-11-14T22:13:15.000Z"}
    async with running(tmp_path) as rig:
        rig.home.write([write.prompt("one", **now), write.text("done", **now)])
        rig.home.subagent("a1", [write.text("deep", "a", "a1", **now)])
        await rig.start()
        await rig.view()
        await eventually(lambda: _rests(rig))
        assert "deep" not in await rig.said()
        await _pass(rig, 300)
        assert "deep" not in await rig.said()
        await _pass(rig, 300)
        await eventually(lambda: _has(rig, FOUND, "deep"))
        (notice,) = [event for event in await rig.log(FOUND) if isinstance(event, ev.Notice)]
        assert notice.kind == "unresolved"
        await rig.crash()
        await rig.start()
        rig.home.write([write.call("toolu_a", "Agent", prompt="job")])
        rig.home.subagent("a1", [], "toolu_a")
        await eventually(lambda: _resolved(rig))
        events = await rig.log(FOUND)
        assert len({event.id for event in events}) == len(events)


async def _resolved(rig: TranscriptHarness) -> bool:
    return any(isinstance(event, ev.SubagentResolved) for event in await rig.log(FOUND))


async def _pass(rig: TranscriptHarness, seconds: float) -> None:
    """Advance the clock for a session with a turn timeout, and wait until all tasks started by it are done."""
    await rig.until(lambda: FOUND in rig.keeper.turn_timeouts._due)
    working = set(rig.keeper.tasks._tasks)
    await rig.clock.advance(seconds)
    if begun := rig.keeper.tasks._tasks - working:
        await asyncio.wait(begun)


def test_the_end_of_a_turn_has_the_same_id_however_it_is_detected() -> None:
    write = Writer()
    rows = [write.prompt("one"), write.text("done"), write.prompt("two")]
    ids = []
    for settled in (False, True):
        interpreter = ClaudeInterpreter(FOUND)
        events: list[ev.Event] = []
        for row in rows:
            events.extend(interpreter.step(Record(line(row)[:-1], "transcript")).events)
            if settled:
                events.extend(interpreter.end_quiet_turn().events)
        ids.append([event.id for event in events])
    assert ids[0] == ids[1]


# --- import and archive ---------------------------------------------------------------------------------------------


async def test_damaged_rows_are_skipped_stored_and_reported(tmp_path: Path) -> None:
    write = Writer()
    one, two, three, four = (
        line(row) for row in (write.prompt("one"), write.text("two"), write.text("3"), write.text("4"))
    )
    damaged = (
        one[:-1]
        + two
        + b"\0" * 600
        + three
        + four[:40]
        + line(write.text("five"))
        + b"no row at all\n"
        + b'{"type":"user'
    )
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(damaged)
        await rig.start()
        await rig.keeper.listing.scan()
        imported = await rig.keeper.import_transcript(ANN, ImportTranscript(session=SESSION))
        assert {problem.kind: problem.count for problem in imported.problems} == {
            "joined": 1, "nul": 1, "spliced": 1, "garbage": 1, "torn": 1,
        }  # fmt: skip
        assert await rig.said() == ["> one", "two", "3", "five"]
        kept = [entry.raw for entry in (await rig.store.read(FOUND, 0, 100)).entries if entry.kind == "record"]
        assert [raw for raw in kept if raw and not raw.endswith(b"}")] == [
            four[:40],
            b"no row at all",
            b'{"type":"user',
        ]
        again = await rig.keeper.import_transcript(ANN, ImportTranscript(session=SESSION))
        assert again.events == 0
        rig.home.write(line(write.prompt("whole after all"))[len(b'{"type":"user') :])


WRITER = """
import os, sys
path, name, count, cut = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for row in sys.stdin.buffer.read().splitlines(keepends=True)[:count]:
    os.write(out, row[:cut])
    if row[cut:]:
        os.write(out, row[cut:])
"""


@pytest.mark.process
async def test_two_programs_that_write_one_file_at_the_same_time(tmp_path: Path) -> None:
    """One program writes whole rows, the other splits each row: torn rows are stored and reported, others emitted."""
    ours, theirs = Writer(), Writer("the other program")
    whole = [ours.prompt(f"whole {number}") for number in range(150)]
    torn = [theirs.prompt(f"torn {number}") for number in range(150)]
    async with running(tmp_path) as rig:
        path = rig.home.write([ours.prompt("first")])
        await rig.start()
        await rig.view()
        processes = []
        for rows, cut in ((whole, 1 << 20), (torn, 100)):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", WRITER, str(path), "x", "150", str(cut)), stdin=asyncio.subprocess.PIPE
            )
            assert process.stdin is not None
            process.stdin.write(lines(rows))
            process.stdin.close()
            processes.append(process)
        for process in processes:
            assert await process.wait() == 0
        rig.home.write([ours.prompt("last")])
        await eventually(lambda: _has(rig, FOUND, "> last"))
        messages = await rig.said()
        assert [words for words in messages if words.startswith("> whole")] == [f"> whole {n}" for n in range(150)]
        events = await rig.log(FOUND)
        assert len({event.id for event in events}) == len(events)
        page = await rig.store.read(FOUND, 0, 10_000)
        kept = sorted(b"".join(entry.raw for entry in page.entries if entry.raw))
        assert kept == sorted(path.read_bytes().replace(b"\n", b""))


async def test_a_torn_line_that_is_completed_later_is_read_whole(tmp_path: Path) -> None:
    write = Writer()
    last = line(write.prompt("last"))
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(line(write.prompt("first")) + last[:50])
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.keeper.import_session(FOUND)
        rig.home.write(last[50:-1])
        await rig.keeper.import_session(FOUND)
        assert await rig.said() == ["> first", "> last"]
        rig.home.write(b"\n" + line(write.text("more")))
        await rig.keeper.import_session(FOUND)
        assert await rig.said() == ["> first", "> last", "more"]


async def test_a_file_elsewhere_is_imported_by_its_path(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        await rig.start()
        saved = tmp_path / "saved.jsonl"
        saved.write_bytes(lines(conversation("from a backup")))
        imported = await rig.keeper.import_transcript(ANN, ImportTranscript(path=str(saved)))
        assert (imported.session, imported.title) == (SESSION, "from a backup")
        assert await rig.said() == ["> from a backup", "answer to from a backup"]
        again = await rig.keeper.import_transcript(ANN, ImportTranscript(path=str(saved)))
        assert again.events == 0


async def test_a_failed_import_gives_its_reason(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        await rig.start()
        with pytest.raises(BadRequest):
            await rig.keeper.import_transcript(ANN, ImportTranscript())
        with pytest.raises(BadRequest):
            await rig.keeper.import_transcript(ANN, ImportTranscript(path="relative.jsonl"))
        with pytest.raises(OutsideRoots):
            await rig.keeper.import_transcript(ANN, ImportTranscript(path="/etc/passwd"))
        with pytest.raises(BadRequest, match="unreadable"):
            await rig.keeper.import_transcript(ANN, ImportTranscript(path=str(tmp_path / "none.jsonl")))
        with pytest.raises(NotFound):
            await rig.keeper.import_transcript(ANN, ImportTranscript(session=SESSION))
        escaping = tmp_path / "x.jsonl"
        escaping.write_bytes(lines(conversation("bad", "../../etc/passwd")))
        with pytest.raises(BadRequest, match="bad id"):
            await rig.keeper.import_transcript(ANN, ImportTranscript(path=str(escaping)))
        empty = tmp_path / f"{OTHER}.jsonl"
        empty.write_bytes(b"")
        nothing = await rig.keeper.import_transcript(ANN, ImportTranscript(path=str(empty)))
        assert [problem.kind for problem in nothing.problems] == ["nothing said"]


async def test_a_running_session_is_not_imported(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as rig:
        await rig.start()
        agent = await rig.working()
        rig.home.write(conversation("hello", agent.launch.session), agent.launch.session)
        with pytest.raises(Busy):
            await rig.keeper.import_session(agent.launch.session)


async def test_nothing_is_archived_without_consent_and_all_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        rig.home.write(conversation("one"))
        rig.home.write(conversation("two", OTHER), OTHER)
        await rig.start()
        ask = rig.archiver.handlers()[ArchiveTranscripts]
        assert (await ask(ANN, ArchiveTranscripts())).on is None
        assert {summary.state for summary in await rig.listed()} == {TRANSCRIPT}
        assert (await ask(ANN, ArchiveTranscripts(True))).on is True
        await eventually(lambda: _states(rig, {"idle"}))
        await eventually(lambda: _has_messages(rig, ["> one", "answer to one"]))
        rig.home.path().unlink()
        assert await rig.said() == ["> one", "answer to one"]


async def _has_messages(rig: TranscriptHarness, wanted: list[str]) -> bool:
    return await rig.said() == wanted


async def _states(rig: TranscriptHarness, wanted: set[str]) -> bool:
    return {summary.state for summary in await rig.listed()} == wanted


async def test_the_setting_is_consent_too(tmp_path: Path) -> None:
    async with running(tmp_path, archive=True) as rig:
        rig.home.write(conversation("one"))
        await rig.start()
        await eventually(lambda: _states(rig, {"idle"}))


async def test_search_finds_messages_calls_and_results(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path, watch=False) as rig:
        rig.home.write(
            [
                write.prompt("walrus"),
                write.call("t1", "Bash", command="grep -r pelican"),
                write.result("t1", [{"type": "text", "text": "heron.py: 3"}]),
                write.text("the pelican is in it"),
            ]
        )
        await rig.start()
        await rig.keeper.listing.scan()
        await rig.keeper.import_session(FOUND)
        await rig.store.wait_indexed()
        kinds = {word: [hit.kind for hit in await rig.store.search(word)] for word in ("walrus", "pelican", "heron")}
        assert kinds == {"walrus": ["user.message"], "pelican": ["text", "tool.called"], "heron": ["tool.ended"]}
