"""Trusted folders: their own settings, hooks and MCP servers may run.

A folder is trusted with the content that was shown: its digest is stored, and a changed file needs trust again. Without
trust its sessions run with the user's settings only.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import NotAllowed, Stale
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api import folders as api
from fairlead.system.clock import Clock

TRUSTED = "trusted"


@dataclass(frozen=True, repr=False)
class TrustedFolders:
    """`_describe` reads a folder's settings; `_resolve` turns a path from the wire into an allowed folder. Trust in a
    folder that several nodes share (`_is_shared`) is stored for all of them."""

    _here: Documents
    _clock: Clock
    _describe: Callable[[str], api.FolderReport]
    _resolve: Callable[[str], str]
    _everywhere: Documents
    _is_shared: Callable[[str], bool]
    _main_folder: Callable[[str], str] = lambda folder: ""
    """The main folder of a registered worktree; empty for other folders."""

    def _documents(self, folder: str) -> Documents:
        return self._everywhere if self._is_shared(folder) else self._here

    async def is_trusted(self, folder: str) -> bool:
        digest = await self._consented(folder)
        return bool(digest) and (await asyncio.to_thread(self._describe, folder)).digest == digest

    async def _consented(self, folder: str) -> str:
        """The digest of the content that a person has consented to: for this folder, else for the main folder of the
        repository that it is a worktree of. Empty: none."""
        kept = await self._documents(folder).get(TRUSTED, folder)
        if kept is None and (main := await asyncio.to_thread(self._main_folder, folder)):
            kept = await self._documents(main).get(TRUSTED, main)
        return "" if kept is None else str(kept["digest"])

    def handlers(self) -> ServiceHandlers:
        return {
            api.ListTrusted: self.trusted,
            api.InspectFolder: self.inspect,
            api.TrustFolder: self.trust,
            api.UntrustFolder: self.untrust,
        }

    async def trusted(self, who: Identity, action: api.ListTrusted) -> tuple[api.TrustedFolder, ...]:
        kept = {**await self._everywhere.list(TRUSTED), **await self._here.list(TRUSTED)}
        return tuple(msgspec.convert(value, api.TrustedFolder) for value in kept.values())

    async def inspect(self, who: Identity, action: api.InspectFolder) -> api.FolderReport:
        folder = self._resolve(action.path)
        report = await asyncio.to_thread(self._describe, folder)
        return msgspec.structs.replace(report, trusted=await self._consented(folder) == report.digest)

    async def trust(self, who: Identity, action: api.TrustFolder) -> api.TrustedFolder:
        _admin(who)
        report = await self.inspect(who, api.InspectFolder(action.path))
        if report.digest != action.digest:
            text = "The folder's settings have changed since they were shown: look at them again."
            raise Stale(text, path=action.path)
        folder = api.TrustedFolder(path=report.path, digest=action.digest, at=self._clock.now_ms(), by=who.name)
        await self._documents(report.path).put(TRUSTED, report.path, msgspec.to_builtins(folder))
        return folder

    async def untrust(self, who: Identity, action: api.UntrustFolder) -> bool:
        _admin(who)
        folder = self._resolve(action.path)
        return await self._documents(folder).delete(TRUSTED, folder)


def _admin(who: Identity) -> None:
    if not who.may("admin"):
        raise NotAllowed("Trusting a folder needs the scope admin.", scope="admin")
