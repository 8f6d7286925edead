"""The core: what happens to a session is decided here."""
