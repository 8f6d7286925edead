"""The folders and modes that a client can offer: those of the settings, and folders that users have added."""

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import TooMany
from fairlead.model.scopes import require_scope
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api import session_choices as api
from fairlead.sessions.dependencies import PolicySettings
from fairlead.sessions.permissions.policy.modes import ModePolicy

SPACE: Final = "folders"
MARKS: Final = "folders.marks"
"""Document space; the key is user and path, joined by NUL."""
MOST_MARKS: Final = 1000
"""Folders that one user may mark."""


class KnownFolders:
    """`resolve` rejects paths outside the roots."""

    def __init__(self, documents: Documents, policy: PolicySettings, resolve: Callable[[str], str]) -> None:
        self._documents = documents
        self._policy = policy
        self._resolve = resolve

    def handlers(self) -> ServiceHandlers:
        return {api.ReadSessionChoices: self._read, api.ListFolder: self._list, api.MarkFolder: self._mark}

    async def _read(self, who: Identity, action: api.ReadSessionChoices) -> api.SessionChoices:
        require_scope(who, "view")
        modes = tuple(ModePolicy(allow_bypass=self._policy.allow_bypass).valid)
        folders = tuple(await self._documents.list(SPACE))
        return api.SessionChoices(self._policy.roots, folders, modes, await self._marks(who))

    async def _marks(self, who: Identity) -> dict[str, api.FolderMarks]:
        own = f"{who.user}\0"
        found = await self._documents.list(MARKS)
        return {
            key.removeprefix(own): msgspec.convert(value, api.FolderMarks)
            for key, value in found.items()
            if key.startswith(own)
        }

    async def _mark(self, who: Identity, action: api.MarkFolder) -> None:
        require_scope(who, "view")
        key = f"{who.user}\0{action.path}"
        if action.marks == api.FolderMarks():
            await self._documents.delete(MARKS, key)
            return
        if len(await self._marks(who)) >= MOST_MARKS:
            raise TooMany(f"One user marks at most {MOST_MARKS} folders.")
        await self._documents.put(MARKS, key, msgspec.to_builtins(action.marks))

    async def forget(self, user: str) -> None:
        """Delete the marks of a removed user: a later user of the same name starts without marks."""
        for key in await self._documents.list(MARKS):
            if key.startswith(f"{user}\0"):
                await self._documents.delete(MARKS, key)

    async def _list(self, who: Identity, action: api.ListFolder) -> str:
        require_scope(who, "view")
        folder = self._resolve(action.path)
        await self._documents.add(SPACE, folder, {"by": who.name})
        return folder
