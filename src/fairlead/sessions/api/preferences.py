"""Settings that a client stores for its user, to be the same in every browser. Only the client reads them."""

from typing import Any

from fairlead.model.web.requests import ServiceCall


class ReadPreferences(ServiceCall[dict[str, Any]], frozen=True):
    """-> dict[str, Any]: the settings that the client of this name stored for the calling user."""

    client: str


class SavePreferences(ServiceCall[None], frozen=True):
    """-> None. Replaces the settings of the same names. TooLarge."""

    client: str
    changes: dict[str, Any]
