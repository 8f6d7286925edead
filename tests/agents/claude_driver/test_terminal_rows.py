"""The transcript of a CLI in a terminal: rows in the order of the conversation, and only the own rows of a fork."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.claude_driver.fake_tui import FakeTui, passing
from fairlead.agents.claude.transcripts.ordering import RowOrdering, SubagentResultBuffer
from fairlead.agents.claude.tui.stored_state import TranscriptPlace
from fairlead.agents.claude.tui.transcript_tail import TranscriptTail
from fairlead.model.agents import Record
from fairlead.model.ids import SessionId
from fairlead_testing.clock import ManualClock

SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")


def row(name: str, parent: str | None, kind: str = "user", **fields: Any) -> Record:
    line = {"type": kind, "uuid": name, "parentUuid": parent, **fields}
    return Record(json.dumps(line).encode(), "transcript")


def names(records: list[Record]) -> list[str]:
    return [json.loads(record.raw)["uuid"] for record in records]


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_rows_written_in_any_order_come_after_their_parents(count: int, chance: random.Random) -> None:
    chain = [row(str(number), str(number - 1) if number else None) for number in range(count)]
    written = chain.copy()
    chance.shuffle(written)
    order = RowOrdering()
    delivered = [ready for record in written for ready in order.put(record)]
    assert names(delivered) == names(chain) and not order.is_waiting


def test_a_missing_parent_does_not_block_rows_forever() -> None:
    order = RowOrdering()
    assert order.put(row("b", "never")) == []
    assert names(order.flush()) == ["b"]
    assert order.flush() == []
    assert names(order.put(row("c", "b"))) == ["c"]


def test_a_subagent_result_and_later_rows_wait_for_its_last_text() -> None:
    facts = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "Found."}]}
    words = {"content": [{"type": "text", "text": "Found."}]}
    call = {"content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]}
    side = {"isSidechain": True, "agentId": "a1"}
    order = SubagentResultBuffer()
    assert names(order.put(row("call", None, "assistant", message=call, **side))) == ["call"]
    assert order.put(row("result", None, toolUseResult=facts)) == []
    assert order.put(row("answer", "result", "assistant", message=words)) == []
    delivered = order.put(row("words", "call", "assistant", message=words, **side))
    assert names(delivered) == ["words", "result", "answer"]
    assert not order.is_waiting
    assert names(order.put(row("result again", None, toolUseResult=facts))) == ["result again"]


def test_a_missing_last_text_of_a_subagent_does_not_block_rows_forever() -> None:
    facts = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "Found."}]}
    order = SubagentResultBuffer()
    assert order.put(row("result", None, toolUseResult=facts)) == []
    assert names(order.flush()) == ["result"]
    for other in ({"status": "async_launched", "agentId": "a1"}, {"status": "completed", "agentId": "a1"}, "Error"):
        assert names(order.put(row("other", None, toolUseResult=other))) == ["other"]


def test_rows_outside_the_conversation_do_not_wait() -> None:
    order = RowOrdering()
    order.note_delivered(row("known", None))
    free = [
        row("a", "never", "progress"),
        row("b", "never", isSidechain=True),
        row("c", "known"),
        Record(b"{", "transcript"),
    ]
    assert [ready for record in free for ready in order.put(record)] == free


class Reading:
    def __init__(self, path: Path, *, ordered: bool = True) -> None:
        self.clock = ManualClock()
        self.delivered: list[Record] = []
        self.place: TranscriptPlace | None = None
        self.rows = TranscriptTail(SESSION, path, self.clock, self._give, ordered=ordered)

    async def _give(self, batch: list[Record], place: TranscriptPlace | None) -> None:
        self.delivered.extend(batch)
        self.place = place or self.place


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{SESSION}.jsonl"


def write(path: Path, *records: Record) -> None:
    with path.open("ab") as file:
        file.write(b"".join(record.raw + b"\n" for record in records))


async def test_a_follower_that_is_cancelled_while_it_reads_loses_no_row(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a CLI: its last row is read while its exit is noticed."""
    reading = Reading(path)
    reader, was_read, go_on = reading.rows._reader, asyncio.Event(), asyncio.Event()
    read = reader.read

    async def read_slowly() -> Any:
        page = await read()
        was_read.set()
        await go_on.wait()
        return page

    monkeypatch.setattr(reader, "read", read_slowly)
    write(path, row("a", None))
    following = asyncio.create_task(reading.rows.follow())
    await was_read.wait()
    following.cancel()
    await asyncio.wait({following})
    go_on.set()
    await reading.rows.finish()
    assert names(reading.delivered) == ["a"]


async def test_an_answer_written_before_its_prompt_is_delivered_after_it(path: Path) -> None:
    reading = Reading(path, ordered=False)
    assert not await reading.rows.look(), "there is no file yet"
    write(path, row("answer", "prompt", "assistant"))
    await reading.rows.look()
    assert reading.delivered == []
    write(path, row("prompt", None))
    await reading.rows.look()
    assert names(reading.delivered) == ["prompt", "answer"]


async def test_a_row_waits_for_its_parent_only_for_a_while(path: Path) -> None:
    reading = Reading(path, ordered=False)
    write(path, row("answer", "never", "assistant"))
    await reading.rows.look()
    await reading.clock.advance(5)
    await reading.rows.look()
    assert names(reading.delivered) == ["answer"]


async def test_finish_delivers_all_waiting_rows(path: Path) -> None:
    reading = Reading(path, ordered=False)
    write(path, row("answer", "never", "assistant"))
    with path.open("ab") as file:
        file.write(row("torn", None).raw)  # complete except for its newline
    await reading.rows.finish()
    assert sorted(names(reading.delivered)) == ["answer", "torn"]


async def test_existing_rows_are_skipped(path: Path) -> None:
    write(path, row("a", None), row("b", "a"))
    reading = Reading(path, ordered=False)
    reading.rows.skip_existing()
    write(path, row("c", "b"))
    await reading.rows.look()
    assert names(reading.delivered) == ["c"], "and what follows it need not wait"


@pytest.mark.parametrize("ordered", [True, False])
async def test_fork_delivers_only_its_own_rows(path: Path, tmp_path: Path, ordered: bool) -> None:
    parent = tmp_path / "parent.jsonl"
    write(parent, row("a", None), row("b", "a"))
    reading = Reading(path, ordered=ordered)
    reading.rows.skip_copies(parent)
    snapshot = Record(b'{"type":"mode","mode":"x"}', "transcript")
    write(path, snapshot, row("a", None), row("b", "a"), row("c", "b"), row("d", "c"))
    await reading.rows.look()
    assert names(reading.delivered) == ["c", "d"]


async def test_a_fork_that_writes_its_answer_before_the_copies_skips_all_copies(path: Path, tmp_path: Path) -> None:
    """2.1.140 to 2.1.200 do so."""
    parent = tmp_path / "parent.jsonl"
    write(parent, row("a", None), row("b", "a"))
    reading = Reading(path, ordered=False)
    reading.rows.skip_copies(parent)
    write(path, row("d", "c", "assistant"), row("a", None), row("b", "a"), row("c", "b"))
    await reading.rows.look()
    assert names(reading.delivered) == ["c", "d"]


async def test_the_tail_follows_into_another_file(path: Path, tmp_path: Path) -> None:
    reading = Reading(path)
    following = asyncio.create_task(reading.rows.follow())
    tui = FakeTui(path)
    tui.row("user", "one")
    await passing(reading.clock, lambda: len(reading.delivered) == 1)
    other = tmp_path / "other.jsonl"
    reading.rows.move(other)
    tui.transcript = other
    tui.row("user", "two")
    await passing(reading.clock, lambda: len(reading.delivered) == 2)
    following.cancel()
    await asyncio.wait({following})
