"""Service calls on credentials, users and session keys, and their results. Pure."""
