"""What a session may be opened with: the folders and the permission modes, for clients that offer a choice."""

import msgspec

from fairlead.model.requests import Action


class Surroundings(msgspec.Struct, frozen=True):
    """`roots` are the allowed folders, `folders` those inside them that somebody has put on the list."""

    roots: tuple[str, ...]
    folders: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()


class ReadSurroundings(Action, frozen=True):
    """-> `Surroundings`"""


class ListFolder(Action, frozen=True):
    """-> str: the folder as it is listed from now on, links followed. OutsideRoots, NotFound."""

    path: str
