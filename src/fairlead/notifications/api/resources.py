"""Resources: items that a person keeps in the gateway, their storage, and the service calls for every kind.

Times are milliseconds since 1970; names on the wire are in camel case.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.store.peers import Stop
from fairlead.model.web.requests import ServiceCall
from fairlead.notifications.api.feed import FeedEntry, FeedItem, FeedPage


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of all resources. `deleted_at`: it was deleted, and can be restored if its kind allows that."""

    private: ClassVar[bool] = False
    """Whether items of this kind belong to the user who made them, and to the admins: they run sessions, or send or
    repeat their content. All other kinds are on a board that the users share."""

    id: str
    created_at: int = 0
    modified_at: int = 0
    deleted_at: int | None = None
    user: str = ""
    """The creator, for private kinds; empty: stored before creators were recorded, or on the shared board."""
    credential: str = ""
    """The creator's credential; the resource stops working when it is revoked."""


def owned_by(who: Identity, item: Resource) -> bool:
    """Whether this user may see the item."""
    return not item.private or not item.user or who.owns(item.user)


# --- storage


class StoredResource(msgspec.Struct, frozen=True):
    """A row of a `ResourceStore`, as JSON."""

    kind: str
    id: str
    data: bytes


class RowAsRead(msgspec.Struct, frozen=True):
    """A row as its caller read it; `data` None: there was none."""

    kind: str
    id: str
    data: bytes | None


class ResourceStore(Protocol):
    """The storage of resources and of the feed. Raises Unavailable, Damaged."""

    async def write(
        self,
        at: int,
        puts: Sequence[StoredResource] = (),
        removes: Sequence[tuple[str, str]] = (),
        items: Sequence[FeedItem] = (),
        most: Mapping[str, int] | None = None,
        expected: Sequence[RowAsRead] = (),
    ) -> tuple[FeedEntry, ...]:
        """Write the changed rows and their feed entries in one transaction. A row that is put again keeps its position
        in lists. The feed keeps its last 10 000 entries, and a kind in `most` at most that many rows. Durable when
        it returns. Conflict, and nothing is written, if a row in `expected` has changed since it was read."""

    async def get(self, kind: str, id: str) -> bytes | None: ...

    async def scan(self, kind: str, before: int | None, limit: int) -> tuple[tuple[int, bytes], ...]:
        """The rows with a position below `before`, with their positions, newest first."""

    async def count(self, kind: str) -> int: ...

    async def feed(self, after: int, limit: int) -> FeedPage: ...

    def listen(self, heard: Callable[[Sequence[FeedEntry]], None]) -> Stop:
        """Call `heard` on the loop with the entries of each write, of this node and of others, in the feed's order,
        after reads here show them, and before `write` returns."""

    async def forget(self, user: str) -> None:
        """Remove this user from the `seen` of every feed entry: a later user of the same name is another person."""


# --- service calls


class ListItems(ServiceCall[Any], frozen=True):
    """-> tuple of the items that `accept` accepts, newest first"""

    kind: type[Resource]
    accept: Callable[[Any], bool] = lambda item: True
    limit: int = 10_000
    deleted: bool = False


class ItemCall(ServiceCall[Any], frozen=True):
    kind: type[Resource]
    id: str


class GetItem(ItemCall, frozen=True):
    """-> the item; NotFound, also for a deleted item"""


class AddItem(ServiceCall[Any], frozen=True):
    """-> the item as stored; TooMany, Stale if its name is taken, BadRequest for an invalid schedule"""

    item: Resource
    value: str = ""
    """The plain text of a secret, which is encrypted."""


class EditItem(ItemCall, frozen=True):
    """-> the item; NotFound"""

    changes: dict[str, Any]


class RemoveItem(ItemCall, frozen=True):
    """-> the removed item; NotFound"""


class RestoreItem(ItemCall, frozen=True):
    """-> the item; NotFound, Stale if it is not deleted"""
