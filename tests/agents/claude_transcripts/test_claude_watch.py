"""Changes are reported as they happen: appends, new files and folders, renames, subagents; by inotify and polling."""

import asyncio
import contextlib
import errno
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from asyncinotify import Inotify

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Home, Writer, conversation, lines
from fairlead.agents.claude.transcripts import watcher as watching
from fairlead.agents.claude.transcripts.legacy_subagents import LegacySubagents
from fairlead.agents.claude.transcripts.watcher import watch
from fairlead.model.ids import SessionId
from fairlead.system.clock import Clock, SystemClock
from fairlead_testing.clock import ManualClock
from patience import PATIENCE


def changes_in(homes: list[Path], clock: Clock) -> AsyncGenerator[frozenset[SessionId], None]:
    return watch(homes, clock, LegacySubagents(), lambda session, path: None)


class ReportedChanges:
    """Collects the changes that a watcher reports."""

    def __init__(self) -> None:
        self.sessions: set[SessionId] = set()
        self.news = asyncio.Event()

    async def gather(self, changes: AsyncIterator[frozenset[SessionId]], begun: asyncio.Event) -> None:
        async for portion in changes:
            begun.set()
            self.sessions |= portion
            self.news.set()

    async def of(self, *sessions: str) -> None:
        """Wait until exactly these sessions were reported, then clear the set."""
        while not {*sessions} <= self.sessions:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), PATIENCE)
        assert self.sessions == {*sessions}
        self.sessions = set()


@contextlib.asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[ReportedChanges]:
    reported, begun = ReportedChanges(), asyncio.Event()
    task = asyncio.create_task(reported.gather(changes_in([folder], SystemClock()), begun))
    try:
        await asyncio.wait_for(begun.wait(), PATIENCE)
        yield reported
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_appends_new_files_and_new_projects(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(conversation())
    async with watched(home.folder) as reported:
        home.write([Writer().text("more")])
        await reported.of(SESSION)
        project = home.folder / "projects" / "new"
        project.mkdir()
        third = SESSION.replace("1111", "3333")
        (project / f"{third}.jsonl").write_bytes(lines(conversation(session=third)))
        await reported.of(third)
        (project / "notes.txt").write_text("no session")
        home.write([Writer().text("more")])
        await reported.of(SESSION)


async def test_a_home_that_appears_later(tmp_path: Path) -> None:
    async with watched(tmp_path / "later" / ".claude") as reported:
        (tmp_path / "later").mkdir()
        home = Home(tmp_path / "later")
        home.write(conversation())
        await reported.of(SESSION)
        home.write([Writer().text("more")])
        await reported.of(SESSION)


async def test_renames_and_removals(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(conversation())
    async with watched(home.folder) as reported:
        home.path().rename(home.path(OTHER))
        await reported.of(SESSION, OTHER)
        home.project.rename(home.project.with_name("renamed"))
        await reported.of(OTHER)
        file = home.project.with_name("renamed") / f"{OTHER}.jsonl"
        with file.open("ab") as opened:
            opened.write(b"\n")
        await reported.of(OTHER)
        file.unlink()
        await reported.of(OTHER)
        shutil.rmtree(home.folder)
        Home(tmp_path).write(conversation())
        await reported.of(SESSION)


async def test_files_of_subagents_count_for_their_session(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write = Writer()
    home.write(conversation())
    async with watched(home.folder) as reported:
        home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
        await reported.of(SESSION)
        home.subagent("a1", [write.text("deep", "a", "a1")])
        await reported.of(SESSION)
        below = home.path().with_suffix("") / "subagents" / "team"
        below.mkdir()
        (below / "agent-b.jsonl").write_bytes(lines([write.text("deep", "b", "b1")]))
        await reported.of(SESSION)


async def test_existing_subagents_are_watched_once_their_session_is_active(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write = Writer()
    home.write(conversation())
    home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
    async with watched(home.folder) as reported:
        home.write([write.text("more")])
        await reported.of(SESSION)
        home.subagent("a1", [write.text("deep", "a", "a1")])
        await reported.of(SESSION)


async def test_files_of_subagents_next_to_their_session_count_for_it(tmp_path: Path) -> None:
    """Older versions wrote them there: only their content identifies their session."""
    home = Home(tmp_path)
    write = Writer()
    home.write(conversation())
    async with watched(home.folder) as reported:
        data = lines([write.prompt("job", "a", "a1"), write.text("deep", "a", "a1")])
        home.write_in_project("a1", data[:40])
        home.write_in_project("a1", data[40:])
        await reported.of(SESSION)
        home.write_in_project("b2", b"no row\n")
        home.write(conversation(session=OTHER), OTHER)
        await reported.of(OTHER)


async def test_symlink_loops_do_not_divert_events(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write = Writer()
    home.write(conversation())
    home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
    root = home.folder / "projects"
    (root / "again").symlink_to(root)
    (root / "same").symlink_to(home.project)
    below = home.path().with_suffix("") / "subagents"
    for name in ("one", "two"):
        (below / name).symlink_to(below)
    async with watched(home.folder) as reported:
        home.write([write.text("more")])
        await reported.of(SESSION)
        home.subagent("a1", [write.text("deep", "a", "a1")])
        await reported.of(SESSION)
        (root / "new").mkdir()
        (root / "new" / f"{OTHER}.jsonl").write_bytes(lines(conversation(session=OTHER)))
        await reported.of(OTHER)


async def test_a_file_in_place_of_the_folder_is_waited_for_until_replaced(tmp_path: Path) -> None:
    root = tmp_path / ".claude" / "projects"
    root.parent.mkdir()
    root.write_text("no folder")
    async with watched(tmp_path / ".claude") as reported:
        root.unlink()
        shutil.rmtree(tmp_path / ".claude")
        Home(tmp_path).write(conversation())
        await reported.of(SESSION)


async def test_without_inotify_watches_files_are_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(watching, "_Folders", none_left)
    home = Home(tmp_path)
    home.write(conversation())
    clock = ManualClock()
    changes = changes_in([home.folder], clock)
    assert await anext(changes) == frozenset()
    home.write([Writer().text("more")])
    home.subagent("a1", [], "toolu_a")
    home.write(conversation(session=OTHER), OTHER)
    following = asyncio.ensure_future(anext(changes))
    while not following.done():
        await clock.advance(watching.POLL_SECONDS)
        await asyncio.sleep(0.001)
    assert following.result() == {SESSION, OTHER}
    home.path().unlink()
    following = asyncio.ensure_future(anext(changes))
    while not following.done():
        await clock.advance(watching.POLL_SECONDS)
        await asyncio.sleep(0.001)
    assert following.result() == {SESSION}
    home.write_in_project("a2", [Writer(OTHER).prompt("job", "a", "a2")])
    following = asyncio.ensure_future(anext(changes))
    while not following.done():
        await clock.advance(watching.POLL_SECONDS)
        await asyncio.sleep(0.001)
    assert following.result() == {OTHER}
    await changes.aclose()


async def test_changes_dropped_by_the_kernel_are_found_by_a_scan(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(conversation())
    with watching._Folders([home.folder / "projects"], LegacySubagents(), lambda session, path: None) as folders:
        assert folders.changed == set()
        folders._overflow()
        assert folders.take() == {SESSION}


async def test_without_system_support_for_watches_files_are_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agents.claude.transcripts.watcher.sys.platform", "darwin")
    home = Home(tmp_path)
    home.write(conversation())
    clock = ManualClock()
    changes = changes_in([home.folder], clock)
    assert await anext(changes) == frozenset()
    home.write([Writer().text("more")])
    following = asyncio.ensure_future(anext(changes))
    while not following.done():
        await clock.advance(watching.POLL_SECONDS)
        await asyncio.sleep(0.001)
    assert following.result() == {SESSION}
    await changes.aclose()


@pytest.mark.linux
async def test_a_watch_that_fails_completely_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError(errno.EPERM, "not allowed")

    monkeypatch.setattr(watching, "Inotify", refused)
    with pytest.raises(OSError, match="not allowed"):
        await anext(changes_in([tmp_path], SystemClock()))


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EACCES])
async def test_a_folder_that_cannot_be_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: int) -> None:
    """If no watch is available, all files are polled; an unreadable folder does not affect the others."""
    home = Home(tmp_path)
    home.write(conversation())
    (home.project.parent / "closed").mkdir()
    real = Inotify.add_watch

    def add(inotify: Any, path: Path, mask: Any) -> Any:
        if path.name == "closed":
            raise OSError(problem, "no")
        return real(inotify, path, mask)

    monkeypatch.setattr(Inotify, "add_watch", add)
    changes = changes_in([home.folder], ManualClock() if problem == errno.ENOSPC else SystemClock())
    assert await anext(changes) == frozenset()
    if problem == errno.EACCES:
        home.write([Writer().text("more")])
        assert await asyncio.wait_for(anext(changes), PATIENCE) == {SESSION}
    await changes.aclose()


async def test_folders_of_subagents_that_disappear_and_reappear(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write = Writer()
    home.write(conversation())
    async with watched(home.folder) as reported:
        home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
        await reported.of(SESSION)
        shutil.rmtree(home.path().with_suffix(""))
        await reported.of(SESSION)
        home.subagent("a1", [write.prompt("job", "a", "a1")], "toolu_a")
        await reported.of(SESSION)
        home.subagent("a1", [write.text("deep", "a", "a1")])
        await reported.of(SESSION)


async def test_projects_and_their_parent_folder_disappear_and_reappear(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(conversation())
    async with watched(home.folder) as reported:
        (home.project / "notes.txt").write_text("of no interest")
        home.project.parent.rename(home.folder / "away")
        home.project.mkdir(parents=True)
        home.write(conversation())
        await reported.of(SESSION)
