"""The agent process of a session: start, recovery, hand-over, stop, and its log entries."""
