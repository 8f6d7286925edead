"""The operating system, without meaning: clock, child processes, file tails. Knows nothing of agents or sessions."""
