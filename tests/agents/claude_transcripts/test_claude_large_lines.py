"""Lines that are too large or badly damaged: the event loop keeps running, the rest is read, and nothing is lost."""

import asyncio
import json
import resource
import threading
from pathlib import Path

import pytest

from agents.claude_transcripts.test_claude_reading import everything, words
from agents.claude_transcripts.transcript_files import SESSION, Home, Writer, line
from fairlead.agents.claude.transcripts import file_reader, repair
from fairlead.agents.claude.transcripts.file_reader import FRAGMENT_BYTES
from fairlead.agents.claude.transcripts.reader import AT_ONCE, SessionReader
from fairlead.model.agents import Record
from fairlead.model.ids import SessionId
from fairlead.system.spill import SpillFiles

ID = SessionId(SESSION)
ROW = line(Writer("other").prompt("x" * 1000))[:-1]
HOSTILE = {
    "braces": b"{",
    "nested": b'{"a":',
    "objects": b'{"a":1}',
    "no text": b"\xff",
    "halves": b'"\\ud83d',
    "rows in rows": ROW[:-10] + ROW,
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def read_around(home: Home, middle: bytes, spill: Path) -> list[Record]:
    """Read a file with `middle` between two good rows; return the records between them."""
    write = Writer()
    path = home.write(line(write.prompt("before")) + middle + b"\n" + line(write.prompt("after")))
    reader = SessionReader(ID, path, spill=lambda: SpillFiles(spill, SESSION))
    found = [record for rows in await everything(reader) for record in rows.records]
    assert words([found[0], found[-1]]) == ["before", "after"]
    return found[1:-1]


def kept_in(found: list[Record], spill: Path) -> bytes:
    """Return all stored bytes, whether in the log or in spill files."""
    kept = b""
    for record in found:
        row = json.loads(record.raw) if record.raw.startswith(b'{"type":"fairlead_oversize"') else {}
        kept += (spill / row["subtype"]).read_bytes() if row else record.raw
    return kept


async def test_the_event_loop_runs_while_a_large_line_is_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    went_on = threading.Event()
    read_line = repair.read_line

    def waiting(data: bytes) -> repair.TranscriptLine:
        if len(data) > AT_ONCE:
            assert went_on.wait(30), "the loop was held"
        return read_line(data)

    monkeypatch.setattr(file_reader, "read_line", waiting)
    write = Writer()
    path = home.write([write.prompt("x" * (AT_ONCE + 1))])
    following = asyncio.ensure_future(everything(SessionReader(ID, path)))
    for _ in range(3):
        await asyncio.sleep(0)
    went_on.set()
    (rows,) = await following
    assert len(rows.records) == 1


async def test_a_large_line_that_arrives_in_small_pieces_is_read_outside_the_event_loop(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is small, but the line that the last piece completes is large."""
    threads: set[int] = set()
    read_line = repair.read_line

    def noting(data: bytes) -> repair.TranscriptLine:
        threads.add(threading.get_ident())
        return read_line(data)

    monkeypatch.setattr(file_reader, "read_line", noting)
    data = line(Writer().prompt("x" * (2 * AT_ONCE)))
    path = home.write(b"")
    reader = SessionReader(ID, path)
    for start in range(0, len(data), 4096):
        home.write(data[start : start + 4096])
        found = await everything(reader)
    assert len(found) == 1
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_a_hostile_line_is_kept_completely_and_the_rest_is_read(home: Home, kind: str, tmp_path: Path) -> None:
    size = FRAGMENT_BYTES // 4 if kind == "rows in rows" else FRAGMENT_BYTES + 1000
    middle = HOSTILE[kind] * (size // len(HOSTILE[kind]))
    found = await read_around(home, middle, tmp_path / "oversize")
    assert kept_in(found, tmp_path / "oversize") == middle
    assert all(len(record.raw) <= FRAGMENT_BYTES for record in found)


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_a_hostile_line_of_20_mb(home: Home, kind: str, tmp_path: Path) -> None:
    middle = HOSTILE[kind] * ((20 << 20) // len(HOSTILE[kind]))
    found = await read_around(home, middle, tmp_path / "oversize")
    assert kept_in(found, tmp_path / "oversize") == middle


@pytest.mark.long
async def test_a_line_of_100_mb(home: Home, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with home.path().open("ab") as file:
        file.write(line(Writer().prompt("before")) + b'{"type":"user","sessionId":"x","message":"')
        for _ in range(100):
            file.write(b"y" * (1 << 20))
        file.write(b'"}\n' + line(Writer("x").prompt("after")))
    reader = SessionReader(ID, home.path(), spill=lambda: SpillFiles(tmp_path / "oversize", SESSION))
    found = [record for rows in await everything(reader) for record in rows.records]
    stand_in = json.loads(found[1].raw)
    assert (len(found), stand_in["type"]) == (3, "fairlead_oversize")
    assert (tmp_path / "oversize" / stand_in["subtype"]).stat().st_size == stand_in["size"] > 100 << 20
    # Memory holds the record limit once, and joins it once when it is reached: never the whole line.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 160 << 10
