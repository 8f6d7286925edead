"""Settings that clients store for their users: one bounded document per user and client, deleted with the user."""

from typing import Any, Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import TooLarge
from fairlead.model.scopes import require_scope
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.preferences import ReadPreferences, SavePreferences
from fairlead.sessions.read_state import reader_of

SPACE: Final = "preferences"
"""Document space; the key is user and client, joined by NUL."""
LIMIT: Final = 64 << 10
"""Bytes of one user's settings of one client."""


class UserPreferences:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def handlers(self) -> ServiceHandlers:
        return {ReadPreferences: self._read, SavePreferences: self._save}

    async def _read(self, who: Identity, action: ReadPreferences) -> dict[str, Any]:
        found: dict[str, Any] = await self._documents.get(SPACE, _key(who, action.client)) or {}
        return found

    async def _save(self, who: Identity, action: SavePreferences) -> None:
        # A client may store its tool rules here, and send them with the user's next prompt.
        require_scope(who, "approve")
        key = _key(who, action.client)
        while True:
            found = await self._documents.get(SPACE, key)
            kept = {**(found or {}), **action.changes}
            if (size := len(msgspec.json.encode(kept))) > LIMIT:
                raise TooLarge("settings of this client", size, LIMIT)
            if await self._documents.swap(SPACE, key, kept, found):
                return

    async def forget(self, user: str) -> None:
        """Delete the documents of a removed user, or of a revoked credential without a user."""
        for key in await self._documents.list(SPACE):
            if key.startswith(f"{user}\0"):
                await self._documents.delete(SPACE, key)


def _key(who: Identity, client: str) -> str:
    return f"{reader_of(who)}\0{client}"
