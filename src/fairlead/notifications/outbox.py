"""Delivery to targets: each gets the entries of its topics in order, from its position on.

A failed delivery is retried with growing pauses, then skipped. A target's position is stored when it has accepted an
entry, so that a restart loses no entry and repeats at most one.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, FairleadError, NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import Documents
from fairlead.notifications import payloads
from fairlead.notifications.answer_codes import AnswerCodes
from fairlead.notifications.api.feed import Change, FeedEntry, FeedItem, FeedNotice, is_visible_to
from fairlead.notifications.api.resources import Resource
from fairlead.notifications.api.targets import Destination, TargetFailed, TargetRefused
from fairlead.notifications.change_feed import ChangeFeed
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.resources import Resources
from fairlead.notifications.secret_box import FieldCipher
from fairlead.system.clock import Clock
from fairlead.system.tasks import TaskSet

log = logging.getLogger("fairlead.notifications")

PAUSES_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
"""Pauses between attempts; a server that restarts is back within one of them."""
STALE_MS: Final = 3_600_000
"""Entries that are older than this when their turn comes are not sent."""
MOST: Final = 1000
MOST_EACH: Final = 20
"""Maximum number of targets of one user."""
_ADMIN: Final = Identity("", "", "", frozenset({"admin"}))
PAGE: Final = 100
REFRESH_S: Final = 30.0
LEADS_S: Final = 5.0
"""How often a node looks for targets of other nodes, and one that does not lead whether it does."""
KEYS: Final = "push"
"""The document with Fairlead's own key for push services."""


@dataclass(eq=False, repr=False)
class Outbox:
    """`_link` makes the URL that opens a session; empty if the gateway has no public URL. `_who_is` returns the
    identity of a credential; None if the credential is no longer valid."""

    _resources: Resources
    _feed: ChangeFeed
    _documents: Documents
    _seal: FieldCipher
    _caller: HttpClient
    _clock: Clock
    _link: Callable[[SessionId | None], str]
    _who_is: Callable[[str], Identity | None]
    _leads: Callable[[], bool] | None = None
    """Of several nodes the one that leads sends; None: there is only this one."""
    _deliveries: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _tasks: TaskSet = field(default_factory=TaskSet)
    _topics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _grown: asyncio.Event = field(default_factory=asyncio.Event)
    _key: str = ""

    def __post_init__(self) -> None:
        self.codes = AnswerCodes(self._documents, self._clock)
        self._feed.listeners.append(self._wake)

    async def start(self) -> None:
        for target in await self._resources.list(Destination):
            if target.kind == "push" and not (target.device or target.credential):
                # Stored before targets had an owner: it could not be revoked, and its rights are unknown.
                log.info("push subscription without owner removed", extra={"target": target.id})
                await self._resources.remove(Destination, target.id)
            else:
                self._start_delivery(target)
        if self._leads is not None:
            self._tasks.spawn(self._refresh_forever())

    async def _refresh_forever(self) -> None:
        """Take over the targets that other nodes have added or removed."""
        while True:
            await self._clock.sleep(REFRESH_S)
            try:
                found = {target.id: target for target in await self._resources.list(Destination)}
            except FairleadError as error:
                log.warning("targets not readable", extra={"error": error.message})
                continue
            for id in self._deliveries.keys() - found.keys():
                self._topics.pop(id, None)
                self._deliveries.pop(id).cancel()
            for target in found.values():
                self.changed(target)

    async def stop(self) -> None:
        await self._tasks.close()
        self._deliveries.clear()

    # --- requests

    async def add(self, target: Destination) -> tuple[Destination, str]:
        """Add a target. Returns it and the secret that signs its webhooks, which is shown only once."""
        if len(self._deliveries) >= MOST:
            raise BadRequest(f"At most {MOST} targets are kept: delete some first.")
        if len(await self._resources.list(Destination, lambda kept: kept.user == target.user)) >= MOST_EACH:
            raise BadRequest(f"At most {MOST_EACH} targets are kept for a user: delete some first.")
        if target.kind == "push":
            from fairlead.notifications import web_push

            web_push.check_keys(target.p256dh, target.auth)
        await self._caller.check(target.url)
        secret = target.secret or (secrets.token_urlsafe(32) if target.kind == "webhook" else "")
        kept = structs.replace(target, seq=self._feed.head, secret=self._seal.seal(secret) if secret else "")
        return await self._resources.add(kept), secret

    async def test(self, id: str) -> None:
        """Send a test notice. Raises TargetRefused, TargetFailed."""
        target = await self._resources.get(Destination, id)
        notice = FeedNotice(
            topic="session",
            kind="test",
            session=SessionId(""),
            title="Test of Fairlead",
            message="Notices reach this target.",
        )
        status = await self._post(target, FeedEntry(0, self._clock.now_ms(), notice))
        if not 200 <= status < 300:
            raise TargetFailed(f"{target.url[:200]} answered {status}.", status=status)

    async def push_key(self) -> str:
        from fairlead.notifications import web_push

        return web_push.public_key(await self._own_key())

    def changed(self, item: Resource) -> None:
        if isinstance(item, Destination):
            if item.deleted_at is not None:
                self._topics.pop(item.id, None)
                if delivery := self._deliveries.pop(item.id, None):
                    delivery.cancel()
            elif item.id not in self._deliveries:
                self._start_delivery(item)
            else:
                self._topics[item.id] = item.topics

    # --- delivery

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    def _start_delivery(self, target: Destination) -> None:
        self._topics[target.id] = target.topics
        self._deliveries[target.id] = self._tasks.spawn(self._deliver_all(target))

    async def _deliver_all(self, target: Destination) -> None:
        while True:
            try:
                while self._leads is not None and not self._leads():
                    await self._clock.sleep(LEADS_S)
                    # The node that leads has gone on.
                    target = await self._resources.get(Destination, target.id)
                while self._feed.head <= target.seq:
                    await self._grown.wait()
                if self._leads is not None and not self._leads():
                    continue
                page = await self._feed.read(target.seq, PAGE)
                for entry in page.entries:
                    target = await self._handle_entry(target, entry)
            except NotFound:
                return
            except FairleadError as error:
                log.warning("feed not readable for a target", extra={"target": target.id, "error": error.message})
                await self._clock.sleep(PAUSES_S[-1])

    async def _handle_entry(self, target: Destination, entry: FeedEntry) -> Destination:
        if not self._concerns(target, entry):
            # Not stored: such entries are cheap to check again.
            return structs.replace(target, seq=entry.seq)
        done = {"seq": entry.seq, "failed": await self._deliver(target, entry)}
        await self._resources.amend(Destination, target.id, done)
        return structs.replace(target, **done)

    def _concerns(self, target: Destination, entry: FeedEntry) -> bool:
        if _names(entry).isdisjoint(self._topics.get(target.id, ())) or entry.at <= self._clock.now_ms() - STALE_MS:
            return False
        # The owner's current rights: they may be fewer than when the target was made, or the owner may be gone.
        # Webhooks stored before targets had an owner were made by admins.
        credential = target.credential or target.device
        who = self._who_is(credential) if credential else _ADMIN
        return who is not None and is_visible_to(who, entry.item)

    async def _deliver(self, target: Destination, entry: FeedEntry) -> str | None:
        """Deliver an entry. Returns the reason if delivery was given up, else None."""
        why = ""
        for pause in (*PAUSES_S, None):
            try:
                status = await self._post(target, entry)
            except TargetRefused as error:
                why = error.message
                break
            except TargetFailed as error:
                why = error.message
            else:
                if 200 <= status < 300:
                    return None
                why = f"It answered {status}."
                if target.kind == "push" and status in (404, 410):
                    # The browser has cancelled its subscription.
                    await self._resources.remove(Destination, target.id)
                    raise NotFound("target", target.id)
                if status not in (408, 425, 429) and status < 500:
                    break
            if pause is not None:
                await self._clock.sleep(pause)
        log.warning("delivery to a target failed", extra={"target": target.id, "seq": entry.seq, "reason": why})
        return why

    async def _post(self, target: Destination, entry: FeedEntry) -> int:
        now, feed = self._clock.now_ms(), self._feed.id
        secret = self._seal.open(target.secret) if target.secret else ""
        link = self._link(entry.item.session if isinstance(entry.item, FeedNotice) else None)
        if target.kind == "webhook":
            payload = payloads.webhook(target.url, secret, entry, feed, now)
        elif target.kind == "ntfy":
            payload = payloads.ntfy(target.url, secret, entry, feed, link)
        else:
            from fairlead.notifications import web_push

            answers = await self._answers(target, entry.item)
            payload = web_push.push(target, await self._own_key(), entry, feed, link, now, answers)
        return await self._caller.post(payload.url, payload.body, payload.headers)

    async def _answers(self, target: Destination, item: FeedItem) -> dict[str, str]:
        """Codes for the buttons of a permission's push message; questions and plans are answered on their card."""
        meta = item.meta or {}
        if target.approves and isinstance(item, FeedNotice) and item.kind == "permission.asked" and "toolName" in meta:
            return await self.codes.make(item.session, meta["requestId"], target.device)
        return {}

    async def _own_key(self) -> str:
        if not self._key:
            from fairlead.notifications import web_push

            made = {"key": self._seal.seal(web_push.new_key())}
            if not await self._documents.add(KEYS, "key", made):
                made = await self._documents.get(KEYS, "key") or made
            self._key = self._seal.open(made["key"])
        return self._key


def _names(entry: FeedEntry) -> frozenset[str]:
    """The topics under which a target can subscribe to this entry."""
    item = entry.item
    if isinstance(item, Change):
        return frozenset((item.resource, f"{item.resource}.{item.action}"))
    return frozenset((item.topic, item.kind))
