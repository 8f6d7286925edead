"""The core: it decides every change of a session."""
