"""The files of one session as records: offsets, merging, damage, and each byte read once."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Home, Row, Writer, line, lines
from fairlead.agents.claude.transcripts.file_reader import last_rows
from fairlead.agents.claude.transcripts.reader import ReaderOffset, SessionReader
from fairlead.agents.links.framing import LineSplitter
from fairlead.model.agents import Record
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import TranscriptPage, TranscriptProblem
from fairlead.system.spill import SpillFiles

ID = SessionId(SESSION)


async def everything(reader: SessionReader) -> list[TranscriptPage]:
    found = []
    while (rows := await reader.read()) is not None:
        found.append(rows)
    return found


async def records(reader: SessionReader) -> list[Record]:
    return [record for rows in await everything(reader) for record in rows.records]


def words(found: list[Record]) -> list[str]:
    """Return a short text for each row."""
    texts = []
    for record in found:
        row = json.loads(record.raw)
        content = row.get("message", {}).get("content", row.get("toolUseId", row["type"]))
        texts.append(content if isinstance(content, str) else content[0].get("text", content[0].get("id", "")))
    return texts


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_rows_come_in_order_with_their_times(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt("a"), {"type": "tag", "tag": "t"}, write.prompt("b")])
    found = await records(SessionReader(ID, path))
    assert words(found) == ["a", "tag", "b"]
    assert found[0].at == found[1].at < found[2].at
    assert {record.origin for record in found} == {"transcript"}


async def test_a_partial_line_waits_for_its_rest_and_no_byte_is_read_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Writer()
    data = lines([write.prompt("ä" * 500) for _ in range(20)])
    path = home.write(b"")
    reader = SessionReader(ID, path)
    read: list[tuple[int, int]] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        found = pread(descriptor, size, offset)
        if size > 1000:
            read.append((offset, len(found)))
        return found

    monkeypatch.setattr("os.pread", counted)
    found: list[Record] = []
    for start in range(0, len(data), 333):
        home.write(data[start : start + 333])
        found.extend(await records(reader))
    assert b"".join(record.raw + b"\n" for record in found) == data
    got = [(offset, size) for offset, size in read if size]
    assert sum(size for _, size in got) == len(data)
    assert all(offset == sum(size for _, size in got[:number]) for number, (offset, _) in enumerate(got))


async def test_an_offset_resumes_where_it_stopped(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt(str(number)) for number in range(5)])
    (rows,) = await everything(SessionReader(ID, path))
    assert (rows.read, rows.total) == (path.stat().st_size, path.stat().st_size)
    home.write([write.prompt("new")])
    assert words(await records(SessionReader(ID, path, rows.place))) == ["new"]


async def test_batches_are_small_and_each_has_its_own_offset(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.agents.claude.transcripts.reader.BATCH_ROWS", 7)
    write = Writer()
    path = home.write([write.prompt(str(number)) for number in range(30)])
    batches = await everything(SessionReader(ID, path))
    assert [len(rows.records) for rows in batches] == [7, 7, 7, 7, 2]
    for number, rows in enumerate(batches):
        rest = words(await records(SessionReader(ID, path, rows.place)))
        assert rest == [str(n) for n in range(min(30, 7 * (number + 1)), 30)]


async def test_files_are_merged_by_the_times_of_their_rows(home: Home) -> None:
    write = Writer()
    rows = [write.prompt("1"), write.prompt("2", "a", "x"), write.prompt("3", "b", "y"), write.prompt("4")]
    rows += [write.prompt("5", "a", "x"), write.prompt("6"), write.prompt("7", "b", "y")]
    path = home.write([row for row in rows if "agentId" not in row])
    for name in "xy":
        home.subagent(name, [row for row in rows if row.get("agentId") == name])
    assert words(await records(SessionReader(ID, path))) == [str(number) for number in range(1, 8)]


async def test_the_link_of_a_subagent_is_emitted_once_before_its_rows(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt("go")])
    home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
    reader = SessionReader(ID, path)
    batches = await everything(reader)
    found = [record for rows in batches for record in rows.records]
    assert words(found) == ["go", "toolu_a", "job"]
    assert found[1].origin == "gateway"
    home.subagent("a1", [write.prompt("more", "a", "a1")])
    assert words(await records(SessionReader(ID, path, batches[-1].place))) == ["more"]


async def test_a_late_link_is_emitted_when_it_arrives(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt("go")])
    file = home.subagent("a1", [write.prompt("job", "a", "a1")])
    reader = SessionReader(ID, path)
    assert words(await records(reader)) == ["go", "job"]
    file.with_suffix(".meta.json").write_text("{half")
    assert await records(reader) == []
    file.with_suffix(".meta.json").write_text('{"toolUseId":"toolu_a"}')
    assert words(await records(reader)) == ["toolu_a"]


async def test_subagents_of_subagents_are_found_below(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt("go")])
    below = path.with_suffix("") / "subagents" / "team" / "one"
    below.mkdir(parents=True)
    (below / "agent-b2.jsonl").write_bytes(lines([write.prompt("deep", "b", "b2")]))
    (below / "journal.jsonl").write_bytes(b"{}\n")
    reader = SessionReader(ID, path)
    (rows,) = await everything(reader)
    assert words(list(rows.records)) == ["go", "deep"]
    assert set(msgspec.msgpack.decode(rows.place, type=ReaderOffset).files) == {"", "team/one/agent-b2.jsonl"}


async def test_subagent_files_next_to_the_session_are_found_by_their_content(home: Home) -> None:
    write, other = Writer(), Writer(OTHER)
    home.write_in_project("x", [write.prompt("1", "a", "x")])
    home.write_in_project("y", [other.prompt("not ours", "b", "y")])
    path = home.write([write.prompt("2")])
    reader = SessionReader(ID, path)
    batches = await everything(reader)
    assert words([record for rows in batches for record in rows.records]) == ["1", "2"]
    late = line(write.prompt("3", "c", "z"))
    home.write_in_project("z", late[:20])
    assert await records(reader) == []
    home.write_in_project("z", late[20:])
    home.write_in_project("x", [write.prompt("4", "a", "x")])
    assert words(await records(reader)) == ["3", "4"]
    assert words(await records(SessionReader(ID, path, batches[-1].place))) == ["3", "4"]
    reader.to_end()
    home.write_in_project("x", [write.prompt("5", "a", "x")])
    assert words(await records(reader)) == ["5"]


async def test_a_second_file_of_a_session_is_read_too(home: Home, tmp_path: Path) -> None:
    write = Writer()
    rows = [write.prompt(str(number)) for number in range(3)]
    path = home.write(rows)
    where: list[Path] = [path]
    reader = SessionReader(ID, path, where=lambda: where[0])
    (first,) = await everything(reader)
    assert not first.again
    copy = tmp_path / path.name
    copy.write_bytes(lines([*rows, write.prompt("there")]))
    where[0] = copy
    (again,) = await everything(reader)
    assert (again.again, words(list(again.records))) == (True, ["0", "1", "2", "there"])
    with copy.open("ab") as file:
        file.write(line(write.prompt("more")))
    home.write([write.prompt("here")])
    (rest,) = await everything(reader)
    assert (rest.again, words(list(rest.records))) == (False, ["more", "here"])


async def test_a_truncated_or_replaced_file_is_read_again_and_reported(home: Home, tmp_path: Path) -> None:
    write = Writer()
    rows = [write.prompt(str(number)) for number in range(5)]
    path = home.write(rows)
    reader = SessionReader(ID, path)
    await everything(reader)
    path.write_bytes(lines(rows[:2]))
    (again,) = await everything(reader)
    assert (again.again, words(list(again.records))) == (True, ["0", "1"])
    other = tmp_path / "other"
    other.write_bytes(lines([write.prompt("other") for _ in range(9)]))
    os.replace(other, path)
    assert len(await records(SessionReader(ID, path, again.place))) == 9


async def test_reading_continues_in_a_replaced_file_with_the_same_content(home: Home, tmp_path: Path) -> None:
    write = Writer()
    path = home.write([write.prompt("one")])
    reader = SessionReader(ID, path)
    await everything(reader)
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes() + line(write.prompt("two"))[:30])
    os.replace(copy, path)
    assert await records(reader) == []
    copy.write_bytes(path.read_bytes() + b"")
    os.replace(copy, path)
    home.write(b"x\n")
    (rows,) = await everything(reader)
    assert not rows.again
    assert rows.problems == (TranscriptProblem("garbage", str(path)),)


async def test_a_file_that_is_gone_is_not_found(home: Home) -> None:
    path = home.write([Writer().prompt("one")])
    reader = SessionReader(ID, path)
    await everything(reader)
    path.unlink()
    with pytest.raises(NotFound):
        await reader.read()


@pytest.mark.parametrize("whole", [True, False])
async def test_the_last_line_without_a_newline(home: Home, whole: bool) -> None:
    write = Writer()
    last = line(write.prompt("last"))[:-1]
    path = home.write(line(write.prompt("first")) + (last if whole else last[:-5]))
    reader = SessionReader(ID, path)
    assert words(await records(reader)) == ["first"]
    rows = await reader.finish()
    assert rows is not None
    assert [record.raw for record in rows.records] == [last if whole else last[:-5]]
    assert [problem.kind for problem in rows.problems] == ([] if whole else ["torn"])
    home.write(b"\n" if whole else last[-5:] + b"\n")
    assert words(await records(SessionReader(ID, path, rows.place))) == ([] if whole else ["last"])
    assert words(await records(reader)) == ([] if whole else ["last"])


async def test_a_line_above_the_limit_is_spilled_and_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as for a line of 100 MB, with smaller numbers."""
    monkeypatch.setattr(
        "fairlead.agents.claude.transcripts.file_reader.framing.LineSplitter",
        lambda spill: LineSplitter(10_000, 1_000, spill=spill),
    )
    write = Writer()
    long = line(write.prompt("x" * 300_000))
    path = home.write(line(write.prompt("before")) + long + line(write.prompt("after")))
    reader = SessionReader(ID, path, spill=lambda: SpillFiles(tmp_path / "oversize", SESSION))
    (rows,) = await everything(reader)
    stand_in = json.loads(rows.records[1].raw)
    assert (stand_in["type"], stand_in["size"]) == ("fairlead_oversize", len(long) - 1)
    assert (tmp_path / "oversize" / stand_in["subtype"]).read_bytes() == long[:-1]
    assert [problem.kind for problem in rows.problems] == ["oversize"]
    assert words([rows.records[0], rows.records[2]]) == ["before", "after"]


async def test_after_a_known_prompt(home: Home) -> None:
    write = Writer()
    first, second = write.prompt("one"), write.prompt("two")
    path = home.write([first, write.text("a"), second, write.text("b")])
    home.subagent("a1", [write.prompt("old", "a", "a1")], "toolu_a")
    assert words(await records(SessionReader(ID, path, after=second["uuid"]))) == ["b"]
    assert words(await records(SessionReader(ID, path, after="00000000-0000-4000-8000-000000000000"))) == []


async def test_to_the_end(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt("one")])
    reader = SessionReader(ID, path)
    place = reader.to_end()
    home.write([write.prompt("two")])
    assert words(await records(reader)) == ["two"]
    assert words(await records(SessionReader(ID, path, place))) == ["two"]


def rows_of(count: int) -> list[Row]:
    write = Writer()
    return [write.prompt(f"{number} " + "x" * 200) for number in range(count)]


@pytest.mark.parametrize("count", [3, 200, 20_000])
def test_the_last_rows_cost_the_same_whatever_the_size(home: Home, count: int, monkeypatch: Any) -> None:
    path = home.write(rows_of(count))
    read = 0
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        found = pread(descriptor, size, offset)
        read += len(found)
        return found

    monkeypatch.setattr("os.pread", counted)
    found = last_rows(path, 50)
    assert [word.split()[0] for word in words(found)] == [str(n) for n in range(max(0, count - 50), count)]
    assert read <= 64 << 10


def test_a_preview_of_huge_rows_is_bounded(home: Home) -> None:
    write = Writer()
    path = home.write([write.prompt("x" * (3 << 20)) for _ in range(5)])
    assert len(last_rows(path, 50)) == 1
