"""The change feed and the resources behind it: tasks, reminders that fire, agents that run on time, and who is told."""

from fairlead.notices.addresses import networks
from fairlead.notices.calling import Caller
from fairlead.notices.room import Room

__all__ = ["Caller", "Room", "networks"]
