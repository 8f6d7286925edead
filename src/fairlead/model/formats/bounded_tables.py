"""Tables of bounded size, for state that must not grow with the length of a session. Pure."""

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def put(table: dict[K, V], key: K, value: V, limit: int) -> None:
    """Set an entry of a table, and keep the table bounded."""
    table[key] = value
    trim(table, limit)


def keep_newest(table: dict[K, V], key: K, value: V, limit: int) -> None:
    """Store the value as the newest entry, and drop the oldest entries above the limit."""
    table.pop(key, None)
    table[key] = value
    while len(table) > limit:
        del table[next(iter(table))]


def trim(table: dict[K, V], limit: int) -> None:
    """Drop the oldest `limit // 2` entries of a table that exceeds its limit."""
    if len(table) > limit:
        for key in list(table)[: limit // 2]:
            del table[key]


def drop_oldest(table: dict[K, Any], limit: int, keep: K | None = None) -> None:
    """Drop the oldest entry, except `keep`, of a table that exceeds its limit."""
    if len(table) > limit:
        del table[next(key for key in table if key != keep)]
