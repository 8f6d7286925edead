"""Entry points of installed packages: how other packages add protocols, services and agents."""

import functools
from importlib.metadata import EntryPoint, distributions
from typing import Final

_OURS: Final = "fairlead."
"""The beginning of our groups' names."""


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of one of our groups, by name."""
    return sorted((point for point in _installed() if point.group == group), key=lambda point: point.name)


@functools.cache
def _installed() -> tuple[EntryPoint, ...]:
    """Read once, for all groups: it opens the metadata of every installed package."""
    packages = {str(package.name).lower(): package for package in reversed(list(distributions()))}
    return tuple(
        point for package in packages.values() for point in package.entry_points if point.group.startswith(_OURS)
    )
