"""The change feed and the resources behind it: tasks, reminders that fire, agents that run on time, and who is told."""

from fairlead.notifications.address_policy import networks
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.service import NotificationService

__all__ = ["HttpClient", "NotificationService", "networks"]
