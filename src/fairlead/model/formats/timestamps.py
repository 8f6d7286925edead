"""Formats times for JavaScript clients. Pure."""

from datetime import UTC, datetime


def iso_timestamp(at: int) -> str:
    """Format milliseconds since 1970 like JavaScript's `toISOString`."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
