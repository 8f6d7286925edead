"""The audit log: who did what. Entries are chained by hash, and stay when sessions are deleted."""
