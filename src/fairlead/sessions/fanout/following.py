"""Follows the logs of sessions that other nodes own: their new entries reach the subscriptions here, and the lists of
sessions are notified.

The entries come from the store, which shows them before it reports the change. A session without a subscription here
costs nothing but its notice.
"""

import logging
from collections.abc import Callable

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.store import LogChange, Store
from fairlead.model.web.session_changes import What
from fairlead.sessions.fanout.hub import PAGE_BYTES, PAGE_ENTRIES, Hub
from fairlead.sessions.fanout.session_changes import changes_of_kinds
from fairlead.system.tasks import TaskSet

log = logging.getLogger("fairlead.watch")


class LogFollower:
    """`hub_of` returns the hub of a session that is not loaded here and has subscriptions, if any; `notify` receives
    the changes for lists, `sight_lost` the identities that no longer see a session, `turn_ended` the sessions of which
    a turn has ended."""

    def __init__(
        self,
        store: Store,
        hub_of: Callable[[SessionId], Hub | None],
        notify: Callable[[SessionId, What], None],
        sight_lost: Callable[[Callable[[Identity], bool]], None],
        turn_ended: Callable[[SessionId], None] = lambda session: None,
    ) -> None:
        self._store = store
        self._hub_of = hub_of
        self._notify = notify
        self._sight_lost = sight_lost
        self._turn_ended = turn_ended
        self._waiting: dict[SessionId, LogChange | None] = {}
        """Sessions whose entries are being read, and the change that came meanwhile."""
        self.tasks = TaskSet()
        self._stop: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._stop = self._store.follow(self._on_change)

    async def stop(self) -> None:
        self._stop()
        await self.tasks.close()

    def _on_change(self, change: LogChange) -> None:
        if change.erased:
            self._notify(change.session, "deleted")
        for what in changes_of_kinds(change.kinds):
            self._notify(change.session, what)
        if "turn.ended" in change.kinds:
            self._turn_ended(change.session)
        hub = self._hub_of(change.session)
        if hub is None or change.erased:
            return
        if "session.changed" in change.kinds:
            self.tasks.spawn(self._check_sight(hub))
        if change.session in self._waiting:
            self._waiting[change.session] = change
        else:
            self._waiting[change.session] = None
            self.tasks.spawn(self._read(change))

    async def _read(self, change: LogChange | None) -> None:
        """Publish what the log has more than the hub. One task per session: its pages stay in order."""
        assert change is not None
        session = change.session
        try:
            while change is not None:
                await self._publish(change)
                change, self._waiting[session] = self._waiting[session], None
        except FairleadError as error:
            log.warning("cannot follow a session", extra={"session": session, "error": error.message})
            hub = self._hub_of(session)
            if hub is not None:
                # They read on by themselves, and are told if they cannot.
                hub.resync()
        finally:
            del self._waiting[session]

    async def _publish(self, change: LogChange) -> None:
        hub = self._hub_of(change.session)
        while hub is not None:
            # Nothing was published here yet: a projection that finds a hole before these entries reads the log.
            after = hub.head or max(0, change.head - len(change.kinds))
            page = await self._store.read(change.session, after, PAGE_ENTRIES, PAGE_BYTES)
            if not page.entries:
                return
            # A session that was loaded meanwhile publishes its own entries, and its subscriptions read on.
            hub = self._hub_of(change.session)
            if hub is not None and page.entries[-1].seq > hub.head:
                hub.publish_read(page.entries)

    async def _check_sight(self, hub: Hub) -> None:
        """Make subscribers that no longer see the session reconnect."""
        summary = await self._store.summary(hub.session)
        if summary is not None:
            present = hub.identities
            owner, shared = summary.owner, summary.shared
            self._sight_lost(lambda who: who in present and not who.sees(owner, shared))
