"""Listing session files: each bad entry is reported as a problem, and only the ends of files are read."""

import os
from pathlib import Path
from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Home, Writer, conversation, lines
from fairlead.agents.claude.transcripts import index
from fairlead.agents.claude.transcripts.source import ClaudeTranscripts, default_homes
from fairlead.agents.claude.transcripts.summary import HEAD, TAIL
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import FileMark, FoundTranscript, TranscriptGone, TranscriptProblem
from fairlead_testing.clock import ManualClock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def source(home: Home) -> ClaudeTranscripts:
    return ClaudeTranscripts([home.folder], ManualClock())


async def scanned(
    home: Home, known: dict[str, FileMark] | None = None
) -> list[FoundTranscript | TranscriptGone | TranscriptProblem]:
    return [item async for portion in source(home).scan(known or {}) for item in portion]


def test_homes_come_from_the_agents_and_the_environment() -> None:
    assert default_homes({"HOME": "/h"}, "") == [Path("/h/.claude")]
    assert default_homes({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}, "/agents") == [Path("/agents/.claude"), Path("/c")]


async def test_only_files_named_by_a_session_are_sessions(home: Home) -> None:
    home.write(conversation())
    for name in ("agent-abc.jsonl", "notes.jsonl", f"{OTHER}.json", "..jsonl", f"{SESSION.replace('1', 'A')}.jsonl"):
        (home.project / name).write_bytes(lines(conversation()))
    (home.project / SESSION.replace("1", "4")).with_suffix(".jsonl").mkdir()
    assert [item.session for item in await scanned(home) if isinstance(item, FoundTranscript)] == [SESSION]


async def test_known_files_are_not_opened_and_missing_files_are_reported(home: Home) -> None:
    path = home.write(conversation())
    (found,) = await scanned(home)
    assert isinstance(found, FoundTranscript)
    assert found.mark == index.mark_of(path)
    assert await scanned(home, {SESSION: found.mark}) == []
    assert await scanned(home, {SESSION: found.mark, OTHER: found.mark}) == [TranscriptGone(SessionId(OTHER))]
    home.write([Writer().text("more")])
    assert len(await scanned(home, {SESSION: found.mark})) == 1


async def test_bad_entries_are_reported_and_the_rest_is_scanned(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write(conversation())
    loop = home.project / f"{OTHER}.jsonl"
    loop.symlink_to(loop)
    (home.folder / "projects" / "again").symlink_to(home.folder / "projects")
    denied = home.folder / "projects" / "denied"
    denied.mkdir()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path) == denied:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    found = await scanned(home)
    assert [item.session for item in found if isinstance(item, FoundTranscript)] == [SESSION]
    problems = {Path(item.path).name: item.detail for item in found if isinstance(item, TranscriptProblem)}
    assert problems["denied"] == "Permission denied"
    assert loop.name in problems


async def test_a_file_in_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "projects").write_text("no folder")
    home = Home(tmp_path)
    home.write(conversation())
    transcripts = ClaudeTranscripts([tmp_path, home.folder], ManualClock())
    found = [item async for portion in transcripts.scan({}) for item in portion]
    (problem,) = [item for item in found if isinstance(item, TranscriptProblem)]
    assert (problem.kind, problem.path) == ("unreadable", str(tmp_path / "projects"))
    assert [item.session for item in found if isinstance(item, FoundTranscript)] == [SESSION]


async def test_a_missing_home_is_empty(tmp_path: Path) -> None:
    transcripts = ClaudeTranscripts([tmp_path / "none"], ManualClock())
    assert [item async for item in transcripts.scan({})] == []
    assert await transcripts.look(SessionId(SESSION)) is None


def test_the_bytes_read_do_not_depend_on_the_size(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Writer()
    path = home.write([write.prompt("first"), *(write.text("x" * 3000) for _ in range(3000))])
    read = 0
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        found = pread(descriptor, size, offset)
        read += len(found)
        return found

    monkeypatch.setattr("os.pread", counted)
    found = index.summarize_file(path)
    assert isinstance(found, FoundTranscript)
    assert (found.first_prompt, found.useful) == ("first", True)
    assert path.stat().st_size > 9_000_000
    assert read == HEAD + TAIL


def test_a_named_file_gets_its_id_from_its_rows(tmp_path: Path) -> None:
    saved = tmp_path / "saved.jsonl"
    saved.write_bytes(lines(conversation()))
    found = index.summarize_file(saved)
    assert isinstance(found, FoundTranscript)
    assert found.session == SESSION
    saved.write_bytes(lines(conversation(session="../../../etc/passwd")))
    assert index.summarize_file(saved) == TranscriptProblem("bad id", str(saved), detail="../../../etc/passwd")
    assert isinstance(index.summarize_file(tmp_path), TranscriptProblem)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert index.summarize_file(fifo) == TranscriptProblem("unreadable", str(fifo), detail="not a file")


async def test_a_file_that_moved_is_found_again(home: Home) -> None:
    path = home.write(conversation())
    transcripts = source(home)
    assert [item async for item in transcripts.scan({})]
    moved = home.folder / "projects" / "-elsewhere"
    moved.mkdir()
    path.rename(moved / path.name)
    found = await transcripts.look(SessionId(SESSION))
    assert found is not None
    assert found.mark.path == str(moved / path.name)
