"""The services of this room."""

from typing import Final

from fairlead.system.services import Service, ServiceContext, ServiceFactory
from fairlead.uploads.service import Uploads


def uploads(context: ServiceContext) -> Service:
    kept = context.get(Uploads)
    return Service(handlers=kept.handlers(), forget_user=kept.forget)


SERVICES: Final[tuple[ServiceFactory, ...]] = (uploads,)
