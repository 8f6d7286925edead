"""The service calls of this protocol."""

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall


class ListBookmarks(ServiceCall[list[int]], frozen=True):
    """-> list[int], the seqs that this user marked in the session."""

    session: SessionId


class AddBookmark(ServiceCall[list[int]], frozen=True):
    """-> list[int], as for `ListBookmarks`."""

    session: SessionId
    seq: int
