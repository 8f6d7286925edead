"""Session keys, kept in the document store like the credentials."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from fairlead.auth.api.session_keys import SPACE, DropKey, ReadKey, Scheme, SessionKey, SetKey
from fairlead.model.auth import Identity
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceCall


class _StoredKey(msgspec.Struct):
    scheme: Scheme
    key: str


class SessionKeys:
    """Handlers of the service calls on session keys. Access is checked before they are called."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def handlers(self) -> Mapping[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return {ReadKey: self.read, SetKey: self.set, DropKey: self.drop}

    async def read(self, who: Identity, action: ReadKey) -> SessionKey | None:
        found = await self._documents.get(SPACE, action.session)
        if found is None:
            return None
        kept = msgspec.convert(found, _StoredKey)
        return SessionKey(kept.scheme, base64.b64decode(kept.key))

    async def set(self, who: Identity, action: SetKey) -> None:
        kept = {"scheme": action.key.scheme, "key": base64.b64encode(action.key.key).decode()}
        await self._documents.put(SPACE, action.session, kept)

    async def drop(self, who: Identity, action: DropKey) -> bool:
        return await self._documents.delete(SPACE, action.session)
