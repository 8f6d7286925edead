"""How times are written for clients that come from JavaScript. Pure."""

from datetime import UTC, datetime


def moment(at: int) -> str:
    """Milliseconds since 1970 as JavaScript writes a time."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
