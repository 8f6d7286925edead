"""What a session may be opened with: the folders and the permission modes, for clients that offer a choice."""

from typing import Final

import msgspec

from fairlead.model.requests import ServiceCall


class FolderMarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """How somebody wants to see a folder. `name`: called so, where it is not empty."""

    name: str = ""
    starred: bool = False
    archived: bool = False


UNMARKED: Final = FolderMarks()


class SessionChoices(msgspec.Struct, frozen=True):
    """`roots` are the allowed folders, `folders` those inside them that somebody has put on the list, `marks` those of
    the asking user."""

    roots: tuple[str, ...]
    folders: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    marks: dict[str, FolderMarks] = {}


class ReadSessionChoices(ServiceCall, frozen=True):
    """-> `Surroundings`"""


class ListFolder(ServiceCall, frozen=True):
    """-> str: the folder as it is listed from now on, links followed. OutsideRoots, NotFound."""

    path: str


class MarkFolder(ServiceCall, frozen=True):
    """-> None. The asking user's own marks of a folder, in place of those before."""

    path: str
    marks: FolderMarks
