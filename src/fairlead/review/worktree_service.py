"""Performs the requests about worktrees. Implements `review.api`."""

import asyncio
from collections.abc import Callable

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import Busy
from fairlead.model.gateway import Gateway
from fairlead.model.queries import GetSession, ListSessions, SessionView
from fairlead.model.scopes import require_scope
from fairlead.model.store import SessionFilter, SessionPage, Store
from fairlead.model.web.requests import ServiceHandlers
from fairlead.review import api
from fairlead.review.worktrees import Worktrees
from fairlead.system.tasks import TaskSet

_MOST = 200
_WORKING = frozenset({"working", "waiting"})
"""The states of sessions whose folder is in use."""


class WorktreeService:
    """`resolve` turns a folder from the wire into one inside the roots."""

    def __init__(self, worktrees: Worktrees, gateway: Gateway, store: Store, resolve: Callable[[str], str]) -> None:
        self._worktrees = worktrees
        self._gateway = gateway
        self._store = store
        self._resolve = resolve
        self._tasks = TaskSet("a worktree could not be closed")

    def handlers(self) -> ServiceHandlers:
        return {api.ListWorktrees: self._list, api.CloseWorktree: self._close}

    async def stop(self) -> None:
        await self._tasks.wait()

    async def _list(self, who: Identity, action: api.ListWorktrees) -> tuple[api.WorktreeView, ...]:
        require_scope(who, "view")
        folder = await asyncio.to_thread(self._resolve, action.folder)
        views = await self._worktrees.views(folder)
        return tuple([msgspec.structs.replace(view, sessions=await self._sessions(who, view.path)) for view in views])

    async def _sessions(self, who: Identity, folder: str) -> tuple[str, ...]:
        page: SessionPage = await self._gateway.ask(
            who, ListSessions(SessionFilter(cwd=folder, limit=_MOST, transcripts=False))
        )
        return tuple(summary.session for summary in page.sessions)

    async def _close(self, who: Identity, action: api.CloseWorktree) -> api.WorktreeClosed:
        require_scope(who, "view" if action.how == "keep" else "approve")
        view: SessionView = await self._gateway.ask(who, GetSession(action.session))
        folder = view.summary.cwd
        if action.how == "keep":
            return api.WorktreeClosed(state=await self._worktrees.state(folder))
        await self._refuse_used(folder, action)
        if action.how == "merge":
            commit = await self._tasks.shield(self._worktrees.merge(folder))
            return api.WorktreeClosed(state=await self._worktrees.state(folder), commit=commit)
        return api.WorktreeClosed(state=await self._tasks.shield(self._worktrees.remove(folder, force=action.force)))

    async def _refuse_used(self, folder: str, action: api.CloseWorktree) -> None:
        """Raise Busy while a session, of whichever user, works in the folder."""
        page = await self._store.sessions(SessionFilter(cwd=folder, limit=_MOST, transcripts=False), None)
        if any(summary.state in _WORKING for summary in page.sessions):
            raise Busy("A session works in this worktree: wait until its turn is over, or interrupt it.")
