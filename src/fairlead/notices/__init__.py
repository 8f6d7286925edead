"""The change feed and the resources behind it: tasks, reminders that fire, agents that run on time, and who is told."""

from fairlead.notices.addresses import networks
from fairlead.notices.calling import HttpClient
from fairlead.notices.room import NotificationService

__all__ = ["HttpClient", "NotificationService", "networks"]
