"""Connects the parts of this package, and handles the service calls of the client protocols."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import structs

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import Busy, FairleadError, NotFound, Stale
from fairlead.model.gateway import Gateway
from fairlead.model.ids import SessionId
from fairlead.model.store import Alone, Documents, Peers, Stop
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.session_changes import What
from fairlead.notifications.api import cognova, feed, resources, targets
from fairlead.notifications.change_feed import ChangeFeed, FeedSubscriber
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.outbox import Outbox
from fairlead.notifications.resources import KINDS, Resources
from fairlead.notifications.scheduled_runs import ScheduledRuns
from fairlead.notifications.scheduler import Scheduler
from fairlead.notifications.secret_box import FieldCipher
from fairlead.notifications.session_bridge import Describe, SessionBridge
from fairlead.system.clock import Clock
from fairlead.system.tasks import TaskSet

log = logging.getLogger("fairlead.notifications")

T = TypeVar("T", bound=resources.Resource)

PREFERENCES: Final = "cognova.preferences"
"""The documents with each user's feed preferences."""


class NotificationService:
    """The core calls `committed` and `session_changed` from its start on: call `begin` before it, and `start` after."""

    def __init__(
        self,
        store: resources.ResourceStore,
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
        secrets_key: bytes = b"",
        peers: Peers | None = None,
    ) -> None:
        """`secrets_key` seals secrets; empty: a key in the folder. `peers`: the other nodes, of which one does the work
        that is done once."""
        self._documents = documents
        self._public_url = public_url.rstrip("/")
        seal = FieldCipher(folder, secrets_key)
        self.feed = ChangeFeed(store, clock)
        self.resources = Resources(store, self.feed, seal, clock)
        self._cell = not isinstance(peers, Alone | None)
        leads = peers.leads if peers is not None and self._cell else None
        self.outbox = Outbox(self.resources, self.feed, documents, seal, caller, clock, self._link, who_is, leads)
        self.sessions = SessionBridge(self.feed, describe)
        self.runs = ScheduledRuns(self.resources, gateway, clock, fresh, peers.node if peers and self._cell else "")
        self.scheduler = Scheduler(self.resources, clock, self._ring, leads)
        self._store = store
        self._following = TaskSet(ignored=(FairleadError,))
        self._stop_following: Stop = lambda: None
        self.resources.changed = self._changed

    async def begin(self) -> None:
        await self.feed.start()

    async def start(self) -> None:
        if self._cell:
            self._stop_following = self._store.listen(self._on_entries)
        await self.runs.start()
        await self.scheduler.start()
        await self.outbox.start()

    async def stop(self) -> None:
        self._stop_following()
        await self._following.close()
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
            targets.Destination, lambda target: credential in (target.device, target.credential)
        ):
            await self.resources.remove(targets.Destination, target.id)
        for agent in await self.resources.list(cognova.ScheduledAgent, lambda agent: agent.credential == credential):
            if agent.enabled:
                await self.resources.edit(cognova.ScheduledAgent, agent.id, {"enabled": False})
            self.runs.abandon(agent)
        await self.outbox.codes.revoked(credential)

    async def forget(self, user: str) -> None:
        """Remove everything that belonged only to a deleted user."""
        await self.runs.forget(user)
        for kind in [kind for kind in KINDS if kind.private]:
            for item in await self.resources.list(kind, lambda item: item.user == user):
                await self.resources.remove(kind, item.id)
        await self._documents.delete(PREFERENCES, user)
        # Notices that were queued while the user still existed are written first.
        await self.sessions.stop()
        await self.feed.forget(user)

    # --- service calls

    def handlers(self) -> ServiceHandlers:
        return {
            feed.JoinFeed: self._join,
            feed.ReadFeed: self._read,
            feed.ReadFeedPreferences: lambda who, call: self._documents.get(PREFERENCES, who.user),
            feed.WriteFeedPreferences: lambda who, call: self._documents.put(PREFERENCES, who.user, call.value),
            resources.ListItems: self._list,
            resources.GetItem: lambda who, call: self._own_item(who, call.kind, call.id),
            resources.AddItem: lambda who, call: self.resources.add(_made_by(who, call.item), call.value),
            resources.EditItem: self._edit,
            resources.RemoveItem: self._remove,
            resources.RestoreItem: self._restore,
            cognova.RevealSecret: lambda who, call: self.resources.reveal(call.key),
            cognova.RunAgent: self._run,
            cognova.CancelAgent: self._cancel,
            targets.AddTarget: lambda who, call: self.outbox.add(_made_by(who, call.target)),
            targets.TryTarget: self._try_target,
            targets.PushKey: lambda who, call: self.outbox.push_key(),
            targets.RedeemAnswerCode: lambda who, call: self.outbox.codes.redeem(call.code, who.credential),
        }

    async def _join(self, who: Identity, call: feed.JoinFeed) -> FeedSubscriber:
        return self.feed.join(who, call.codec)

    async def _read(self, who: Identity, call: feed.ReadFeed) -> feed.FeedPage:
        before = self.feed.head + 1 if call.before is None else call.before
        found: list[feed.FeedEntry] = []
        while True:
            page = await self.feed.read(max(before - 1 - call.limit, 0), call.limit)
            visible = [entry for entry in page.entries if entry.seq < before and feed.is_visible_to(who, entry.item)]
            found = [*visible, *found][-call.limit :]
            before = max(before - call.limit, 1)
            if len(found) == call.limit or before <= max(page.first, 1):
                return structs.replace(page, entries=tuple(found))

    async def _list(self, who: Identity, call: resources.ListItems) -> tuple[resources.Resource, ...]:
        def accept(item: resources.Resource) -> bool:
            return resources.owned_by(who, item) and call.accept(item)

        return await self.resources.list(call.kind, accept, call.limit, deleted=call.deleted)

    async def _own_item(self, who: Identity, kind: type[T], id: str, *, deleted: bool = False) -> T:
        """The item, if it belongs to this user. Raises NotFound, also for another user's item."""
        item = await self.resources.get(kind, id, deleted=deleted)
        if not resources.owned_by(who, item):
            raise NotFound(KINDS[kind].name, id)
        return item

    async def _edit(self, who: Identity, call: resources.EditItem) -> resources.Resource:
        await self._own_item(who, call.kind, call.id)
        changes = call.changes
        if call.kind is cognova.ScheduledAgent and changes.get("enabled"):
            changes = {**changes, "credential": who.credential}
        return await self.resources.edit(call.kind, call.id, changes)

    async def _remove(self, who: Identity, call: resources.RemoveItem) -> resources.Resource:
        await self._own_item(who, call.kind, call.id)
        return await self.resources.remove(call.kind, call.id)

    async def _restore(self, who: Identity, call: resources.RestoreItem) -> resources.Resource:
        await self._own_item(who, call.kind, call.id, deleted=True)
        return await self.resources.restore(call.kind, call.id)

    async def _run(self, who: Identity, call: cognova.RunAgent) -> cognova.AgentRun:
        return await self.runs.run(await self._own_item(who, cognova.ScheduledAgent, call.id))

    async def _cancel(self, who: Identity, call: cognova.CancelAgent) -> int:
        return await self.runs.cancel(await self._own_item(who, cognova.ScheduledAgent, call.id))

    async def _try_target(self, who: Identity, call: targets.TryTarget) -> None:
        await self._own_item(who, targets.Destination, call.id)
        await self.outbox.test(call.id)

    # --- triggered inside the gateway

    def _link(self, session: SessionId | None) -> str:
        """The URL that opens a session. It decides nothing: an open request is answered on that page."""
        if not self._public_url:
            return ""
        return f"{self._public_url}/app/s/{session}" if session else f"{self._public_url}/"

    def _changed(self, item: resources.Resource) -> None:
        self.scheduler.changed(item)
        self.outbox.changed(item)
        if isinstance(item, cognova.ScheduledAgent) and item.deleted_at is not None:
            self.runs.abandon(item)

    def _on_entries(self, entries: Sequence[feed.FeedEntry]) -> None:
        """Note what other nodes changed or rang."""
        kinds: dict[str, type[cognova.Reminder | cognova.ScheduledAgent]]
        kinds = {"reminder": cognova.Reminder, "agent": cognova.ScheduledAgent}
        for entry in entries:
            if isinstance(entry.item, feed.Change) and entry.item.resource in kinds:
                self._following.spawn(self.scheduler.refresh(kinds[entry.item.resource], entry.item.id))

    async def _ring(self, item: resources.Resource, due: int) -> None:
        if isinstance(item, cognova.Reminder):
            change = feed.Change(resource="reminder", action="complete", id=item.id, name=item.message)
            if await self.resources.amend(
                cognova.Reminder, item.id, {"notified": True}, change, unless=lambda found: found.notified
            ):
                log.info("reminder fired", extra={"reminder": item.id})
        elif isinstance(item, cognova.ScheduledAgent):
            try:
                await self.runs.run(item, due)
            except Busy:
                log.info("scheduled run skipped", extra={"agent": item.id, "reason": "it still runs"})
            except Stale:
                log.info("scheduled run skipped", extra={"agent": item.id, "reason": "another node runs it"})


def _made_by(who: Identity, item: T) -> T:
    return structs.replace(item, user=who.user, credential=who.credential) if item.private else item
