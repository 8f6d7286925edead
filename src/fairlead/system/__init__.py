"""Access to the operating system: clock, child processes, file tails. Knows nothing of agents or sessions."""
