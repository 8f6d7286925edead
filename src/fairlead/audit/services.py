"""The service of this room: reading the log. Access is checked before the handler is called."""

from typing import Final

from fairlead.audit.api import ReadAudit
from fairlead.audit.log import AuditLog
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def reader(context: ServiceContext) -> Service:
    return Service(handlers={ReadAudit: context.get(AuditLog).read})


SERVICES: Final[tuple[ServiceFactory, ...]] = (reader,)
