"""Settings that a client keeps for its user, so that they are the same in every browser. Only the client reads them."""

from typing import Any

from fairlead.model.requests import ServiceCall


class ReadPreferences(ServiceCall, frozen=True):
    """-> dict[str, Any]: what the asking user's client of this name has kept."""

    client: str


class SavePreferences(ServiceCall, frozen=True):
    """-> None. These in place of those of the same names. TooLarge."""

    client: str
    changes: dict[str, Any]
