"""The store of a whole gateway: the logs and documents of the store port, and the resources of people.

Pure: types alone.
"""

from typing import Protocol

from fairlead.model.store import Store
from fairlead.notifications.api.resources import ResourceStore


class GatewayStore(Store, Protocol):
    @property
    def resources(self) -> ResourceStore: ...
