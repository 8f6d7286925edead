"""Performs the requests about the changes of sessions. Implements `review.api`.

Rule: only sessions that the caller sees; reading needs the scope view, changing the scope approve. A path that the
gateway does not show (its own files, keys) is in no list and in no diff, and is not changed.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotFound, Unavailable
from fairlead.model.gateway import Gateway
from fairlead.model.ids import SessionId
from fairlead.model.queries import GetSession, SessionView
from fairlead.model.scopes import require_scope
from fairlead.model.store import Store
from fairlead.model.tools import ToolCatalogue
from fairlead.model.web.requests import ServiceHandlers
from fairlead.review import api, formats, working_tree
from fairlead.review.comparison import DiffReader, changed_files, described, tree_name
from fairlead.review.formats import RawChange
from fairlead.review.log_changes import KINDS, LoggedEdit, edit_rows, edited_files, logged_edits
from fairlead.review.private_repository import PrivateRepository
from fairlead.review.snapshots import SessionMarks, Snapshots
from fairlead.sessions.api.workspace import NotRepository
from fairlead.system.readable_paths import ReadablePaths
from fairlead.system.tasks import TaskSet, all_of

MOST_FILES = 1000
"""Files that one request may change."""
KEPT_LISTS = 8
_PAGE = 500


class _Compared(NamedTuple):
    """The changes between two trees that may be shown, and the state of git's index at that time."""

    shown: list[RawChange]
    state: working_tree.IndexState


class ReviewTools(msgspec.Struct, frozen=True):
    """The tool catalogues of the agents, by name."""

    of_agent: Callable[[str], ToolCatalogue]


class ReviewService:
    """`tools` returns the tool catalogue of an agent."""

    def __init__(
        self,
        snapshots: Snapshots,
        gateway: Gateway,
        store: Store,
        paths: ReadablePaths,
        tools: Callable[[str], ToolCatalogue],
    ) -> None:
        self._snapshots = snapshots
        self._gateway = gateway
        self._store = store
        self._paths = paths
        self._tools = tools
        self._diffs = DiffReader()
        self._lists: dict[tuple[str, str, str], _Compared] = {}
        self._tasks = TaskSet("a change of a working tree failed")

    def handlers(self) -> ServiceHandlers:
        return {
            api.ListChanges: self._list,
            api.ReadFileDiff: self._read,
            api.StageFiles: self._stage,
            api.CommitStaged: self._commit,
            api.DiscardFiles: self._discard,
            api.RestoreFiles: self._restore,
        }

    async def start(self) -> None:
        """Delete the snapshots of sessions that are gone."""
        names = await asyncio.to_thread(_folders, self._snapshots)
        for name in names:
            summary = await self._store.summary(SessionId(name))
            if summary is None or summary.deleted:
                self._snapshots.deleted(SessionId(name))

    async def stop(self) -> None:
        await self._tasks.wait()
        await self._snapshots.tasks.wait()

    # --- reading

    async def _view(self, who: Identity, session: SessionId) -> SessionView:
        view: SessionView = await self._gateway.ask(who, GetSession(session))
        return view

    async def _list(self, who: Identity, action: api.ListChanges) -> api.ChangeList:
        view = await self._view(who, action.session)
        session, cwd = view.summary.session, view.summary.cwd
        if action.before and action.after:
            repository = await self._snapshots.repository_of(session, cwd)
            if repository is None:
                raise NotRepository
            name = (session, action.before, action.after)
            kept = self._lists.get(name) or await self._compare(name, repository)
            return await self._page(repository, action, kept)
        found = await self._snapshots.tracked_now(session, cwd)
        if found is None:
            return await self._list_logged(view, action)
        return await self._list_snapshots(found, action)

    async def _list_snapshots(
        self, found: tuple[PrivateRepository, SessionMarks, str], action: api.ListChanges
    ) -> api.ChangeList:
        repository, marks, now = found
        if action.base == "session":
            before, after = marks.begin, now
        elif action.base == "commit":
            before, after = await repository.head_tree(), now
        else:
            mark = next((mark for mark in marks.turns if mark.turn == action.base), None)
            if mark is None:
                raise NotFound("turn with a snapshot", action.base)
            before, after = mark.begin, mark.end or now
        wanted = msgspec.structs.replace(action, before=before, after=after)
        compared, git = await all_of(
            self._compare((action.session, before, after), repository), working_tree.git_state(repository)
        )
        git = msgspec.structs.replace(git, staged=len(compared.state.staged))
        page = await self._page(repository, wanted, compared)
        turns = tuple(
            api.TurnChanges(
                turn=mark.turn, at=mark.at, prompt=mark.prompt, changed=mark.end != mark.begin, running=not mark.end
            )
            for mark in marks.turns
        )
        return msgspec.structs.replace(page, git=git, turns=turns, began=marks.at)

    async def _compare(self, name: tuple[str, str, str], repository: PrivateRepository) -> "_Compared":
        """Compare two trees, and keep the result for the following pages."""
        changes, state = await all_of(changed_files(repository, name[1], name[2]), working_tree.index_state(repository))
        allows = self._rule(repository)
        shown = [change for change in changes if allows(change.path) and allows(change.old_path)]
        self._lists.pop(name, None)
        self._lists[name] = _Compared(shown, state)
        while len(self._lists) > KEPT_LISTS:
            del self._lists[next(iter(self._lists))]
        return self._lists[name]

    async def _page(
        self, repository: PrivateRepository, action: api.ListChanges, compared: "_Compared"
    ) -> api.ChangeList:
        shown, state = compared.shown, compared.state
        end = action.start + action.limit
        files = await described(repository, action.before, action.after, shown[action.start : end])
        return api.ChangeList(
            source="git",
            base=action.base,
            before=action.before,
            after=action.after,
            files=tuple(_with_state(file, state) for file in files),
            total=len(shown),
            next=end if end < len(shown) else None,
        )

    def _rule(self, repository: PrivateRepository) -> Callable[[bytes], bool]:
        top = repository.user.top
        return lambda path: self._paths.allows(os.path.join(top, os.fsdecode(path)))

    async def _read(self, who: Identity, action: api.ReadFileDiff) -> api.FileDiff:
        view = await self._view(who, action.session)
        if not action.before and not action.after:
            edits = [edit for edit in await self._edits(view) if formats.file_key(edit.path.encode()) == action.key]
            if not edits:
                raise NotFound("changed file", action.key)
            rows = edit_rows(edits)
            about = api.FileDiff(key=action.key, path=edits[0].path, total=len(rows))
        else:
            repository = await self._snapshots.repository_of(view.summary.session, view.summary.cwd)
            if repository is None:
                raise NotRepository
            rows, about = await self._diffs.read(repository, action, self._rule(repository))
        end = action.start + action.limit
        if action.columns == 1:
            return msgspec.structs.replace(about, start=action.start, rows=tuple(rows[action.start : end]))
        both = await asyncio.to_thread(lambda: list(formats.pairs(rows)))
        return msgspec.structs.replace(
            about, start=action.start, total=len(both), pairs=tuple(both[action.start : end])
        )

    # --- without a repository

    async def _list_logged(self, view: SessionView, action: api.ListChanges) -> api.ChangeList:
        edits = await self._edits(view)
        turns = dict.fromkeys(edit.turn for edit in edits if edit.turn)
        if action.base not in ("session", "commit"):
            edits = [edit for edit in edits if edit.turn == action.base]
        files = edited_files(edits)
        end = action.start + action.limit
        return api.ChangeList(
            source="log",
            base=action.base,
            files=tuple(files[action.start : end]),
            total=len(files),
            next=end if end < len(files) else None,
            turns=tuple(api.TurnChanges(turn=turn, at=0, changed=True) for turn in turns),
        )

    async def _edits(self, view: SessionView) -> list[LoggedEdit]:
        events: list[ev.Event] = []
        before: int | None = None
        session = view.summary.session
        while entries := (await self._store.tail(session, before, _PAGE, KINDS)).entries:
            events[:0] = [ev.decode(entry.event) for entry in entries]
            before = entries[0].seq
        return await asyncio.to_thread(logged_edits, events, self._tools(view.summary.agent))

    # --- changing

    async def _changeable(self, who: Identity, session: SessionId) -> tuple[SessionId, PrivateRepository]:
        require_scope(who, "approve")
        view = await self._view(who, session)
        repository = await self._snapshots.repository_of(view.summary.session, view.summary.cwd)
        if repository is None:
            raise NotRepository
        return view.summary.session, repository

    def _named(self, repository: PrivateRepository, keys: Sequence[str]) -> list[bytes]:
        if not keys or len(keys) > MOST_FILES:
            raise BadRequest(f"Name at least one file and at most {MOST_FILES}.")
        paths = [formats.path_of(key) for key in dict.fromkeys(keys)]
        allows = self._rule(repository)
        for path in paths:
            if not allows(path):
                raise NotFound("file", formats.shown_path(path))
        return paths

    async def _stage(self, who: Identity, action: api.StageFiles) -> int:
        _, repository = await self._changeable(who, action.session)
        paths = self._named(repository, action.keys)
        work = working_tree.stage if action.staged else working_tree.unstage
        await self._tasks.shield(work(repository, paths))
        return len((await working_tree.index_state(repository)).staged)

    async def _commit(self, who: Identity, action: api.CommitStaged) -> api.CommitMade:
        _, repository = await self._changeable(who, action.session)
        return await self._tasks.shield(working_tree.commit(repository, action.message))

    async def _discard(self, who: Identity, action: api.DiscardFiles) -> api.Discarded:
        session, repository = await self._changeable(who, action.session)
        paths = self._named(repository, action.keys)
        # First a snapshot: a person who chose the wrong file gets it back.
        found = await self._snapshots.tracked_now(session, repository.user.top)
        if found is None:
            raise Unavailable("The repository is not there any more.")
        tree = found[2]
        await self._tasks.shield(working_tree.discard(repository, tree, paths))
        return api.Discarded(files=len(paths), tree=tree)

    async def _restore(self, who: Identity, action: api.RestoreFiles) -> int:
        _, repository = await self._changeable(who, action.session)
        paths = self._named(repository, action.keys)
        tree_name(action.tree)
        await self._tasks.shield(working_tree.restore(repository, action.tree, paths, index=False))
        return len(paths)


def _with_state(file: api.ChangedFile, state: working_tree.IndexState) -> api.ChangedFile:
    paths = {formats.path_of(key) for key in (file.key, file.old_key) if key}
    return msgspec.structs.replace(
        file,
        staged=not paths.isdisjoint(state.staged),
        unstaged=not paths.isdisjoint(state.unstaged),
        untracked=formats.path_of(file.key) in state.untracked,
    )


def _folders(snapshots: Snapshots) -> list[str]:
    return [path.name for path in snapshots.folder.glob("*") if path.is_dir()]
