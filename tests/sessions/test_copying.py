"""Two sources, one session: the log of a running session keeps transcript rows next to the records from the wire."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import Row, Writer, line
from fairlead.agents.claude.transcripts.mirror import SPILLED_ABOVE
from fairlead.model import events as ev
from fairlead.model.agents import Exit
from fairlead.model.commands import Close, Delete, Fork
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from sessions.harness import CHILD, SESSION, FakeAgent
from sessions.test_transcripts import eventually, running
from sessions.transcript_harness import TranscriptHarness


async def entries(harness: TranscriptHarness, session: SessionId = SESSION) -> Sequence[Entry]:
    return (await harness.store.read(session, 0, 10_000)).entries


async def wire_rows(harness: TranscriptHarness, session: SessionId = SESSION) -> list[Row]:
    """The rows that the agent would write for its wire records: the same records with the transcript's field names."""
    rows: list[Row] = []
    for entry in await entries(harness, session):
        if entry.raw is None or entry.origin not in ("agent", "gateway"):
            continue
        record = json.loads(entry.raw)
        if record["type"] in ("user", "assistant"):
            fields = {"sessionId": session, "isSidechain": False, "parentUuid": rows[-1]["uuid"] if rows else None}
            rows.append({**record, **fields, "cwd": "/srv", "version": "2.1.325"})
    return rows


async def copies(harness: TranscriptHarness, session: SessionId = SESSION) -> list[tuple[str, Row]]:
    """(id of the copied record, row) of every copy in the log."""
    found = []
    for entry in await entries(harness, session):
        event = ev.decode(entry.event)
        if isinstance(event, ev.RecordStored) and event.of:
            assert (entry.origin, entry.raw is not None) == ("transcript", True)
            found.append((event.of, json.loads(entry.raw or b"")))
    return found


async def a_turn(harness: TranscriptHarness) -> FakeAgent:
    agent = await harness.working("hello")
    await agent.call("toolu_1", command="ls")
    await agent.result_of("toolu_1", "README.md")
    await agent.text("all done")
    return agent


async def level(harness: TranscriptHarness, count: int) -> bool:
    return len(await copies(harness)) >= count


async def test_each_row_of_a_turn_is_stored_once_next_to_its_wire_record(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        aside = Writer(SESSION).row("attachment", attachment={"type": "x"})
        harness.home.write([*rows[:2], aside, *rows[2:]], SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 5))
        found = await copies(harness)
        assert [row for _, row in found] == [*rows[:2], aside, *rows[2:]]
        assert [of for of, _ in found] == [row["uuid"] for _, row in found]
        assert await harness.messages(SESSION) == ["> hello", "all done"]
        events = await harness.log(SESSION)
        assert len({event.id for event in events}) == len(events)
        assert not [event for event in events if isinstance(event, ev.Notice)]


@pytest.mark.linux
async def test_nothing_is_read_while_the_agent_works_and_late_rows_follow_with_their_change(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        harness.home.write(rows[:2], SESSION)
        await harness.importer.follow(SESSION)
        assert await copies(harness) == []
        await agent.result()
        await eventually(lambda: level(harness, 2))
        data = line(rows[2])
        harness.home.write(data[:20], SESSION)
        harness.home.write(data[20:], SESSION)
        harness.home.write(rows[3:], SESSION)
        await eventually(lambda: level(harness, 4))
        assert [row for _, row in await copies(harness)] == rows


async def test_records_that_arrive_while_the_log_is_read_are_the_agents_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a turn's last row before the wire has its record, and the turn ends while the log is read."""
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await harness.working("hello")
        last = Writer(SESSION).text("all done")
        harness.home.write([*await wire_rows(harness), last], SESSION)
        read = harness.store.read

        async def read_before_the_end(*given: Any, **options: Any) -> Any:
            page = await read(*given, **options)
            monkeypatch.undo()
            await agent.say({**{name: last[name] for name in ("type", "uuid", "message")}, "parent_tool_use_id": None})
            await agent.result()
            return page

        monkeypatch.setattr(harness.store, "read", read_before_the_end)
        await harness.importer.mirror.catch_up(harness.loaded().core)
        # The log need not be read while the turn runs.
        if harness.loaded().core.interpreter.turn is not None:
            await harness.store.read(SESSION, 0, 1)
        await eventually(lambda: level(harness, 2))
        assert [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)] == []


async def test_a_restart_continues_at_its_position(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        first = await wire_rows(harness)
        harness.home.write(first, SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 4))
        await harness.send("again")
        await agent.prompted()
        await agent.text("second answer")
        await agent.result()
        second = (await wire_rows(harness))[4:]
        await harness.crash()
        harness.home.write(second, SESSION)
        harness.kind.transcript = [line(row)[:-1] for row in second]
        await harness.start()
        await eventually(lambda: level(harness, 6))
        assert [row for _, row in await copies(harness)] == [*first, *second]
        assert await harness.messages(SESSION) == ["> hello", "all done", "> again", "second answer"]
        await harness.send("third")
        again = await harness.kind.launched(2)
        await again.prompted()
        assert harness.loaded().core.interpreter.turn is not None


async def test_records_lost_on_the_wire_become_events_from_the_transcript_and_not_copies(tmp_path: Path) -> None:
    """A gateway killed in a turn: the rest of the turn comes from the file as events, and known rows become copies."""
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        known = await wire_rows(harness)
        lost = Writer(SESSION).text("said to nobody")
        await harness.crash()
        harness.home.write([*known, lost], SESSION)
        harness.kind.transcript = [line(row)[:-1] for row in [*known, lost]]
        await harness.start()
        await eventually(lambda: level(harness, 4))
        assert [row for _, row in await copies(harness)] == known
        assert await harness.messages(SESSION) == ["> hello", "all done", "said to nobody"]
        assert agent.gone is False


@pytest.mark.linux
async def test_after_the_agents_end_other_programs_are_followed_again(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        await agent.result()
        rows = await wire_rows(harness)
        await agent.die(Exit(code=0))
        await harness.until(lambda: SESSION not in harness.importer._driven)
        harness.home.write(rows, SESSION)
        write = Writer(SESSION)
        harness.home.write([write.prompt("by hand"), write.text("in a terminal")], SESSION)
        await eventually(lambda: _has_text(harness, "in a terminal"))
        assert await harness.messages(SESSION) == ["> hello", "all done", "> by hand", "in a terminal"]


async def _has_text(harness: TranscriptHarness, text: str) -> bool:
    return text in await harness.messages(SESSION)


def other_content(rows: list[Row]) -> list[Row]:
    return [*rows[:3], {**rows[3], "message": {**rows[3]["message"], "content": [{"type": "text", "text": "not so"}]}}]


def other_order(rows: list[Row]) -> list[Row]:
    return [rows[0], rows[3], rows[1], rows[2]]


def other_uuid(rows: list[Row]) -> list[Row]:
    return [*rows[:3], {**rows[3], "uuid": "00000000-0000-4000-8000-00000000000a"}]


def other_type(rows: list[Row]) -> list[Row]:
    return [*rows[:3], {**rows[3], "type": "user"}]


@pytest.mark.linux
@pytest.mark.parametrize(
    ("change", "differs"),
    [(other_content, "message.content"), (other_order, "order"), (other_uuid, "uuid"), (other_type, "type")],
)
async def test_a_difference_is_reported_once(tmp_path: Path, change: Any, differs: str) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        harness.home.write(change(rows), SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 4))
        (notice,) = [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]
        assert (notice.kind, notice.data["differs"]) == ("transcript.differs", differs)
        assert {of for of, _ in await copies(harness)} == {row["uuid"] for row in rows}
        await harness.send("again")
        await agent.prompted()
        await agent.text("more")
        await agent.result()
        more = (await wire_rows(harness))[4:]
        harness.home.write([more[0], other_content([*rows[:3], more[1]])[3]], SESSION)
        await eventually(lambda: level(harness, 6))
        assert len([event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]) == 1


async def test_another_program_on_the_same_session_is_reported_and_its_rows_make_no_events(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        other = Writer("another program")
        foreign = [other.prompt("typed elsewhere"), other.text("said elsewhere"), other.text("and more")]
        harness.home.write([*rows[:2], foreign[0], rows[2], *foreign[1:], rows[3]], SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 7))
        (notice,) = [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]
        assert (notice.kind, notice.data["row"]) == ("transcript.differs", foreign[1]["uuid"])
        assert "Another program writes" in notice.text
        assert await harness.messages(SESSION) == ["> hello", "all done"]


async def test_rows_that_the_cli_only_writes_to_the_file_are_not_another_program(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        quiet = Writer("quiet").text("No response requested.")
        quiet["message"]["model"] = "<synthetic>"
        harness.home.write([*rows, quiet, Writer("side").text("deep", "a", "a1")], SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 6))
        assert not [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]


async def test_plain_text_and_a_single_text_block_are_equal(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        rows[0] = {**rows[0], "message": {"role": "user", "content": [{"type": "text", "text": "hello"}]}}
        harness.home.write(rows, SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 4))
        assert not [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]


async def test_large_rows_outside_the_conversation_are_spilled(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        blob = {"type": "api-request-blob", "sessionId": SESSION, "blob": "x" * (SPILLED_ABOVE + 1)}
        long = {**rows[3], "note": "x" * (SPILLED_ABOVE + 1)}
        harness.home.write([*rows[:3], blob, long], SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 5))
        kept = [row for _, row in await copies(harness)]
        assert kept[4] == long
        assert (kept[3]["type"], kept[3]["size"]) == ("fairlead_oversize", len(line(blob)) - 1)
        spilled = tmp_path / "data" / "oversize"
        assert (spilled / kept[3]["subtype"]).read_bytes() == line(blob)[:-1]
        (spilled / f"{CHILD}-other").write_bytes(b"another session's")
        await harness.do(Delete(session=SESSION))
        assert [file.name for file in spilled.iterdir()] == [f"{CHILD}-other"]


async def test_rows_of_subagents_are_stored_but_not_the_files_that_link_them(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        write = Writer(SESSION)
        deep = [write.prompt("job", "a", "a1"), write.text("deep", "a", "a1")]
        harness.home.subagent("a1", deep, "toolu_a", SESSION)
        harness.home.write(await wire_rows(harness), SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 6))
        kept = [row for _, row in await copies(harness)]
        assert [row for row in kept if row.get("agentId")] == deep
        assert len(kept) == 6
        assert not [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]


async def test_an_agent_that_continues_under_another_id_is_read_under_that_id(tmp_path: Path) -> None:
    """As older versions do: a resume writes a new file, which begins with a copy of the old one."""
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        harness.home.write(rows, SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 4))
        await harness.send("again")
        await agent.prompted()
        ready = {"type": "system", "subtype": "init", "uuid": "i2", "session_id": CHILD, "cwd": str(harness.cwd)}
        await agent.say({**ready, "model": "opus", "tools": [], "claude_code_version": "2.1.37"})
        await agent.text("more")
        new = (await wire_rows(harness))[4:]
        harness.home.write([{**row, "sessionId": CHILD} for row in [*rows, *new]], CHILD)
        await agent.result()
        await eventually(lambda: level(harness, 6))
        assert [of for of, _ in await copies(harness)] == [row["uuid"] for row in [*rows, *new]]
        assert [summary.session for summary in await harness.listed(limit=9)] == [SESSION]


@pytest.mark.linux
async def test_a_fork_skips_the_rows_that_its_file_repeats_from_its_parent(tmp_path: Path) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        await agent.result()
        before = await wire_rows(harness)
        await harness.do(Fork(session=SESSION, child=CHILD))
        await harness.send("on my own", CHILD)
        fork = await harness.kind.launched(2)
        await fork.prompted()
        await fork.ready()
        await fork.text("a new way")
        own = (await wire_rows(harness, CHILD))[4:]
        await fork.result()
        await harness.importer.follow(CHILD)
        assert await copies(harness, CHILD) == []
        harness.home.write([{**row, "sessionId": CHILD} for row in before], CHILD)
        await harness.importer.follow(CHILD)
        assert await copies(harness, CHILD) == []
        harness.home.write(own, CHILD)
        await eventually(lambda: _copied(harness, 2))
        assert [row for _, row in await copies(harness, CHILD)] == own


async def _copied(harness: TranscriptHarness, count: int) -> bool:
    return len(await copies(harness, CHILD)) >= count


async def test_a_row_without_uuid_that_each_process_writes_is_stored_each_time_under_a_new_id(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        nameless = {"type": "mode", "mode": "normal", "sessionId": SESSION}
        harness.home.write([*rows, nameless], SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 5))
        await harness.do(Close(session=SESSION))
        await harness.send("again")
        second = await harness.kind.launched(2)
        await second.prompted()
        await second.text("second answer")
        harness.home.write([*(await wire_rows(harness))[4:], nameless], SESSION)
        await second.result()
        await eventually(lambda: level(harness, 8))
        ids = [event.id for event in await harness.log(SESSION)]
        assert len(ids) == len(set(ids))


async def test_a_row_written_before_it_arrives_on_the_wire_is_not_another_programs(tmp_path: Path) -> None:
    """The next turn begins while the file is read, and its row reaches the disk before the wire."""
    async with running(tmp_path, watch=False) as harness:
        await harness.start()
        agent = await a_turn(harness)
        rows = await wire_rows(harness)
        harness.home.write(rows, SESSION)
        await agent.result()
        await eventually(lambda: level(harness, 4))
        await harness.send("again")
        prompt = await agent.prompted()
        core, copying = harness.loaded().core, harness.importer.mirror
        block = {"type": "text", "text": "quick"}
        answer: Row = {"type": "assistant", "uuid": "0b0b0b0b-0000-4000-8000-000000000001", "parent_tool_use_id": None}
        answer["message"] = {"id": "m9", "role": "assistant", "model": "opus", "content": [block]}
        harness.home.write([{**answer, "sessionId": SESSION, "isSidechain": False}], SESSION)
        await copying.catch_up(core)
        await copying.catch_up(core)
        assert len(await copies(harness)) == 4, prompt
        await agent.say({**answer, "session_id": SESSION})
        await agent.result()
        await eventually(lambda: level(harness, 5))
        assert (await copies(harness))[-1][0] == answer["uuid"]
        assert not [event for event in await harness.log(SESSION) if isinstance(event, ev.Notice)]
