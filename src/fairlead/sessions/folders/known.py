"""The folders and modes that a client can offer: those of the settings, folders that users have added, and the folders
inside the allowed roots, for a folder picker."""

import asyncio
import os
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound, TooMany
from fairlead.model.scopes import require_scope
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api import folders as api
from fairlead.sessions.dependencies import PolicySettings
from fairlead.sessions.permissions.policy.modes import ModePolicy
from fairlead.sessions.permissions.policy.paths import inside_any

SPACE: Final = "folders"
MARKS: Final = "folders.marks"
"""Document space; the key is user and path, joined by NUL."""
MOST_MARKS: Final = 1000
"""Folders that one user may mark."""
MOST: Final = 1000
"""Maximum number of folders in one answer: a user with more in one place can type the path."""


class KnownFolders:
    """`resolve` rejects paths outside the roots."""

    def __init__(self, documents: Documents, policy: PolicySettings, resolve: Callable[[str], str]) -> None:
        self._documents = documents
        self._policy = policy
        self._resolve = resolve

    def handlers(self) -> ServiceHandlers:
        return {
            api.ReadSessionChoices: self._read,
            api.ListFolder: self._list,
            api.MarkFolder: self._mark,
            api.ListFolders: self._browse,
        }

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

    async def _browse(self, who: Identity, action: api.ListFolders) -> api.FolderPage:
        if not action.path and len(self._policy.roots) > 1:
            return api.FolderPage(
                path="", folders=tuple(api.Folder(name=root, path=root) for root in self._policy.roots)
            )
        return await asyncio.to_thread(self._inside, self._resolve(action.path))

    def _inside(self, path: str) -> api.FolderPage:
        try:
            with os.scandir(path) as entries:
                visible = (entry for entry in entries if not entry.name.startswith("."))
                found = [self._folder(entry) for entry in visible if self._is_folder(entry)]
        except OSError:
            raise NotFound("folder", path) from None
        found.sort(key=lambda folder: folder.name.casefold())
        above = os.path.dirname(path)
        parent = above if path != above and inside_any(above, self._policy.roots) else ""
        return api.FolderPage(path=path, folders=tuple(found[:MOST]), parent=parent, more=len(found) > MOST)

    def _is_folder(self, entry: "os.DirEntry[str]") -> bool:
        """Whether the entry is a folder; a symbolic link counts if its target is a folder inside the roots."""
        try:
            return entry.is_dir() and (
                not entry.is_symlink() or inside_any(os.path.realpath(entry.path), self._policy.roots)
            )
        except OSError:
            return False

    def _folder(self, entry: "os.DirEntry[str]") -> api.Folder:
        # A name that is not UTF-8 is shown with replacement characters; picking it raises NotFound.
        name, path = (os.fsencode(text).decode(errors="replace") for text in (entry.name, entry.path))
        return api.Folder(name=name, path=path, repository=os.path.exists(os.path.join(entry.path, ".git")))
