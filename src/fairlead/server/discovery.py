"""Finds the client protocols and the services: those of our own folders, and entry points of other packages."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from typing import Final

import fairlead
import fairlead.clients
from fairlead.model.views import Projection
from fairlead.model.web.routes import ClientProtocol
from fairlead.server.errors import CannotServe, ProjectionClash
from fairlead.system.extensions import entry_points_of
from fairlead.system.services import ServiceFactory

GROUP: Final = "fairlead.clients"
SERVICES: Final = "fairlead.services"


def discover() -> tuple[ClientProtocol, ...]:
    """Return our protocols by name, then those of other packages. Raises CannotServe for a folder without a
    PROTOCOL."""
    found: list[ClientProtocol] = []
    for module in pkgutil.iter_modules(fairlead.clients.__path__):
        name = f"{fairlead.clients.__name__}.{module.name}"
        found.append(_checked(getattr(importlib.import_module(name), "PROTOCOL", None), name))
    for point in entry_points_of(GROUP):
        found.append(_checked(point.load(), f"the entry point {point.name} ({point.value})"))
    return tuple(found)


def discover_services() -> tuple[ServiceFactory, ...]:
    """Return the services that our rooms declare in their module `services`, then those of other packages."""
    found: list[ServiceFactory] = []
    for room in pkgutil.iter_modules(fairlead.__path__):
        name = f"{fairlead.__name__}.{room.name}.services"
        if room.ispkg and room.name not in ("wiring", "system") and importlib.util.find_spec(name) is not None:
            found.extend(importlib.import_module(name).SERVICES)
    found.extend(point.load() for point in entry_points_of(SERVICES))
    return tuple(found)


def projections_of(protocols: Iterable[ClientProtocol]) -> dict[str, Projection]:
    """Return all projections by name. Raises ProjectionClash, which names both owners of a duplicate name."""
    found: dict[str, Projection] = {}
    owners: dict[str, str] = {}
    for protocol in protocols:
        for view in protocol.views:
            if view.name in found:
                raise ProjectionClash(view.name, owners[view.name], protocol.name)
            found[view.name], owners[view.name] = view, protocol.name
    return found


def _checked(protocol: object, where: str) -> ClientProtocol:
    if not isinstance(protocol, ClientProtocol):
        raise CannotServe(f"{where} declares no protocol: PROTOCOL must be a ClientProtocol.", where=where)
    return protocol
