"""Which folders and modes a client can offer: the settings' own, and folders that somebody has put on the list."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fairlead.model.auth import Identity
from fairlead.model.errors import NotAllowed
from fairlead.model.requests import Action
from fairlead.model.store import Documents
from fairlead.model.surroundings import ListFolder, ReadSurroundings, Surroundings
from fairlead.sessions.policy import ModePolicy
from fairlead.sessions.services import PolicySettings

SPACE: Final = "folders"


class FolderBook:
    """`resolve` refuses what lies outside the roots."""

    def __init__(self, documents: Documents, policy: PolicySettings, resolve: Callable[[str], str]) -> None:
        self._documents = documents
        self._policy = policy
        self._resolve = resolve

    def performers(self) -> Mapping[type[Action], Callable[[Identity, Any], Awaitable[Any]]]:
        return {ReadSurroundings: self._read, ListFolder: self._list}

    async def _read(self, who: Identity, action: ReadSurroundings) -> Surroundings:
        _check(who)
        modes = tuple(ModePolicy(allow_bypass=self._policy.allow_bypass).valid)
        return Surroundings(self._policy.roots, tuple(await self._documents.list(SPACE)), modes)

    async def _list(self, who: Identity, action: ListFolder) -> str:
        _check(who)
        folder = self._resolve(action.path)
        await self._documents.add(SPACE, folder, {"by": who.name})
        return folder


def _check(who: Identity) -> None:
    if not who.may("view"):
        raise NotAllowed("This needs the scope view, which your credential does not have.", scope="view")
