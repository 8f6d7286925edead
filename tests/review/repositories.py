"""Real repositories for the tests of reviews, and the service on them."""

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude.tools import TOOLS
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.events import Event, encode
from fairlead.model.queries import GetSession, SessionView
from fairlead.model.store import Entry, Summary
from fairlead.review import api
from fairlead.review.private_repository import GitAccess
from fairlead.review.service import ReviewService
from fairlead.review.snapshots import Snapshots
from fairlead.system.readable_paths import ReadablePaths
from fairlead.system.sandbox import Sandbox
from fairlead_testing.clock import ManualClock
from sessions.harness import ANN, SESSION

SETTINGS = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"


def git(folder: Path, *words: str | bytes, check: bool = True) -> bytes:
    """Run git as a user does in a terminal."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")
    return subprocess.run(("git", *who, *words), cwd=folder, env=env, check=check, capture_output=True).stdout


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (files or {"a.txt": "one\ntwo\nthree\n"}).items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


class OneSession:
    """The gateway and the store of one session, as far as a review needs them."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.events: list[Event] = []

    async def ask(self, who: Identity, query: Any) -> SessionView:
        assert isinstance(query, GetSession)
        if query.session != SESSION:
            raise NotFound("session", query.session)
        summary = Summary(session=SESSION, cwd=str(self.cwd), agent="demo")
        return SessionView(summary=summary, log_id="log", head=0)

    async def tail(self, session: str, before: int | None, limit: int, kinds: Any) -> Any:
        kept = [Entry(seq, 0, 0, "", encode(event)) for seq, event in enumerate(self.events, 1)]
        chosen = [entry for entry in kept if before is None or entry.seq < before]

        class Page(msgspec.Struct):
            entries: list[Entry]

        return Page(chosen[-limit:])

    async def summary(self, session: str) -> Summary | None:
        return None


class Place:
    """A project below the only root, and a data folder beside it that is closed."""

    def __init__(self, folder: Path, *, sandbox: Sandbox | None = None) -> None:
        self.root = folder / "root"
        self.project = self.root / "project"
        self.project.mkdir(parents=True)
        self.data = folder / "data"
        self.data.mkdir()
        (folder / "gitconfig").write_text(SETTINGS)
        self.clock = ManualClock()
        self.session = OneSession(self.project)
        self.paths = ReadablePaths([str(self.root)], [str(self.data)])
        self._settings = str(folder / "gitconfig")
        self.use(sandbox)

    def use(self, sandbox: Sandbox | None) -> None:
        """Run git in this sandbox."""
        access = GitAccess(sandbox, self._settings)
        self.snapshots = Snapshots(self.data / "review", self.paths.find_repository, access, self.clock)
        session: Any = self.session
        self.service = ReviewService(self.snapshots, session, session, self.paths, lambda agent: TOOLS)
        self._handlers = self.service.handlers()

    async def do(self, action: Any, who: Identity = ANN) -> Any:
        return await self._handlers[type(action)](who, action)

    async def changes(self, base: str = "session", **more: Any) -> api.ChangeList:
        found: api.ChangeList = await self.do(api.ListChanges(session=SESSION, base=base, **more))
        return found

    async def diff(self, found: api.ChangeList, path: str, **more: Any) -> api.FileDiff:
        file = next(file for file in found.files if file.path == path)
        names = {"key": file.key, "old_key": file.old_key, "before": found.before, "after": found.after}
        diff: api.FileDiff = await self.do(api.ReadFileDiff(session=SESSION, **{**names, **more}))
        return diff

    async def begin(self) -> None:
        """Make the snapshot of the session's beginning."""
        await self.snapshots.before_turn(SESSION, str(self.project))


def statuses(found: api.ChangeList) -> dict[str, str]:
    return {file.path: file.status for file in found.files}


def texts(diff: api.FileDiff) -> list[str]:
    return [row.sign + row.text for row in diff.rows if row.sign != "@"]
