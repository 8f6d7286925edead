"""Session keys, kept in the document store like the credentials."""

import msgspec

from fairlead.auth.api.session_keys import SPACE, DropKey, ReadKey, SessionKey, SetKey
from fairlead.model.auth import Identity
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceHandlers


class SessionKeys:
    """Handlers of the service calls on session keys. Access is checked before they are called."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def handlers(self) -> ServiceHandlers:
        return {ReadKey: self.read, SetKey: self.set, DropKey: self.drop}

    async def read(self, who: Identity, action: ReadKey) -> SessionKey | None:
        found = await self._documents.get(SPACE, action.session)
        return None if found is None else msgspec.convert(found, SessionKey)

    async def set(self, who: Identity, action: SetKey) -> None:
        # The key's bytes are stored in base64.
        await self._documents.put(SPACE, action.session, msgspec.to_builtins(action.key))

    async def drop(self, who: Identity, action: DropKey) -> bool:
        return await self._documents.delete(SPACE, action.session)
