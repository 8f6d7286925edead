"""Which client protocols there are: folders under `fairlead.clients`, and entry points of other packages."""

import importlib
import pkgutil
from importlib.metadata import entry_points
from typing import Final

import fairlead.clients
from fairlead.model.routes import ClientProtocol
from fairlead.server.errors import CannotServe

GROUP: Final = "fairlead.clients"


def discover() -> tuple[ClientProtocol, ...]:
    """Ours first, by name, then those of others. A folder without a PROTOCOL is a mistake and is told."""
    found: list[ClientProtocol] = []
    for module in pkgutil.iter_modules(fairlead.clients.__path__):
        name = f"{fairlead.clients.__name__}.{module.name}"
        found.append(_checked(getattr(importlib.import_module(name), "PROTOCOL", None), name))
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found.append(_checked(point.load(), f"the entry point {point.name} ({point.value})"))
    return tuple(found)


def _checked(protocol: object, where: str) -> ClientProtocol:
    if not isinstance(protocol, ClientProtocol):
        raise CannotServe(f"{where} declares no protocol: PROTOCOL must be a ClientProtocol.", where=where)
    return protocol
