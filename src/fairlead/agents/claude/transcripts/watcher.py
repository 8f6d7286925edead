"""Reports the sessions whose files change, as it happens: one inotify instance on folders, never one watch per file.

It watches the project folders, which contain the session files, and the subagent folders of sessions that have been
active since the start. An idle file costs nothing. Where the system has no inotify, or grants no more watches, files
are polled every two seconds instead.
"""

import asyncio
import contextlib
import errno
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.agents.claude.transcripts.index import mark_of, project_folders, projects, session_files, session_of
from fairlead.agents.claude.transcripts.legacy_subagents import LegacySubagents, is_subagents
from fairlead.agents.claude.transcripts.reader import subagent_files, subagents_folder
from fairlead.model.ids import SessionId, is_uuid
from fairlead.model.transcripts import FileMark
from fairlead.system.clock import Clock
from fairlead.system.platform import PORTABLE

if TYPE_CHECKING or sys.platform == "linux":
    from asyncinotify import Event, Inotify, Mask

logger = logging.getLogger("fairlead.transcripts")

POLL_SECONDS = 2.0

Written = Callable[[SessionId, Path], object]
"""Called with each file of a session that was written to."""


async def watch(
    homes: Sequence[Path], clock: Clock, legacy: LegacySubagents, written: Written
) -> AsyncGenerator[frozenset[SessionId], None]:
    """Yield the sessions whose files change. The first batch is empty: watching has begun."""
    roots = projects(homes)
    if sys.platform == "linux" and not PORTABLE:
        try:
            async for portion in _by_inotify(roots, legacy, written):
                yield portion
            return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EMFILE):
                raise
            logger.warning("no inotify watches are left: transcripts are polled every %g s", POLL_SECONDS)
    async for portion in _by_polling(roots, legacy, clock):
        yield portion


async def _by_inotify(
    roots: list[Path], legacy: LegacySubagents, written: Written
) -> AsyncIterator[frozenset[SessionId]]:
    with _Folders(roots, legacy, written) as folders:
        yield frozenset()
        reading = asyncio.create_task(folders.read())
        try:
            while not reading.done():
                woken = asyncio.create_task(folders.has_changes.wait())
                try:
                    await asyncio.wait({woken, reading}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
                if folders.changed:
                    yield folders.take()
            reading.result()
        finally:
            reading.cancel()
            await asyncio.wait({reading})


async def _by_polling(roots: list[Path], legacy: LegacySubagents, clock: Clock) -> AsyncIterator[frozenset[SessionId]]:
    before = await asyncio.to_thread(_marks, roots, legacy)
    yield frozenset()
    while True:
        await clock.sleep(POLL_SECONDS)
        now = await asyncio.to_thread(_marks, roots, legacy)
        changed = frozenset(session for session in {**before, **now} if before.get(session) != now.get(session))
        before = now
        if changed:
            yield changed


class _Folders:
    """The watched folders, and the sessions that changed since `take`."""

    def __init__(self, roots: list[Path], legacy: LegacySubagents, written: Written) -> None:
        self._roots = roots
        self._legacy = legacy
        self._written = written
        self._inotify = Inotify()
        self._watched: dict[Path, object] = {}
        self._handlers: dict[object, Callable[[Event], None]] = {}
        self._folders: dict[tuple[int, int], Path] = {}
        self._active: set[Path] = set()
        self.changed: set[SessionId] = set()
        self.has_changes = asyncio.Event()

    def __enter__(self) -> "_Folders":
        try:
            for root in self._roots:
                self._arm_root(root)
        except BaseException:
            self._inotify.close()
            raise
        self.take()
        return self

    def __exit__(self, *error: object) -> None:
        self._inotify.close()

    def take(self) -> frozenset[SessionId]:
        portion, self.changed = frozenset(self.changed), set()
        self.has_changes.clear()
        return portion

    async def read(self) -> None:
        while True:
            event = await self._inotify.get()
            if event.mask & Mask.Q_OVERFLOW:
                self._overflow()
            elif (handle := self._handlers.get(event.watch)) is not None:
                handle(event)
            if self.changed:
                self.has_changes.set()

    # --- folders

    def _watch(self, folder: Path, handle: Callable[["Event"], None]) -> bool:
        """Watch a folder. False if it is missing, unreadable, or watched under another name (a link, maybe a loop)."""
        if folder in self._watched:
            return True
        if self._same(folder) is not None:
            return False
        wanted = Mask.MODIFY | Mask.CREATE | Mask.DELETE | Mask.MOVED_TO | Mask.MOVED_FROM
        try:
            watch = self._inotify.add_watch(folder, wanted | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EMFILE):
                raise
            return False
        # A renamed folder keeps its watch, and the watch keeps the old path.
        self._watched[folder] = watch
        self._handlers[watch] = handle
        if (identity := _identity(folder)) is not None:
            self._folders[identity] = folder
        return True

    def _same(self, folder: Path) -> Path | None:
        """The path under which this folder is watched already. The kernel has one watch per folder, whatever its name:
        a second watch would take the events of the first."""
        identity = _identity(folder)
        known = None if identity is None else self._folders.get(identity)
        return known if known is not None and known in self._watched and _identity(known) == identity else None

    def _forget(self, folder: Path) -> None:
        """Drop the watches of a folder that is gone or was replaced, and of everything below it."""
        for path in [path for path in self._watched if path == folder or folder in path.parents]:
            self._forget_one(path)
        self._active = {path for path in self._active if folder not in path.parents}

    def _arm_root(self, root: Path) -> None:
        if self._watch(root, lambda event: self._in_root(root, event)):
            for folder in project_folders(root):
                self._arm_project(folder)
            return
        above = root.parent
        while not above.is_dir():
            above = above.parent
        self._watch(above, lambda event: self._above(root, above, event))
        if root.is_dir():  # it was created before the watch was active
            self._arm_root(root)

    def _above(self, root: Path, folder: Path, event: "Event") -> None:
        appeared = event.mask & (Mask.CREATE | Mask.MOVED_TO) and (folder / str(event.name)) in (root, *root.parents)
        if appeared or event.mask & (Mask.DELETE_SELF | Mask.MOVE_SELF):
            self._forget_one(folder)
            self._arm_root(root)

    def _forget_one(self, folder: Path) -> None:
        self._handlers.pop(self._watched.pop(folder, None), None)

    def _in_root(self, root: Path, event: "Event") -> None:
        if event.mask & (Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED):
            self._forget(root)
            self._arm_root(root)
        elif event.name is not None:
            folder = root / str(event.name)
            if event.mask & (Mask.DELETE | Mask.MOVED_FROM):
                self._forget(folder)
            elif event.mask & (Mask.CREATE | Mask.MOVED_TO):
                self._forget(folder)
                self._arm_project(folder, new=True)

    def _arm_project(self, folder: Path, *, new: bool = False) -> None:
        """Watch a project folder and report its existing files: they may have been written before the watch was
        active."""
        if self._watch(folder, lambda event: self._in_project(folder, event)):
            for session, file in session_files(folder):
                self.changed.add(session)
                if new:
                    self._written(session, file)

    def _in_project(self, folder: Path, event: "Event") -> None:
        gone = event.mask & (Mask.DELETE_SELF | Mask.IGNORED)
        if gone:
            self._forget(folder)
        if gone or event.name is None:
            return
        path = folder / str(event.name)
        session = session_of(path)
        if session is not None:
            self.changed.add(session)
            if event.mask & (Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO):
                self._written(session, path)
            if path not in self._active:
                self._active.add(path)
                self._arm_session(path, session)
        elif is_subagents(path.name):
            if owner := self._legacy.owner(path):
                self.changed.add(SessionId(owner))
        elif event.mask & (Mask.CREATE | Mask.MOVED_TO) and is_uuid(path.name):
            self._arm_session(path.with_suffix(".jsonl"), SessionId(path.name))

    def _arm_session(self, path: Path, session: SessionId) -> None:
        """Watch the folders of a session's subagents, if any; they are written while the session is active."""
        own, below = path.with_suffix(""), subagents_folder(path)
        if self._watch(own, lambda event: self._in_session(path, session, event)):
            self._arm_subagents(below, session)

    def _arm_subagents(self, folder: Path, session: SessionId) -> None:
        if self._watch(folder, lambda event: self._in_subagents(folder, session, event)):
            self.changed.add(session)
            for entry in project_folders(folder):
                if not entry.is_symlink():
                    self._arm_subagents(entry, session)

    def _in_session(self, path: Path, session: SessionId, event: "Event") -> None:
        if event.mask & (Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED):
            self._forget(path.with_suffix(""))
            self._active.discard(path)
        elif event.mask & (Mask.CREATE | Mask.MOVED_TO):
            self._arm_subagents(subagents_folder(path), session)

    def _in_subagents(self, folder: Path, session: SessionId, event: "Event") -> None:
        if event.mask & (Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED):
            self._forget(folder)
            return
        self.changed.add(session)
        if event.mask & (Mask.CREATE | Mask.MOVED_TO) and event.mask & Mask.ISDIR:
            self._arm_subagents(folder / str(event.name), session)

    def _overflow(self) -> None:
        """Recover from dropped kernel events: every session may have changed, every folder may be new."""
        logger.warning("the kernel dropped change events: all transcripts are read again")
        for root in self._roots:
            self._arm_root(root)
            for folder in project_folders(root):
                self._arm_project(folder)
                self.changed.update(session for session, _ in session_files(folder))


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _marks(roots: list[Path], legacy: LegacySubagents) -> dict[SessionId, tuple[FileMark, ...]]:
    """The sizes and times of each session's own file and of its subagents' files, to compare between polls."""
    found: dict[SessionId, tuple[FileMark, ...]] = {}
    for root in roots:
        for folder in project_folders(root):
            for session, path in session_files(folder):
                files = (path, *subagent_files(path).values(), *legacy.files(path.parent, session).values())
                found[session] = (*found.get(session, ()), *(mark for file in files for mark in _mark(file)))
    return found


def _mark(file: Path) -> Iterator[FileMark]:
    """The size and time of a file, and of the `.meta.json` next to a subagent's file, which names its call."""
    for path in (file, file.with_suffix(".meta.json")):
        with contextlib.suppress(OSError):
            yield mark_of(path)
