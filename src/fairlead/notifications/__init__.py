"""The change feed and the resources behind it: tasks, reminders that fire, agents that run on time, and who is told."""
