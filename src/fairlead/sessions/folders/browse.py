"""Lists folders in which a session may be opened, for a folder picker: only inside the allowed roots."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.folders import Folder, FolderPage, ListFolders
from fairlead.sessions.permissions.policy.paths import inside_any

MOST: Final = 1000
"""Maximum number of folders in one answer: a user with more in one place can type the path."""


class FolderBrowser:
    """`resolve` turns a path from the wire into an allowed folder, or raises."""

    def __init__(self, roots: Sequence[str], resolve: Callable[[str], str]) -> None:
        self._roots = tuple(roots)
        self._resolve = resolve

    def handlers(self) -> ServiceHandlers:
        return {ListFolders: self.list}

    async def list(self, who: Identity, action: ListFolders) -> FolderPage:
        if not action.path and len(self._roots) > 1:
            return FolderPage(path="", folders=tuple(Folder(name=root, path=root) for root in self._roots))
        return await asyncio.to_thread(self._inside, self._resolve(action.path))

    def _inside(self, path: str) -> FolderPage:
        found: list[Folder] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and self._is_folder(entry):
                        found.append(self._folder(entry))
        except OSError:
            raise NotFound("folder", path) from None
        found.sort(key=lambda folder: folder.name.casefold())
        parent = os.path.dirname(path)
        return FolderPage(
            path=path,
            folders=tuple(found[:MOST]),
            parent=parent if path != parent and inside_any(parent, self._roots) else "",
            more=len(found) > MOST,
        )

    def _is_folder(self, entry: "os.DirEntry[str]") -> bool:
        """Whether the entry is a folder; a symbolic link counts if its target is a folder inside the roots."""
        try:
            return entry.is_dir() and (not entry.is_symlink() or inside_any(os.path.realpath(entry.path), self._roots))
        except OSError:
            return False

    def _folder(self, entry: "os.DirEntry[str]") -> Folder:
        # A name that is not UTF-8 is shown with replacement characters; picking it raises NotFound.
        name, path = (os.fsencode(text).decode(errors="replace") for text in (entry.name, entry.path))
        return Folder(name=name, path=path, repository=os.path.exists(os.path.join(entry.path, ".git")))
