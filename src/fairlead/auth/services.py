"""The services of this room: session keys, kept in the document store like the credentials."""

from typing import Final

import msgspec

from fairlead.auth.api.session_keys import SPACE, DropKey, ReadKey, SessionKey, SetKey
from fairlead.model.auth import Identity
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def session_keys(context: ServiceContext) -> Service:
    """The handlers of the service calls on session keys. Access is checked before they are called."""
    documents = context.store.documents

    async def read(who: Identity, action: ReadKey) -> SessionKey | None:
        found = await documents.get(SPACE, action.session)
        return None if found is None else msgspec.convert(found, SessionKey)

    async def put(who: Identity, action: SetKey) -> None:
        # The key's bytes are stored in base64.
        await documents.put(SPACE, action.session, msgspec.to_builtins(action.key))

    async def drop(who: Identity, action: DropKey) -> bool:
        return await documents.delete(SPACE, action.session)

    return Service(handlers={ReadKey: read, SetKey: put, DropKey: drop})


SERVICES: Final[tuple[ServiceFactory, ...]] = (session_keys,)
