"""The folders and permission modes with which a session may be opened, for clients that offer a choice."""

from typing import Final

import msgspec

from fairlead.model.web.requests import ServiceCall


class FolderMarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's display settings of a folder. `name`: shown in place of the folder's name if not empty."""

    name: str = ""
    starred: bool = False
    archived: bool = False


UNMARKED: Final = FolderMarks()


class SessionChoices(msgspec.Struct, frozen=True):
    """`roots` are the allowed folders, `folders` are folders inside them that users have added, `marks` are the calling
    user's."""

    roots: tuple[str, ...]
    folders: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    marks: dict[str, FolderMarks] = {}


class ReadSessionChoices(ServiceCall["SessionChoices"], frozen=True):
    """-> `SessionChoices`"""


class ListFolder(ServiceCall[str], frozen=True):
    """-> str: the added folder as it is listed, links followed. OutsideRoots, NotFound."""

    path: str


class MarkFolder(ServiceCall[None], frozen=True):
    """-> None. Replaces the calling user's marks of a folder."""

    path: str
    marks: FolderMarks
