"""The services of this room."""

from typing import Final

from fairlead.plugins.manager import PluginManager, PluginSettings
from fairlead.system.services import Service, ServiceContext, ServiceFactory


def plugins(context: ServiceContext) -> Service:
    manager = context.add(PluginManager(context.store.here, context.clock, context.get(PluginSettings)))
    return Service(handlers=manager.handlers(), start=manager.start, stop=manager.stop, stops_first=True)


SERVICES: Final[tuple[ServiceFactory, ...]] = (plugins,)
