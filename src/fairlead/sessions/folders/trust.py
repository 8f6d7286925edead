"""Trusted folders: their own settings, hooks and MCP servers may run. Implements `sessions.api.folders.Admin`.

A folder is trusted with the content that was shown: its digest is stored, and a changed file needs trust again. Without
trust its sessions run with the user's settings only.
"""

import asyncio
from collections.abc import Callable

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import NotAllowed, Stale
from fairlead.model.store import Documents
from fairlead.sessions.api.folders import FolderReport, TrustedFolder
from fairlead.system.clock import Clock

TRUSTED = "trusted"


class TrustedFolders:
    """`describe` reads a folder's settings; `resolve` turns a path from the wire into an allowed folder."""

    def __init__(
        self,
        documents: Documents,
        clock: Clock,
        describe: Callable[[str], FolderReport],
        resolve: Callable[[str], str],
    ) -> None:
        self._documents = documents
        self._clock = clock
        self._describe = describe
        self._resolve = resolve

    async def is_trusted(self, folder: str) -> bool:
        kept = await self._documents.get(TRUSTED, folder)
        if kept is None:
            return False
        report = await asyncio.to_thread(self._describe, folder)
        return bool(kept["digest"] == report.digest)

    async def trusted(self, who: Identity) -> tuple[TrustedFolder, ...]:
        kept = await self._documents.list(TRUSTED)
        return tuple(msgspec.convert(value, TrustedFolder) for value in kept.values())

    async def inspect(self, who: Identity, path: str) -> FolderReport:
        folder = self._resolve(path)
        report = await asyncio.to_thread(self._describe, folder)
        kept = await self._documents.get(TRUSTED, folder)
        return msgspec.structs.replace(report, trusted=kept is not None and kept["digest"] == report.digest)

    async def trust(self, who: Identity, path: str, digest: str) -> TrustedFolder:
        _admin(who)
        report = await self.inspect(who, path)
        if report.digest != digest:
            raise Stale("The folder's settings have changed since they were shown: look at them again.", path=path)
        folder = TrustedFolder(path=report.path, digest=digest, at=self._clock.now_ms(), by=who.name)
        await self._documents.put(TRUSTED, report.path, msgspec.to_builtins(folder))
        return folder

    async def untrust(self, who: Identity, path: str) -> bool:
        _admin(who)
        return await self._documents.delete(TRUSTED, self._resolve(path))


def _admin(who: Identity) -> None:
    if not who.may("admin"):
        raise NotAllowed("Trusting a folder needs the scope admin.", scope="admin")
