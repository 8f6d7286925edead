"""The change feed and its resources (tasks, reminders, scheduled agents), and the delivery of notices to targets."""
