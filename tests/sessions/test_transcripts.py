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
    harness = TranscriptHarness(folder, **fields)
    try:
        yield harness
    finally:
        if hasattr(harness, "importer"):
            await harness.stop()


async def eventually(true: Any) -> Any:
    """Wait until another task makes the condition true, with a time limit."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await true()):
            await asyncio.sleep(0.002)
    return found


# --- lists -------------------------------------------------------------------------------------------------


async def test_sessions_are_listed_without_being_copied(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        harness.home.write(conversation("fix the test"))
        harness.home.write([Writer(OTHER).prompt("<command-name>/clear</command-name>")], OTHER)
        await harness.start()
        (summary,) = await harness.listed()
        assert (summary.session, summary.state, summary.agent) == (FOUND, TRANSCRIPT, "claude")
        assert (summary.title, summary.cwd, summary.branch, summary.turns) == (
            "fix the test",
            "/srv/project",
            "main",
            1,
        )
        with pytest.raises(NotFound):
            await harness.store.read(FOUND, 0, 10)
        assert await harness.listed(transcripts=False) == ()


@pytest.mark.linux
async def test_new_sessions_and_new_projects_are_listed_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        harness.home.write(conversation("one"))
        await eventually(harness.listed)
        project = harness.home.folder / "projects" / "-srv-new"
        project.mkdir()
        (project / f"{OTHER}.jsonl").write_bytes(lines(conversation("two", OTHER)))
        await harness.clock.advance(5)
        await eventually(lambda: _titles(harness, "two"))


async def _titles(harness: TranscriptHarness, wanted: str) -> bool:
    return wanted in [summary.title for summary in await harness.listed()]


async def test_a_file_that_has_not_changed_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(conversation("one"))
        await harness.start()
        await harness.importer.listing.scan()
        opened: list[str] = []
        monkeypatch.setattr(
            "fairlead.agents.claude.transcripts.index.summarize_file",
            lambda path, session=None: opened.append(str(path)),
        )
        await harness.importer.listing.scan()
        assert opened == []


async def test_a_session_whose_file_is_gone_leaves_the_list_unless_it_was_opened(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        harness.home.write(conversation("one"))
        harness.home.write(conversation("two", OTHER), OTHER)
        await harness.start()
        await harness.view(OTHER_ID)
        harness.home.path().unlink()
        harness.home.path(OTHER).unlink()
        await harness.clock.advance(5)
        await eventually(lambda: _gone(harness))
        assert [summary.title for summary in await harness.listed()] == ["two"]
        assert await harness.messages(OTHER_ID) == ["> two", "answer to two"]


async def _gone(harness: TranscriptHarness) -> bool:
    return len(await harness.listed()) == 1


async def test_a_deleted_session_does_not_come_back_and_its_file_stays(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        path = harness.home.write(conversation("one"))
        await harness.start()
        await harness.importer.listing.scan()
        await harness.do(Delete(session=FOUND))
        harness.home.write(conversation("more"))
        await harness.importer.listing.scan()
        assert await harness.listed() == ()
        assert path.exists() and harness.kind.forgotten == []
        with pytest.raises(NotFound):
            await harness.view()


async def test_deleting_with_files_asks_the_agent_to_forget(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(conversation("one"))
        await harness.start()
        await harness.importer.listing.scan()
        await harness.do(Delete(session=FOUND, files=True))
        assert harness.kind.forgotten == [SESSION]


def noting(call: Any, touched: list[str]) -> Any:
    def noted(*given: Any, **more: Any) -> Any:
        touched.append(str(given))
        return call(*given, **more)

    return noted


@pytest.mark.linux
async def test_idle_files_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files there are: they have no timers, and no file is read in a day."""
    waiting = []
    for number, count in enumerate((1, 60)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with running(folder) as harness:
            for name in range(count):
                session = f"{name:08}-1111-4111-8111-111111111111"
                harness.home.write(conversation("idle", session), session)
            await harness.start()
            await _asleep(harness)
            await harness.clock.advance(60)
            await _asleep(harness)
            waiting.append(harness.clock.waiting)
            touched: list[str] = []
            for call in ("stat", "scandir", "open", "pread"):
                monkeypatch.setattr(os, call, noting(getattr(os, call), touched))
            await harness.clock.advance(86_400)
            await _asleep(harness)
            monkeypatch.undo()
            assert [given for given in touched if ".claude" in given] == []
    assert waiting[0] == waiting[1]


async def _asleep(harness: TranscriptHarness) -> None:
    """Wait until both periodic tasks sleep: the sweep of idle sessions and the archive's check."""
    await harness.until(lambda: harness.clock.waiting >= 2)


# --- opening -----------------------------------------------------------------------------------------------


@pytest.mark.rules("S000-010", "S000-012", "S001-008")
async def test_opening_a_session_reads_it_into_its_log_with_its_own_times(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        rows = conversation("hello")
        harness.home.write(rows)
        await harness.start()
        await harness.importer.listing.scan()
        (before,) = await harness.listed()
        view = await harness.view()
        assert await harness.messages() == ["> hello", "answer to hello"]
        kinds = await harness.kinds(FOUND)
        assert kinds == [
            "session.opened", "session.resumed", "turn.started", "user.message", "tool.called", "tool.ended", "text",
            "turn.ended",
        ]  # fmt: skip
        assert view.summary.state == "idle"
        assert (view.summary.created, view.summary.updated) == (before.created, before.updated)
        page = await harness.store.read(FOUND, 0, 100)
        assert [json.loads(entry.raw) for entry in page.entries if entry.raw] == rows
        assert {entry.origin for entry in page.entries if entry.raw} == {"transcript"}


async def test_opening_a_session_again_reads_nothing_again(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(conversation("hello"))
        await harness.start()
        await harness.importer.listing.scan()
        head = (await harness.view()).head
        await harness.importer.follow(FOUND)
        assert (await harness.view()).head == head


@pytest.mark.rules("S001-075", "S001-076", "S001-109", "S001-120")
async def test_after_a_restart_only_added_rows_are_emitted(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write([write.prompt("one"), write.text("first")])
        await harness.start()
        await harness.importer.listing.scan()
        await harness.view()
        before = await harness.log(FOUND)
        await harness.crash()
        harness.home.write([write.prompt("two"), write.text("second")])
        await harness.start()
        await harness.importer.follow(FOUND)
        assert await harness.messages() == ["> one", "first", "> two", "second"]
        after = await harness.log(FOUND)
        assert after[: len(before)] == before
        assert len({event.id for event in after}) == len(after)


async def test_rows_written_while_the_gateway_was_down_are_emitted_after_its_start(tmp_path: Path) -> None:
    """The turn of the other program continues: it is not mistaken for a lost turn of the gateway."""
    write = Writer()
    async with running(tmp_path) as harness:
        harness.clock = ManualClock(WRITTEN_AT)
        harness.home.write([write.prompt("one"), write.call("toolu_1", command="ls")])
        await harness.start()
        await harness.view()
        await harness.crash()
        harness.home.write([write.result("toolu_1"), write.text("done")])
        await harness.start()
        await eventually(lambda: _has(harness, FOUND, "done"))
        await eventually(lambda: _rests(harness))
        ends = [event.status for event in await harness.log(FOUND) if isinstance(event, ev.TurnEnded)]
        assert ends == ["completed"]


async def _rests(harness: TranscriptHarness) -> bool:
    """Advance the clock; true when the turn has ended."""
    await harness.clock.advance(1)
    return (await harness.view()).summary.state == "idle"


async def test_a_restart_in_the_middle_of_an_import_continues_at_its_position(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fairlead.agents.claude.transcripts.reader.BATCH_ROWS", 3)
    write = Writer()
    rows = [row for number in range(20) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        await harness.start()
        await harness.importer.listing.scan()
        log, count = harness.importer.filler.log, 0

        async def broken(*given: Any) -> None:
            nonlocal count
            count += 1
            if count > 4:
                raise asyncio.CancelledError
            await log(*given)

        monkeypatch.setattr(harness.importer.filler, "log", broken)
        with pytest.raises(asyncio.CancelledError):
            await harness.view()
        await harness.crash()
        harness.watch = True
        await harness.start()
        await eventually(lambda: _has(harness, FOUND, "answer 19"))
        assert len(await harness.messages()) == 40
        await eventually(lambda: _nothing_to_fill(harness))
        events = await harness.log(FOUND)
        assert len({event.id for event in events}) == len(events)


async def _nothing_to_fill(harness: TranscriptHarness) -> bool:
    return not await harness.store.documents.list("transcript-filling")


async def test_a_title_set_by_a_user_stays_and_otherwise_the_summary_is_the_title(tmp_path: Path) -> None:
    summary = {"type": "summary", "summary": "about tests", "leafUuid": "l"}
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(conversation("hello"))
        await harness.start()
        await harness.importer.listing.scan()
        assert (await harness.view()).summary.title == "hello"
        harness.home.write([summary])
        await harness.importer.follow(FOUND)
        assert (await harness.view()).summary.title == "about tests"
        await harness.do(Rename(session=FOUND, title="mine"))
        harness.home.write([{**summary, "summary": "other"}])
        await harness.importer.follow(FOUND)
        assert (await harness.view()).summary.title == "mine"


@pytest.mark.rules("S000-199")
async def test_sending_to_a_found_session_resumes_it(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(conversation("hello", cwd=str(harness.cwd)))
        await harness.start()
        await harness.importer.listing.scan()
        await harness.view()
        await harness.importer.turn_timeouts.settle(FOUND)
        await harness.do(Send(session=FOUND, content=(TextBlock("go on"),)))
        agent = await harness.kind.launched()
        assert (agent.launch.resume, agent.launch.cwd) == (SESSION, str(harness.cwd))
        assert await agent.prompted() == "go on"


async def test_a_session_outside_the_roots_can_be_read_and_not_resumed(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(conversation("hello", cwd="/etc"))
        await harness.start()
        await harness.importer.listing.scan()
        assert await harness.messages() == ["> hello", "answer to hello"]
        with pytest.raises(OutsideRoots):
            await harness.do(Send(session=FOUND, content=(TextBlock("go on"),)))
        assert harness.kind.agents == []


async def test_a_large_session_opens_at_once_and_fills_in_the_background(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fairlead.sessions.transcripts.filling.AT_ONCE_BYTES", 1000)
    write = Writer()
    rows = [row for number in range(500) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        await harness.start()
        await harness.importer.listing.scan()
        watch = await harness.gateway.watch(ANN, FOUND, None, Lines(), Socket())
        watch.start()
        assert harness.loaded(FOUND).supervisor.following
        await harness.until(lambda: not harness.loaded(FOUND).supervisor.following)
        assert sum(isinstance(event, ev.Text) for event in await harness.log(FOUND)) == 500
        watch.close()


# --- previews ------------------------------------------------------------------------------------------------


async def test_a_preview_shows_the_end_without_opening_the_session(tmp_path: Path) -> None:
    write = Writer()
    rows = [row for number in range(300) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(rows)
        await harness.start()
        await harness.importer.listing.scan()
        page = await harness.gateway.ask(ANN, PreviewTranscript(FOUND, 4))
        events = [json.loads(bytes(item)) for item in page.events]
        assert [event["text"] for event in events if event["type"] == "text"] == ["answer 298", "answer 299"]
        assert all("seq" not in event for event in events)
        (summary,) = await harness.listed()
        assert summary.state == TRANSCRIPT
        with pytest.raises(NotFound):
            await harness.gateway.ask(ANN, PreviewTranscript(OTHER_ID, 4))


# --- following -------------------------------------------------------------------------------------------------


@pytest.mark.linux
@pytest.mark.rules("S000-014", "S000-015", "S000-149", "S000-223", "S001-116")
async def test_rows_of_another_program_reach_subscribers(tmp_path: Path) -> None:
    """The clock does not advance: no interval has to pass."""
    write = Writer()
    other = Writer(OTHER)
    async with running(tmp_path) as harness:
        harness.home.write([write.prompt("one"), write.text("first")])
        harness.home.write([other.prompt("elsewhere")], OTHER)
        await harness.start()
        await harness.view()
        await harness.view(OTHER_ID)
        for number in range(5):
            data = line(write.text(f"part {number}"))
            harness.home.write(data[:30])
            harness.home.write(data[30:])
        harness.home.write([other.text("there too")], OTHER)
        await eventually(lambda: _has(harness, FOUND, "part 4"))
        await eventually(lambda: _has(harness, OTHER_ID, "there too"))
        assert await harness.messages() == ["> one", "first", *(f"part {number}" for number in range(5))]


async def _has(harness: TranscriptHarness, session: SessionId, text: str) -> bool:
    return text in await harness.messages(session)


@pytest.mark.linux
async def test_a_session_that_is_slow_to_read_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, other = Writer(), Writer(OTHER)
    async with running(tmp_path) as harness:
        harness.home.write([write.prompt("one")])
        harness.home.write([other.prompt("two")], OTHER)
        await harness.start()
        await harness.view()
        await harness.view(OTHER_ID)
        may_go_on, follow = asyncio.Event(), harness.importer.follow

        async def slow(session: SessionId) -> None:
            if session == FOUND:
                await may_go_on.wait()
            await follow(session)

        monkeypatch.setattr(harness.importer, "follow", slow)
        harness.home.write([write.text("much")])
        harness.home.write([other.text("little")], OTHER)
        await eventually(lambda: _has(harness, OTHER_ID, "little"))
        harness.home.write([write.text("and more")])
        may_go_on.set()
        await eventually(lambda: _has(harness, FOUND, "and more"))
        assert await harness.messages() == ["> one", "much", "and more"]


@pytest.mark.linux
async def test_a_subagents_file_is_followed_too(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path) as harness:
        harness.home.write([write.prompt("one"), write.call("toolu_a", "Agent", prompt="job")])
        await harness.start()
        await harness.view()
        harness.home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
        harness.home.subagent("a1", [write.text("deep", "a", "a1")])
        await eventually(lambda: _has(harness, FOUND, "deep"))
        harness.home.subagent("a1", [write.text("deeper", "a", "a1")])
        await eventually(lambda: _has(harness, FOUND, "deeper"))
        texts = [event for event in await harness.log(FOUND) if isinstance(event, ev.Text)]
        assert all(event.subagent is not None for event in texts)


@pytest.mark.linux
async def test_a_subagents_file_next_to_its_session_is_followed_too(tmp_path: Path) -> None:
    """As older versions wrote them; the call is known only from the result, which comes last."""
    write = Writer(version="2.0.20")
    async with running(tmp_path) as harness:
        harness.home.write([write.prompt("one")])
        await harness.start()
        await harness.view()
        harness.home.write_in_project("a1", [write.text("deep", "a", "a1")])
        harness.home.write([write.call("toolu_a", "Task", prompt="job")])
        harness.home.write_in_project("a1", [write.text("deeper", "a", "a1")])
        harness.home.write([write.result("toolu_a", "done", data={"status": "completed", "agentId": "a1"})])
        await eventually(lambda: _has(harness, FOUND, "deeper"))
        texts = [event for event in await harness.log(FOUND) if isinstance(event, ev.Text)]
        assert [(event.text, event.subagent is not None) for event in texts] == [("deep", True), ("deeper", True)]


@pytest.mark.rules("S001-007", "S001-111", "S001-112", "S001-121")
async def test_repeated_rows_are_emitted_once(tmp_path: Path) -> None:
    write = Writer()
    rows = [write.prompt("one"), write.text("first"), {"type": "summary", "summary": "s", "leafUuid": "l"}]
    rows.append(write.row("system", subtype="informational", content="note", level="info"))
    side = [write.call("toolu_a", "Task", prompt="job"), write.prompt("job", "a"), write.text("deep", "a")]
    async with running(tmp_path, watch=False) as harness:
        harness.home.write([*rows, *side])
        await harness.start()
        await harness.importer.listing.scan()
        head = (await harness.view()).head
        harness.home.write([*rows, *side])
        # Only the uuid counts, whatever else the row contains.
        for row, other in (
            (rows[0], write.prompt("else")),
            (rows[1], write.text("else")),
            (rows[3], {"content": "else"}),
        ):
            harness.home.write([{**row, **other, "uuid": row["uuid"]}])
        await harness.importer.follow(FOUND)
        assert (await harness.view()).head == head
        harness.home.write([{**rows[2], "summary": "changed"}])
        await harness.importer.follow(FOUND)
        assert (await harness.view()).head == head + 1
        harness.home.write([{**rows[1], "uuid": "another", "message": {**rows[1]["message"], "id": "another"}}])
        await harness.importer.follow(FOUND)
        assert (await harness.messages()).count("first") == 2


async def test_a_truncated_or_replaced_file_emits_nothing_twice(tmp_path: Path) -> None:
    write = Writer()
    rows = [row for number in range(30) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path, watch=False) as harness:
        path = harness.home.write(rows)
        await harness.start()
        await harness.importer.listing.scan()
        await harness.view()
        path.write_bytes(lines(rows[:4]))
        await harness.importer.follow(FOUND)
        new = tmp_path / "new"
        new.write_bytes(lines([*rows[:4], write.text("another way")]))
        os.replace(new, path)
        await harness.importer.follow(FOUND)
        messages = await harness.messages()
        assert len(messages) == 61
        assert messages[-1] == "another way"
        events = await harness.log(FOUND)
        assert len({event.id for event in events}) == len(events)


async def test_a_copy_with_the_same_content_continues_at_its_position(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path, watch=False) as harness:
        path = harness.home.write([write.prompt("one"), write.text("first")])
        await harness.start()
        await harness.importer.listing.scan()
        head = (await harness.view()).head
        moved = harness.home.folder / "projects" / "-srv-renamed"
        moved.mkdir()
        (moved / path.name).write_bytes(path.read_bytes() + line(write.text("moved")))
        path.unlink()
        await harness.importer.listing.scan()
        await harness.importer.follow(FOUND)
        assert (await harness.messages())[-1] == "moved"
        # A new turn, since the one before is over, and its text.
        assert (await harness.view()).head == head + 2


@pytest.mark.linux
async def test_a_session_that_continues_in_another_folder_emits_nothing_twice(tmp_path: Path) -> None:
    """More rows than the interpreter remembers: repeated rows are recognised by the log alone."""
    write = Writer()
    rows = [row for number in range(2300) for row in (write.prompt(str(number)), write.text(f"answer {number}"))]
    async with running(tmp_path) as harness:
        path = harness.home.write(rows)
        await harness.start()
        await harness.view()
        moved = harness.home.folder / "projects" / "-a-worktree"
        moved.mkdir()
        head = (await harness.view()).head
        (moved / path.name).write_bytes(lines([*rows, write.prompt("there"), write.text("from there")]))
        await eventually(lambda: _has(harness, FOUND, "from there"))
        harness.home.write([write.text("from here")])
        await eventually(lambda: _has(harness, FOUND, "from here"))
        assert (await harness.messages())[-4:] == ["answer 2299", "> there", "from there", "from here"]
        # A new turn, its prompt, and two answers.
        assert (await harness.view()).head == head + 4
        await harness.stop()
        await harness.start()
        assert len(await harness.listed()) == 1
        await harness.importer.follow(FOUND)
        assert (await harness.view()).head == head + 4


@pytest.mark.linux
async def test_a_session_that_runs_here_is_read_only_from_its_wire(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await harness.working("hello")
        session = agent.launch.session
        write = Writer(session)
        harness.home.write([write.prompt("hello"), write.text("from the file")], session)
        await agent.text("from the wire")
        await agent.result()
        await asyncio.sleep(0.05)
        assert "from the file" not in await harness.messages(session)
        await agent.die(Exit(code=0))
        await harness.until(
            lambda: harness.loaded(session).supervisor.agent is None and session not in harness.importer._driven
        )
        assert [summary.session for summary in await harness.listed()] == [session]
        harness.home.write([write.prompt("by hand"), write.text("in a terminal")], session)
        await eventually(lambda: _has(harness, session, "in a terminal"))
        assert "from the file" not in await harness.messages(session)


@pytest.mark.linux
async def test_a_turn_is_over_when_its_answer_was_final_and_nothing_follows(tmp_path: Path) -> None:
    write, now = Writer(), {"timestamp": "2023-11-14T22:13:15.000Z"}
    async with running(tmp_path) as harness:
        harness.home.write([write.prompt("one", **now)])
        await harness.start()
        assert (await harness.view()).summary.state == "working"
        harness.home.write([write.text("done", **now)])
        await eventually(lambda: _has(harness, FOUND, "done"))
        assert (await harness.view()).summary.state == "working"

        async def ended_by_silence() -> list[ev.TurnEnded]:
            # The file may still be read to its end when the clock moves: its timer starts after that.
            await _pass(harness, 4)
            return [event for event in await harness.log(FOUND) if isinstance(event, ev.TurnEnded)]

        (ended,) = await eventually(ended_by_silence)
        assert (ended.status, (await harness.view()).summary.state) == ("completed", "idle")
        harness.home.write([write.prompt("two", **now), write.call("toolu_1", command="sleep")])
        await eventually(lambda: _has(harness, FOUND, "> two"))
        await _pass(harness, 4)
        assert (await harness.view()).summary.state == "working"
        for _ in range(2):
            await _pass(harness, 300)
        ended = [event for event in await harness.log(FOUND) if isinstance(event, ev.TurnEnded)][-1]
        assert (ended.status, ended.reason) == ("failed", "nothing more was written")


async def test_an_orphan_goes_to_the_main_thread_after_ten_minutes_and_to_its_call_when_that_comes(
    tmp_path: Path,
) -> None:
    write, now = Writer(), {"timestamp": "2023-11-14T22:13:15.000Z"}
    async with running(tmp_path) as harness:
        harness.home.write([write.prompt("one", **now), write.text("done", **now)])
        harness.home.subagent("a1", [write.text("deep", "a", "a1", **now)])
        await harness.start()
        await harness.view()
        await eventually(lambda: _rests(harness))
        assert "deep" not in await harness.messages()
        await _pass(harness, 300)
        assert "deep" not in await harness.messages()
        await _pass(harness, 300)
        await eventually(lambda: _has(harness, FOUND, "deep"))
        (notice,) = [event for event in await harness.log(FOUND) if isinstance(event, ev.Notice)]
        assert notice.kind == "unresolved"
        await harness.crash()
        await harness.start()
        harness.home.write([write.call("toolu_a", "Agent", prompt="job")])
        harness.home.subagent("a1", [], "toolu_a")
        await eventually(lambda: _resolved(harness))
        events = await harness.log(FOUND)
        assert len({event.id for event in events}) == len(events)


async def _resolved(harness: TranscriptHarness) -> bool:
    return any(isinstance(event, ev.SubagentResolved) for event in await harness.log(FOUND))


async def _pass(harness: TranscriptHarness, seconds: float) -> None:
    """Advance the clock for a session with a turn timeout, and wait until all tasks started by it are done."""
    await harness.until(lambda: FOUND in harness.importer.turn_timeouts._due)
    working = set(harness.importer.tasks._tasks)
    await harness.clock.advance(seconds)
    if begun := harness.importer.tasks._tasks - working:
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
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(damaged)
        await harness.start()
        await harness.importer.listing.scan()
        imported = await harness.importer.import_transcript(ANN, ImportTranscript(session=SESSION))
        assert {problem.kind: problem.count for problem in imported.problems} == {
            "joined": 1, "nul": 1, "spliced": 1, "garbage": 1, "torn": 1,
        }  # fmt: skip
        assert await harness.messages() == ["> one", "two", "3", "five"]
        kept = [entry.raw for entry in (await harness.store.read(FOUND, 0, 100)).entries if entry.kind == "record"]
        assert [raw for raw in kept if raw and not raw.endswith(b"}")] == [
            four[:40],
            b"no row at all",
            b'{"type":"user',
        ]
        again = await harness.importer.import_transcript(ANN, ImportTranscript(session=SESSION))
        assert again.events == 0
        harness.home.write(line(write.prompt("whole after all"))[len(b'{"type":"user') :])


WRITER = """
import os, sys
path, name, count, cut = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for row in sys.stdin.buffer.read().splitlines(keepends=True)[:count]:
    os.write(out, row[:cut])
    if row[cut:]:
        os.write(out, row[cut:])
"""


@pytest.mark.linux
@pytest.mark.process
async def test_two_programs_that_write_one_file_at_the_same_time(tmp_path: Path) -> None:
    """One program writes whole rows, the other splits each row: torn rows are stored and reported, others emitted."""
    ours, theirs = Writer(), Writer("the other program")
    whole = [ours.prompt(f"whole {number}") for number in range(150)]
    torn = [theirs.prompt(f"torn {number}") for number in range(150)]
    async with running(tmp_path) as harness:
        path = harness.home.write([ours.prompt("first")])
        await harness.start()
        await harness.view()
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
        harness.home.write([ours.prompt("last")])
        await eventually(lambda: _has(harness, FOUND, "> last"))
        messages = await harness.messages()
        assert [words for words in messages if words.startswith("> whole")] == [f"> whole {n}" for n in range(150)]
        events = await harness.log(FOUND)
        assert len({event.id for event in events}) == len(events)
        page = await harness.store.read(FOUND, 0, 10_000)
        kept = sorted(b"".join(entry.raw for entry in page.entries if entry.raw))
        assert kept == sorted(path.read_bytes().replace(b"\n", b""))


async def test_a_torn_line_that_is_completed_later_is_read_whole(tmp_path: Path) -> None:
    write = Writer()
    last = line(write.prompt("last"))
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(line(write.prompt("first")) + last[:50])
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        harness.home.write(last[50:-1])
        await harness.importer.import_session(FOUND)
        assert await harness.messages() == ["> first", "> last"]
        harness.home.write(b"\n" + line(write.text("more")))
        await harness.importer.import_session(FOUND)
        assert await harness.messages() == ["> first", "> last", "more"]


async def test_a_file_elsewhere_is_imported_by_its_path(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        await harness.start()
        saved = tmp_path / "saved.jsonl"
        saved.write_bytes(lines(conversation("from a backup")))
        imported = await harness.importer.import_transcript(ANN, ImportTranscript(path=str(saved)))
        assert (imported.session, imported.title) == (SESSION, "from a backup")
        assert await harness.messages() == ["> from a backup", "answer to from a backup"]
        again = await harness.importer.import_transcript(ANN, ImportTranscript(path=str(saved)))
        assert again.events == 0


async def test_a_failed_import_gives_its_reason(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        await harness.start()
        with pytest.raises(BadRequest):
            await harness.importer.import_transcript(ANN, ImportTranscript())
        with pytest.raises(BadRequest):
            await harness.importer.import_transcript(ANN, ImportTranscript(path="relative.jsonl"))
        with pytest.raises(OutsideRoots):
            await harness.importer.import_transcript(ANN, ImportTranscript(path="/etc/passwd"))
        with pytest.raises(BadRequest, match="unreadable"):
            await harness.importer.import_transcript(ANN, ImportTranscript(path=str(tmp_path / "none.jsonl")))
        with pytest.raises(NotFound):
            await harness.importer.import_transcript(ANN, ImportTranscript(session=SESSION))
        escaping = tmp_path / "x.jsonl"
        escaping.write_bytes(lines(conversation("bad", "../../etc/passwd")))
        with pytest.raises(BadRequest, match="bad id"):
            await harness.importer.import_transcript(ANN, ImportTranscript(path=str(escaping)))
        empty = tmp_path / f"{OTHER}.jsonl"
        empty.write_bytes(b"")
        nothing = await harness.importer.import_transcript(ANN, ImportTranscript(path=str(empty)))
        assert [problem.kind for problem in nothing.problems] == ["nothing said"]


async def test_a_running_session_is_not_imported(tmp_path: Path) -> None:
    async with running(tmp_path, watch=False) as harness:
        await harness.start()
        agent = await harness.working()
        harness.home.write(conversation("hello", agent.launch.session), agent.launch.session)
        with pytest.raises(Busy):
            await harness.importer.import_session(agent.launch.session)


async def test_nothing_is_archived_without_consent_and_all_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        harness.home.write(conversation("one"))
        harness.home.write(conversation("two", OTHER), OTHER)
        await harness.start()
        ask = harness.archiver.handlers()[ArchiveTranscripts]
        assert (await ask(ANN, ArchiveTranscripts())).on is None
        assert {summary.state for summary in await harness.listed()} == {TRANSCRIPT}
        assert (await ask(ANN, ArchiveTranscripts(True))).on is True
        await eventually(lambda: _states(harness, {"idle"}))
        await eventually(lambda: _has_messages(harness, ["> one", "answer to one"]))
        harness.home.path().unlink()
        assert await harness.messages() == ["> one", "answer to one"]


async def _has_messages(harness: TranscriptHarness, wanted: list[str]) -> bool:
    return await harness.messages() == wanted


async def _states(harness: TranscriptHarness, wanted: set[str]) -> bool:
    return {summary.state for summary in await harness.listed()} == wanted


async def test_the_setting_is_consent_too(tmp_path: Path) -> None:
    async with running(tmp_path, archive=True) as harness:
        harness.home.write(conversation("one"))
        await harness.start()
        await eventually(lambda: _states(harness, {"idle"}))


async def test_search_finds_messages_calls_and_results(tmp_path: Path) -> None:
    write = Writer()
    async with running(tmp_path, watch=False) as harness:
        harness.home.write(
            [
                write.prompt("walrus"),
                write.call("t1", "Bash", command="grep -r pelican"),
                write.result("t1", [{"type": "text", "text": "heron.py: 3"}]),
                write.text("the pelican is in it"),
            ]
        )
        await harness.start()
        await harness.importer.listing.scan()
        await harness.importer.import_session(FOUND)
        await harness.store.wait_indexed()
        kinds = {
            word: [hit.kind for hit in await harness.store.search(word)] for word in ("walrus", "pelican", "heron")
        }
        assert kinds == {"walrus": ["user.message"], "pelican": ["text", "tool.called"], "heron": ["tool.ended"]}
