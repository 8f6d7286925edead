"""One file per command or small family of commands. Imports that only a command needs are inside its function."""
