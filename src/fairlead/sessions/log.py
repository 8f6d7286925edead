"""The log of one session as its writer sees it: assigns each event a seq and time, stores it, then publishes it.

Rule: an entry is in the store before any client receives it. The caller holds the session's lock: one append is in
flight, and the agent's output in the meantime goes into the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fairlead.model import events as ev
from fairlead.model.store import Batch, Checkpoint, Entry, Lease, Origin, Store, StoredReply, Summary
from fairlead.sessions.fanout.hub import Hub
from fairlead.system.clock import Clock


class PendingEntries:
    """Events staged for the log: each gets its seq and time when it is added."""

    def __init__(self, head: int, last_at: int, now: int) -> None:
        self.base = head
        self.seq = head
        self.at = last_at
        self.entries: list[Entry] = []
        self.drop: set[int] = set()
        self._now = now

    def add(
        self, event: ev.Event, origin: Origin = "", raw: bytes | None = None, at: int = 0
    ) -> tuple[ev.Event, Entry]:
        """Stage an event. `at`: the time of the event if it is in the past; times grow strictly nevertheless."""
        self.seq += 1
        self.at = max(min(at, self._now) if at else self._now, self.at + 1)
        event = msgspec.structs.replace(event, at=self.at)
        entry = Entry(self.seq, self.seq - 1, self.at, ev.kind_of(event), ev.encode(event), origin, raw)
        self.entries.append(entry)
        return event, entry


@dataclass(eq=False, repr=False)
class SessionLog:
    store: Store
    lease: Lease
    log_id: str
    head: int
    last_at: int
    clock: Clock
    feed: Hub

    def stage(self) -> PendingEntries:
        """Start a batch. It has no effect until `write` and can be discarded."""
        return PendingEntries(self.head, self.last_at, self.clock.now_ms())

    async def write(
        self,
        stage: PendingEntries,
        *,
        summary: Summary | None = None,
        checkpoints: Sequence[Checkpoint] = (),
        replies: Sequence[StoredReply] = (),
    ) -> None:
        """Store, then publish. If the store raises, nothing was published and the call may be repeated."""
        # A delta and the block that repeats it in one append: the delta is published but not stored.
        kept = tuple(entry for entry in stage.entries if entry.seq not in stage.drop)
        drop = tuple(sorted(seq for seq in stage.drop if seq <= stage.base))
        batch = Batch(entries=kept, drop=drop, summary=summary, checkpoints=tuple(checkpoints), replies=tuple(replies))
        await self.store.append(self.lease, batch, stage.base)
        if not stage.entries:
            return
        self.head, self.last_at = stage.seq, stage.at
        self.feed.publish(stage.entries)
