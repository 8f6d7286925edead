"""The law of the watcher: however a recorded session is written (in pieces, in any order of its files, truncated and
rewritten, replaced, moved, with gateways that crash in between), its log contains the same events."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.claude_transcripts.transcript_files import SESSION
from fairlead.model import events as ev
from fairlead.model.store import TRANSCRIPT
from laws.test_transcript_laws import RECORDED, pieces, recorded
from sessions.test_transcripts import running
from sessions.transcript_harness import FOUND, TranscriptHarness

STEPS = ("write", "write", "write", "replace", "truncate", "rename", "restart")


class TranscriptWriter:
    """Writes a session's files below a home, and disturbs the written files."""

    def __init__(self, harness: TranscriptHarness, rng: random.Random) -> None:
        self._harness = harness
        self._rng = rng
        self._moves = 0

    @property
    def _folder(self) -> Path:
        return self._harness.home.project

    def write(self, name: str, piece: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(piece)

    def replace(self) -> None:
        """Put another file with the same content under each name, as an editor or a copy does."""
        for path in self._some():
            draft = path.with_suffix(".draft")
            draft.write_bytes(path.read_bytes())
            os.replace(draft, path)

    def truncate(self) -> list[tuple[Path, bytes]]:
        """Truncate some files; return the bytes that are now missing."""
        missing = []
        for path in self._some():
            data = path.read_bytes()
            cut = self._rng.randrange(len(data) + 1)
            os.truncate(path, cut)
            missing.append((path, data[cut:]))
        return missing

    def rename(self) -> None:
        """Rename the whole folder of the project."""
        self._moves += 1
        self._harness.home.project = self._folder.rename(self._folder.with_name(f"-moved-{self._moves}"))

    def _some(self) -> list[Path]:
        files = sorted(path for path in self._folder.rglob("*.jsonl") if path.is_file())
        return self._rng.sample(files, self._rng.randrange(len(files) + 1))


async def look(harness: TranscriptHarness) -> None:
    """Do what the watcher does when it is notified of a change."""
    summary = await harness.store.summary(FOUND)
    if summary is None:
        await harness.importer.listing.now(FOUND)
        summary = await harness.store.summary(FOUND)
    if summary is not None and summary.state == TRANSCRIPT:
        await harness.view()
    elif summary is not None:
        await harness.importer.follow(FOUND)


async def logged_events(harness: TranscriptHarness) -> list[Any]:
    """All events, sorted: the time at which each was noticed depends on the order of the writes."""
    await look(harness)
    await harness.importer.turn_timeouts.settle(FOUND)
    events = await harness.log(FOUND)
    assert len({event.id for event in events}) == len(events)
    kept = (ev.RecordStored, ev.SessionOpened, ev.SessionResumed)
    compared = [msgspec.structs.replace(event, at=0) for event in events if not isinstance(event, kept)]
    return sorted(ev.encode(event).decode() for event in compared)


async def whole(folder: Path, files: dict[str, bytes]) -> list[Any]:
    async with running(folder, watch=False) as harness:
        for name, data in files.items():
            TranscriptWriter(harness, random.Random(0)).write(name, data)
        await harness.start()
        return await logged_events(harness)


async def in_steps(folder: Path, files: dict[str, bytes], rng: random.Random, wanted: list[str]) -> list[Any]:
    writes = pieces(files, rng)
    async with running(folder, watch=False) as harness:
        writer = TranscriptWriter(harness, rng)
        writer.write(f"{SESSION}.jsonl", b"")
        await harness.start()
        while writes:
            step = wanted.pop() if wanted else "write"
            if step == "write":
                writer.write(*writes.pop(0))
            elif step == "replace":
                writer.replace()
            elif step == "truncate":
                for path, rest in writer.truncate():
                    await look(harness)
                    with path.open("ab") as file:
                        file.write(rest)
            elif step == "rename":
                writer.rename()
            else:
                await harness.crash()
                await harness.start()
            await look(harness)
        return await logged_events(harness)


@pytest.mark.parametrize("case", RECORDED)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False), steps=st.lists(st.sampled_from(STEPS), max_size=16))
def test_the_log_is_the_same_however_a_session_is_written(
    case: str, tmp_path_factory: pytest.TempPathFactory, rng: random.Random, steps: list[str]
) -> None:
    files = recorded(case)
    expected = asyncio.run(whole(tmp_path_factory.mktemp("whole"), files))
    assert len(expected) > 3
    assert asyncio.run(in_steps(tmp_path_factory.mktemp("steps"), files, rng, list(steps))) == expected
