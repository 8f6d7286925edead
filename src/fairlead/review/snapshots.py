"""Snapshots of the working trees of sessions: before each turn, and at its end.

They are in the data folder, one private repository per session. The user's repository is only read.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.model import events as ev
from fairlead.model.content import plain_text
from fairlead.model.errors import FairleadError, Unavailable
from fairlead.model.ids import SessionId
from fairlead.review.private_repository import GitAccess, PrivateRepository
from fairlead.system import git
from fairlead.system.clock import Clock
from fairlead.system.private_files import write_private
from fairlead.system.readable_paths import Repository
from fairlead.system.tasks import TaskSet

log = logging.getLogger("fairlead.review")

FOLDER: Final = "review"
"""In the data folder."""
WAIT_SECONDS: Final = 5.0
"""How long a turn waits for the snapshot before it. A slower one has files of the turn in it."""
MOST_TURNS: Final = 1000
PROMPT_CHARACTERS: Final = 120


class TurnMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The trees before and after a turn; `end` is empty while it runs."""

    turn: str
    at: int
    begin: str
    end: str = ""
    prompt: str = ""


class SessionMarks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The snapshots of a session. `top`: the working tree that they are of. `begin`: the tree when the first one was
    made."""

    top: str = ""
    begin: str = ""
    at: int = 0
    turns: tuple[TurnMark, ...] = ()


class _Tracked:
    """A session with snapshots."""

    def __init__(self, repository: PrivateRepository, marks: SessionMarks) -> None:
        self.repository = repository
        self.marks = marks
        self.lock = asyncio.Lock()
        """Held while git runs."""
        self.marking = asyncio.Lock()
        """Held while the end or the beginning of a turn is marked: in the order of the log."""
        self.created = False
        self.before_next = ""
        """The tree that was stored for the turn that is about to begin."""
        self.problem = ""
        """Why the last snapshot could not be made."""
        self.slow = False
        """A snapshot took so long that turns are no longer marked: they would wait for each one."""
        self.deleted = False


class Snapshots:
    """`find` locates the repository of a folder. `folder` is in the data folder."""

    def __init__(self, folder: Path, find: Callable[[str], Repository | None], access: GitAccess, clock: Clock) -> None:
        self.folder = folder
        self._find = find
        self._access = access
        self._clock = clock
        self._tracked: dict[SessionId, _Tracked] = {}
        self.tasks = TaskSet("a snapshot failed")

    # --- called by the core

    async def before_turn(self, session: SessionId, cwd: str) -> None:
        """Store the working tree before the agent gets a prompt. It waits a few seconds at most."""
        work = self.tasks.spawn(self._before_turn(session, cwd))
        timer = asyncio.Event()
        ring = self._clock.call_later(WAIT_SECONDS, timer.set)
        waiting = asyncio.create_task(timer.wait())
        try:
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ring.cancel()
            waiting.cancel()

    def committed(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        for event in events:
            if isinstance(event, ev.TurnStarted | ev.TurnEnded) and event.turn is not None and event.subagent is None:
                prompt = next((plain_text(one.content) for one in events if isinstance(one, ev.UserMessage)), "")
                self.tasks.spawn(self._mark(session, event, prompt))

    def deleted(self, session: SessionId) -> None:
        self.tasks.spawn(self._delete(session))

    async def _before_turn(self, session: SessionId, cwd: str) -> None:
        tracked = await self._track(session, cwd)
        if tracked is not None and not tracked.slow:
            tracked.before_next = await self._store(session, tracked)

    async def _mark(self, session: SessionId, event: ev.TurnStarted | ev.TurnEnded, prompt: str) -> None:
        tracked = self._tracked.get(session)
        if tracked is None or tracked.slow:
            # Without `tracked`, no message of ours began the turn: there is no tree before it.
            return
        async with tracked.marking:
            if isinstance(event, ev.TurnStarted):
                begin, tracked.before_next = tracked.before_next, ""
                tree = begin or await self._store(session, tracked)
            else:
                tree = await self._store(session, tracked)
            if tree:
                await self._keep(session, tracked, turns=_marked(tracked.marks.turns, event, tree, prompt))

    async def _delete(self, session: SessionId) -> None:
        tracked = self._tracked.pop(session, None)
        if tracked is None:
            await asyncio.to_thread(shutil.rmtree, self.folder / session, ignore_errors=True)
            return
        async with tracked.lock:
            tracked.deleted = True
            await asyncio.to_thread(shutil.rmtree, self.folder / session, ignore_errors=True)

    # --- for the page of changes

    async def tracked_now(self, session: SessionId, cwd: str) -> tuple[PrivateRepository, SessionMarks, str] | None:
        """The repository of a session with its snapshots, and the tree of a new one. None: there is no repository.
        Raises Unavailable."""
        tracked = await self._track(session, cwd)
        if tracked is None:
            return None
        now = await self._store(session, tracked)
        if not now:
            raise Unavailable(tracked.problem)
        return tracked.repository, tracked.marks, now

    async def repository_of(self, session: SessionId, cwd: str) -> PrivateRepository | None:
        """The repository of a session, ready for commands. Raises Unavailable."""
        tracked = await self._track(session, cwd)
        if tracked is None:
            return None
        async with tracked.lock:
            await self._create(tracked)
        return tracked.repository

    # --- the rest

    async def _track(self, session: SessionId, cwd: str) -> _Tracked | None:
        found = await asyncio.to_thread(self._located, cwd)
        if found is None:
            return None
        tracked = self._tracked.get(session)
        if tracked is not None and tracked.repository.user == found:
            return tracked
        marks = await asyncio.to_thread(self._read, session)
        if marks.top not in ("", found.top):
            # The session's folder belongs to another repository now: its snapshots are of something else.
            await asyncio.to_thread(shutil.rmtree, self.folder / session, ignore_errors=True)
            marks = SessionMarks()
        repository = PrivateRepository(self.folder / session, found, self._access)
        # Another call may have been here meanwhile: both must use one lock.
        known = self._tracked.get(session)
        if known is None or known.repository.user != found:
            known = self._tracked[session] = _Tracked(repository, msgspec.structs.replace(marks, top=found.top))
        return known

    def _located(self, cwd: str) -> Repository | None:
        # A folder that is gone, such as a removed worktree, may have been inside of another repository.
        return self._find(cwd) if git.installed() and os.path.isdir(cwd) else None

    async def _create(self, tracked: _Tracked) -> None:
        if not tracked.created:
            await tracked.repository.create()
            tracked.created = True

    async def _store(self, session: SessionId, tracked: _Tracked) -> str:
        """Make a snapshot; return its tree. Empty if it cannot be made: `problem` has the reason."""
        async with tracked.lock:
            if tracked.deleted:
                return ""
            began = self._clock.monotonic()
            try:
                await self._create(tracked)
                tree = await tracked.repository.snapshot()
                tracked.problem = ""
            except (FairleadError, OSError) as error:
                tracked.problem = error.message if isinstance(error, FairleadError) else str(error)
                log.warning("no snapshot", extra={"session": session, "error": tracked.problem})
                return ""
            finally:
                tracked.slow = self._clock.monotonic() - began > 2 * WAIT_SECONDS
        if not tracked.marks.begin:
            await self._keep(session, tracked, begin=tree, at=self._clock.now_ms())
        return tree

    async def _keep(self, session: SessionId, tracked: _Tracked, **changes: object) -> None:
        tracked.marks = msgspec.structs.replace(tracked.marks, **changes)
        if not tracked.deleted:
            data = msgspec.json.encode(tracked.marks)
            await asyncio.to_thread(write_private, self.folder / session / "marks.json", data, sync=False)

    def _read(self, session: SessionId) -> SessionMarks:
        try:
            return msgspec.json.decode((self.folder / session / "marks.json").read_bytes(), type=SessionMarks)
        except (OSError, msgspec.DecodeError):
            return SessionMarks()


def _marked(
    turns: tuple[TurnMark, ...], event: ev.TurnStarted | ev.TurnEnded, tree: str, prompt: str
) -> tuple[TurnMark, ...]:
    found = {mark.turn: mark for mark in turns}
    name = str(event.turn)
    if isinstance(event, ev.TurnEnded):
        if name in found:
            found[name] = msgspec.structs.replace(found[name], end=tree)
    elif name not in found:
        short = " ".join(prompt.split())[:PROMPT_CHARACTERS]
        found[name] = TurnMark(turn=name, at=event.at, begin=tree, prompt=short)
    return tuple(found.values())[-MOST_TURNS:]
