"""How long a test waits for what has to happen. Only a hang takes so long: a loaded machine must not fail a test."""

PATIENCE = 300.0
