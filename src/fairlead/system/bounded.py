"""Dictionaries with a limit: the oldest entry makes room for a new one."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep_newest(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Store the value as the newest entry, and drop the oldest entries above `most`."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
