"""Connects the parts of this package, and handles the service calls of the client protocols."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import structs

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import Busy, NotFound
from fairlead.model.gateway import Gateway
from fairlead.model.ids import SessionId
from fairlead.model.store import Documents
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.session_changes import What
from fairlead.notifications.api import (
    PRIVATE,
    AddItem,
    AddTarget,
    AgentRun,
    AnswerOf,
    CancelAgent,
    Change,
    Destination,
    EditItem,
    FeedEntry,
    FeedPage,
    GetItem,
    JoinFeed,
    ListItems,
    PushKey,
    ReadFeed,
    ReadFeedPreferences,
    RedeemAnswerCode,
    Reminder,
    RemoveItem,
    Resource,
    ResourceStore,
    RestoreItem,
    RevealSecret,
    RunAgent,
    ScheduledAgent,
    TryTarget,
    WriteFeedPreferences,
    is_visible_to,
    owned_by,
)
from fairlead.notifications.change_feed import ChangeFeed, FeedSubscriber
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.outbox import Outbox
from fairlead.notifications.resources import KINDS, Resources
from fairlead.notifications.scheduled_runs import ScheduledRuns
from fairlead.notifications.scheduler import Scheduler
from fairlead.notifications.secret_box import FieldCipher
from fairlead.notifications.session_bridge import Describe, SessionBridge
from fairlead.system.clock import Clock

log = logging.getLogger("fairlead.notifications")

PREFERENCES: Final = "cognova.preferences"
"""The documents with each user's feed preferences."""


class NotificationService:
    """The core calls `committed` and `news` from its start on: call `begin` before it starts, and `start` after."""

    def __init__(
        self,
        shelf: ResourceStore,
        documents: Documents,
        gateway: Callable[[], Gateway],
        folder: Path,
        clock: Clock,
        *,
        fresh: Callable[[], str],
        describe: Describe,
        caller: HttpClient,
        who_is: Callable[[str], Identity | None],
        public_url: str = "",
    ) -> None:
        self._documents = documents
        self._public_url = public_url.rstrip("/")
        seal = FieldCipher(folder)
        self.feed = ChangeFeed(shelf, clock)
        self.resources = Resources(shelf, self.feed, seal, clock)
        self.outbox = Outbox(self.resources, self.feed, documents, seal, caller, clock, self._link, who_is)
        self.sessions = SessionBridge(self.feed, describe)
        self.runs = ScheduledRuns(self.resources, gateway, clock, fresh)
        self.scheduler = Scheduler(self.resources, clock, self._ring)
        self.resources.changed = self._changed

    async def begin(self) -> None:
        await self.feed.start()

    async def start(self) -> None:
        await self.runs.start()
        await self.scheduler.start()
        await self.outbox.start()

    async def stop(self) -> None:
        await self.scheduler.stop()
        await self.runs.stop()
        await self.sessions.stop()
        await self.outbox.stop()

    # --- notifications from the core

    def committed(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        self.sessions.committed(session, events)
        self.runs.committed(session, events)

    def session_changed(self, session: SessionId, what: What) -> None:
        self.sessions.session_changed(session, what)
        if what == "deleted":
            self.runs.deleted(session)

    async def revoked(self, credential: str) -> None:
        """Remove a revoked credential's targets and disable its scheduled agents. A schedule stays stored, and another
        user may enable it again."""
        for target in await self.resources.list(
            Destination, lambda target: credential in (target.device, target.credential)
        ):
            await self.resources.remove(Destination, target.id)
        for agent in await self.resources.list(ScheduledAgent, lambda agent: agent.credential == credential):
            if agent.enabled:
                await self.resources.edit(ScheduledAgent, agent.id, {"enabled": False})
            self.runs.abandon(agent)
        await self.outbox.codes.revoked(credential)

    async def forget(self, user: str) -> None:
        """Remove everything that belonged only to a deleted user."""
        await self.runs.forget(user)
        for kind in PRIVATE:
            for item in await self.resources.list(kind, lambda item: item.user == user):
                await self.resources.remove(kind, item.id)
        await self._documents.delete(PREFERENCES, user)
        # Notices that were queued while the user still existed are written first.
        await self.sessions.stop()
        await self.feed.forget(user)

    # --- service calls

    def performers(self) -> Mapping[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return {
            JoinFeed: self._join,
            ListItems: self._list,
            GetItem: self._get,
            AddItem: self._add,
            EditItem: self._edit,
            RemoveItem: self._remove,
            RestoreItem: self._restore,
            RevealSecret: self._reveal,
            RunAgent: self._run,
            CancelAgent: self._cancel,
            ReadFeedPreferences: self._preferences,
            WriteFeedPreferences: self._prefer,
            AddTarget: self._add_target,
            TryTarget: self._try_target,
            PushKey: self._push_key,
            ReadFeed: self._read,
            RedeemAnswerCode: self._spend,
        }

    async def _join(self, who: Identity, action: JoinFeed) -> FeedSubscriber:
        return self.feed.join(who, action.codec)

    async def _list(self, who: Identity, action: ListItems) -> tuple[Resource, ...]:
        def accept(item: Resource) -> bool:
            return owned_by(who, item) and action.accept(item)

        return await self.resources.list(action.kind, accept, action.limit, deleted=action.deleted)

    async def _get(self, who: Identity, action: GetItem) -> Resource:
        return await self._theirs(who, action.kind, action.id)

    async def _theirs(self, who: Identity, kind: type[Resource], id: str, *, deleted: bool = False) -> Resource:
        """The item, if it belongs to this user. Raises NotFound, also for another user's item."""
        item = await self.resources.get(kind, id, deleted=deleted)
        if not owned_by(who, item):
            raise NotFound(KINDS[kind].name, id)
        return item

    async def _add(self, who: Identity, action: AddItem) -> Resource:
        return await self.resources.add(_made_by(who, action.item), action.value)

    async def _edit(self, who: Identity, action: EditItem) -> Resource:
        await self._theirs(who, action.kind, action.id)
        changes = action.changes
        if action.kind is ScheduledAgent and changes.get("enabled"):
            changes = {**changes, "credential": who.credential}
        return await self.resources.edit(action.kind, action.id, changes)

    async def _remove(self, who: Identity, action: RemoveItem) -> Resource:
        await self._theirs(who, action.kind, action.id)
        return await self.resources.remove(action.kind, action.id)

    async def _restore(self, who: Identity, action: RestoreItem) -> Resource:
        await self._theirs(who, action.kind, action.id, deleted=True)
        return await self.resources.restore(action.kind, action.id)

    async def _reveal(self, who: Identity, action: RevealSecret) -> str:
        return await self.resources.reveal(action.key)

    async def _run(self, who: Identity, action: RunAgent) -> AgentRun:
        await self._theirs(who, ScheduledAgent, action.id)
        return await self.runs.run(await self.resources.get(ScheduledAgent, action.id))

    async def _cancel(self, who: Identity, action: CancelAgent) -> int:
        await self._theirs(who, ScheduledAgent, action.id)
        return await self.runs.cancel(await self.resources.get(ScheduledAgent, action.id))

    async def _preferences(self, who: Identity, action: ReadFeedPreferences) -> Any:
        return await self._documents.get(PREFERENCES, who.user)

    async def _prefer(self, who: Identity, action: WriteFeedPreferences) -> None:
        await self._documents.put(PREFERENCES, who.user, action.value)

    async def _add_target(self, who: Identity, action: AddTarget) -> tuple[Destination, str]:
        return await self.outbox.add(_made_by(who, action.target))

    async def _try_target(self, who: Identity, action: TryTarget) -> None:
        await self._theirs(who, Destination, action.id)
        await self.outbox.test(action.id)

    async def _push_key(self, who: Identity, action: PushKey) -> str:
        return await self.outbox.push_key()

    async def _read(self, who: Identity, action: ReadFeed) -> FeedPage:
        before = self.feed.head + 1 if action.before is None else action.before
        found: list[FeedEntry] = []
        while True:
            page = await self.feed.read(max(before - 1 - action.limit, 0), action.limit)
            shown = [entry for entry in page.entries if entry.seq < before and is_visible_to(who, entry.item)]
            found = [*shown, *found][-action.limit :]
            before = max(before - action.limit, 1)
            if len(found) == action.limit or before <= max(page.first, 1):
                return structs.replace(page, entries=tuple(found))

    async def _spend(self, who: Identity, action: RedeemAnswerCode) -> AnswerOf:
        return await self.outbox.codes.redeem(action.code, who.credential)

    # --- triggered inside the gateway

    def _link(self, session: SessionId | None) -> str:
        """The URL that opens a session. It decides nothing: an open request is answered on that page."""
        if not self._public_url:
            return ""
        return f"{self._public_url}/app/s/{session}" if session else f"{self._public_url}/"

    def _changed(self, item: Resource) -> None:
        self.scheduler.changed(item)
        self.outbox.changed(item)
        if isinstance(item, ScheduledAgent) and item.deleted_at is not None:
            self.runs.abandon(item)

    async def _ring(self, item: Resource) -> None:
        if isinstance(item, Reminder):
            change = Change(resource="reminder", action="complete", id=item.id, name=item.message)
            await self.resources.amend(Reminder, item.id, {"notified": True}, change)
            log.info("reminder fired", extra={"reminder": item.id})
        elif isinstance(item, ScheduledAgent):
            try:
                await self.runs.run(item)
            except Busy:
                log.info("agent left out", extra={"agent": item.id, "reason": "it still runs"})


T = TypeVar("T", bound=Resource)


def _made_by(who: Identity, item: T) -> T:
    return structs.replace(item, user=who.user, credential=who.credential) if isinstance(item, PRIVATE) else item
