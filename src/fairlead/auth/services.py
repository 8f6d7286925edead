"""The services of this room."""

from typing import Final

from fairlead.auth.session_keys import SessionKeys
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def session_keys(context: ServiceContext) -> Service:
    return Service(handlers=SessionKeys(context.store.documents).handlers())


SERVICES: Final[tuple[ServiceFactory, ...]] = (session_keys,)
