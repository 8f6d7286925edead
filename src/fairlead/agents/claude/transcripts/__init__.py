"""Finds, reads, repairs and watches the CLI's own transcript files, and matches them with the wire's records."""
