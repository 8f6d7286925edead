"""The services of this room."""

from typing import Final

from fairlead.notifications.service import NotificationService
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def notifications(context: ServiceContext) -> Service:
    made = context.get(NotificationService)
    return Service(
        handlers=made.handlers(),
        start=made.start,
        stop=made.stop,
        forget_user=made.forget,
        forget_credential=made.revoked,
    )


SERVICES: Final[tuple[ServiceFactory, ...]] = (notifications,)
