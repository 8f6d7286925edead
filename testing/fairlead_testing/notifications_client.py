"""A client of /notifications as programs of users have it: what it shows, its position, and how it reconnects."""

from typing import Any


class NotificationsClient:
    """Pure: takes frames, returns frames to send. `preferences` are those of `GET /api/settings`; by default all
    changes are shown.

    `stale`: the feed no longer has the missed entries; load the lists again and reset it."""

    def __init__(self, preferences: dict[str, Any] | None = None) -> None:
        self.preferences = preferences or {}
        self.connected = False
        self.stale = False
        self.cursor: str | None = None
        self.changes: list[dict[str, Any]] = []
        self.notices: list[dict[str, Any]] = []

    def subscribe(self, *topics: str) -> dict[str, Any]:
        """The frame to send after each `connected`."""
        frame: dict[str, Any] = {"type": "subscribe", "topics": list(topics)}
        return frame if self.cursor is None else frame | {"cursor": self.cursor}

    def receive(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "connected":
                self.connected = True
            case "subscribed":
                self.stale = self.stale or frame["verdict"] == "gap"
            case "resource_change":
                self.changes.append(frame)
            case "notice":
                self.notices.append(frame)
        self.cursor = frame.get("cursor", self.cursor)

    def closed(self) -> None:
        self.connected = False

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The changes that the user wants to see: the server does not filter."""
        return [change for change in self.changes if self._wanted(change["resource"], change["action"])]

    def _wanted(self, resource: str, action: str) -> bool:
        preference = self.preferences.get("notifications", {}).get(resource, {"enabled": True})
        return bool(preference["enabled"]) and bool(preference.get("subtypes", {}).get(action, True))
