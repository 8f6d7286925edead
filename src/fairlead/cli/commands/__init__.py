"""One file a command or a small family of commands. What only runs when a command runs is imported inside it."""
