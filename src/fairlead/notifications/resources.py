"""Creates, edits, deletes and restores resources; each change is stored together with its feed entry.

A client's input is checked by its protocol; the checks here apply to every caller.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from fairlead.model.errors import Conflict, NotFound, Stale, TooMany
from fairlead.notifications.api import cognova
from fairlead.notifications.api.feed import Change, ChangeAction, ResourceKind
from fairlead.notifications.api.resources import Resource, ResourceStore, RowAsRead, StoredResource
from fairlead.notifications.api.targets import Destination
from fairlead.notifications.change_feed import ChangeFeed
from fairlead.notifications.cron import next_due
from fairlead.notifications.secret_box import FieldCipher
from fairlead.system.clock import Clock

T = TypeVar("T", bound=Resource)

MOST: Final = 10_000
"""Maximum number of items of each kind. Hook events and runs arise by themselves: their oldest ones are dropped."""
PAGE: Final = 200


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    """`soft`: deleted items are kept and can be restored. `endless`: the oldest items are dropped when there are too
    many."""

    name: str
    resource: ResourceKind | None
    label: str
    soft: bool = False
    endless: bool = False


KINDS: Final[Mapping[type[Resource], ResourceType]] = {
    cognova.Task: ResourceType(name="task", resource="task", label="title", soft=True),
    cognova.Project: ResourceType(name="project", resource="project", label="name", soft=True),
    cognova.Document: ResourceType(name="document", resource="document", label="title", soft=True),
    cognova.MemoryResource: ResourceType(name="memory", resource="memory", label="chunk_type"),
    cognova.Secret: ResourceType(name="secret", resource="secret", label="key"),
    cognova.HookEvent: ResourceType(name="hook", resource="hook", label="event_type", endless=True),
    cognova.Reminder: ResourceType(name="reminder", resource="reminder", label="message"),
    cognova.ScheduledAgent: ResourceType(name="agent", resource="agent", label="name"),
    cognova.AgentRun: ResourceType(name="run", resource=None, label="agent_id", endless=True),
    Destination: ResourceType(name="target", resource=None, label="url"),
}


class Resources:
    def __init__(self, store: ResourceStore, feed: ChangeFeed, seal: FieldCipher, clock: Clock) -> None:
        self._store = store
        self._feed = feed
        self._seal = seal
        self._clock = clock
        self._changing = asyncio.Lock()
        self.changed: Callable[[Resource], None] = lambda item: None
        """Called with every item that was created, edited, deleted or restored."""

    # --- reading

    async def get(self, kind: type[T], id: str, *, deleted: bool = False) -> T:
        return _decoded(kind, id, await self._store.get(KINDS[kind].name, id), deleted=deleted)

    async def list(
        self,
        kind: type[T],
        accept: Callable[[T], bool] = lambda item: True,
        limit: int = MOST,
        *,
        deleted: bool = False,
    ) -> tuple[T, ...]:
        """Accepted items, newest first. Reads pages, so that a long list does not block other work."""
        found: list[T] = []
        before: int | None = None
        decoder = msgspec.json.Decoder(kind)
        while True:
            rows = await self._store.scan(KINDS[kind].name, before, PAGE)
            for place, data in rows:
                before = place
                item = decoder.decode(data)
                if (deleted or item.deleted_at is None) and accept(item):
                    found.append(item)
                    if len(found) == limit:
                        return tuple(found)
            if len(rows) < PAGE:
                return tuple(found)

    async def reveal(self, key: str) -> str:
        return self._seal.open((await self.get(cognova.Secret, key)).sealed)

    # --- changing

    async def add(self, item: T, value: str = "") -> T:
        now = self._clock.now_ms()
        kind = KINDS[type(item)]
        made = structs.replace(item, created_at=now, modified_at=now)
        async with self._changing:
            if not kind.endless and await self._store.count(kind.name) >= MOST:
                raise TooMany(f"At most {MOST} of this kind are kept: delete some first.", kind=kind.name)
            if isinstance(made, cognova.Secret):
                if await self._store.get(kind.name, made.key) is not None:
                    raise Stale(f'Secret with key "{made.key}" already exists', key=made.key)
                made = structs.replace(made, sealed=self._seal.seal(value))
            made = _checked(made, None, now)
            await self._write(made, "create")
        return made

    async def edit(self, kind: type[T], id: str, changes: Mapping[str, Any]) -> T:
        changes = dict(changes)
        if kind is cognova.Secret and "value" in changes:
            changes["sealed"] = self._seal.seal(changes.pop("value"))

        def edited(before: T) -> T:
            now = self._clock.now_ms()
            return _checked(structs.replace(before, **changes, modified_at=now), before, now)

        return await self._change(kind, id, edited, "edit")

    async def remove(self, kind: type[T], id: str) -> T:
        return await self._change(
            kind, id, lambda before: structs.replace(before, deleted_at=self._clock.now_ms()), "delete"
        )

    async def restore(self, kind: type[T], id: str) -> T:
        def restored(before: T) -> T:
            if before.deleted_at is None:
                raise Stale(f"{KINDS[kind].name.capitalize()} is not deleted", kind=KINDS[kind].name)
            return structs.replace(before, deleted_at=None, modified_at=self._clock.now_ms())

        return await self._change(kind, id, restored, "restore", deleted=True)

    async def amend(
        self,
        kind: type[T],
        id: str,
        changes: Mapping[str, Any],
        *entries: Change,
        unless: Callable[[T], bool] = lambda item: False,
    ) -> bool:
        """Store a change that the gateway itself makes (a reminder fires), with these feed entries. False: nothing is
        changed, since `unless` holds."""

        def amended(before: T) -> T:
            if unless(before):
                raise _Unwanted
            return structs.replace(before, **changes)

        try:
            await self._change(kind, id, amended, entries)
        except _Unwanted:
            return False
        return True

    async def _change(
        self,
        kind: type[T],
        id: str,
        change: Callable[[T], T],
        action: ChangeAction | Sequence[Change],
        *,
        deleted: bool = False,
    ) -> T:
        """Read an item and write it changed; again, if another node has changed it meanwhile. `action`: what the feed
        says, or its entries."""
        async with self._changing:
            while True:
                data = await self._store.get(KINDS[kind].name, id)
                made = change(_decoded(kind, id, data, deleted=deleted))
                expected = RowAsRead(KINDS[kind].name, id, data)
                try:
                    if isinstance(action, str):
                        await self._write(made, action, expected)
                    else:
                        await self.put(made, *action, expected=expected)
                except Conflict:
                    continue
                return made

    async def put(self, item: Resource, *changes: Change, expected: RowAsRead | None = None) -> None:
        """Store the item as given, without the lock: for items with a single writer (a run). Conflict if the row is not
        the `expected` one."""
        kind = KINDS[type(item)]
        most = {kind.name: MOST} if kind.endless else None
        await self._feed.write(*changes, puts=[_kept(item)], most=most, expected=_one(expected))
        self.changed(item)

    async def _write(self, item: Resource, action: ChangeAction, expected: RowAsRead | None = None) -> None:
        kind = KINDS[type(item)]
        changes = () if kind.resource is None else (_change(item, kind.resource, action),)
        if action == "delete" and not kind.soft:
            removes = [(kind.name, _kept(item).id)]
            await self._feed.write(*changes, removes=removes, expected=_one(expected))
            self.changed(item)
        else:
            await self.put(item, *changes, expected=expected)


class _Unwanted(Exception):
    """The change is not to be made."""


def _one(row: RowAsRead | None) -> tuple[RowAsRead, ...]:
    return () if row is None else (row,)


def _decoded(kind: type[T], id: str, data: bytes | None, *, deleted: bool) -> T:
    item = None if data is None else msgspec.json.decode(data, type=kind)
    if item is None or (item.deleted_at is not None and not deleted):
        raise NotFound(KINDS[kind].name, id)
    return item


def named(item: Resource) -> str:
    return str(getattr(item, KINDS[type(item)].label))


def _change(item: Resource, resource: ResourceKind, action: ChangeAction) -> Change:
    id, name = item.id, named(item)
    if action == "delete" and isinstance(item, cognova.Secret):
        id = ""
    if action == "delete" and isinstance(item, cognova.MemoryResource):
        name = ""
    seen = (item.user,) if item.private and item.user else None
    return Change(resource=resource, action=action, id=id, name=name, seen=seen)


def _kept(item: Resource) -> StoredResource:
    # A secret is looked up by its key, which is unique.
    id = item.key if isinstance(item, cognova.Secret) else item.id
    return StoredResource(KINDS[type(item)].name, id, msgspec.json.encode(item))


def _checked(item: T, before: T | None, now: int) -> T:
    """Update the fields that depend on a change. Raises BadRequest for an invalid schedule."""
    if isinstance(item, cognova.Task):
        was = before.completed_at if isinstance(before, cognova.Task) else None
        return structs.replace(item, completed_at=(was or now) if item.status == "done" else None)
    if isinstance(item, cognova.ScheduledAgent):
        next_due(item.schedule, now)
    if isinstance(item, cognova.Reminder) and isinstance(before, cognova.Reminder):
        return structs.replace(item, notified=item.notified and item.remind_at == before.remind_at)
    return item
