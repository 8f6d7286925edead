"""Laws: whatever is appended, dropped, forked, erased and read in whatever order, a model in memory gives the same."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from fairlead.model.errors import Conflict, Fenced, NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, ForkPoint, Lease
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.store_conformance import new_session, refusal
from patience import PATIENCE


@dataclass(eq=False)
class Log:
    """A log in memory. `parent` stores the entry at `base`; entries that forks show are never dropped."""

    session: SessionId
    lease: Lease
    entries: dict[int, Entry]
    head: int
    base: int = 0
    parent: "Log | None" = None
    forks: "list[Log]" = field(default_factory=list)
    erased: bool = False
    last_call: tuple[Batch, int] | None = None

    @property
    def kept(self) -> bool:
        return not self.erased or any(fork.kept for fork in self.forks)

    @property
    def shown_to(self) -> int:
        return max((fork.base for fork in self.forks if fork.kept), default=0)

    def expected(self, after: int = 0) -> list[Entry]:
        prev, found = 0, []
        for seq in sorted(self.entries):
            e = self.entries[seq]
            if seq > after:
                found.append(Entry(seq, prev, e.at, e.kind, e.event, e.origin, e.raw))
            prev = seq
        return found

    def storing(self, seq: int) -> "Log | None":
        """The log that stores the entry `seq` that this log shows."""
        if seq > self.base:
            return self
        return self.parent.storing(seq) if self.parent is not None and seq else None


events = st.binary(max_size=40)
entries = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["text", "text.delta", "user.message"]), events, st.none() | events),
    max_size=5,
)


class StoreMachine(RuleBasedStateMachine):
    logs: Bundle[Log] = Bundle("logs")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.store = self.run(self.opened())
        self.made: list[Log] = []

    def run(self, call: Any) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(PATIENCE):
                return await call

        return self.runner.run(bounded())

    async def opened(self) -> SqliteStore:
        return await SqliteStore.open(self.folder, spill_above=30)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def keep(self, log: Log) -> Log:
        self.made.append(log)
        return log

    @rule(target=logs)
    def open_log(self) -> Log:
        session = new_session()
        lease, _, head = self.run(self.store.claim(session))
        assert head == 0
        return self.keep(Log(session, lease, {}, 0))

    @rule(log=logs, steps=entries, dropped=st.sets(st.integers(0, 12), max_size=6))
    def append(self, log: Log, steps: Sequence[tuple[int, str, bytes, bytes | None]], dropped: set[int]) -> None:
        if log.erased:
            self.run(refusal(Fenced, self.store.append(log.lease, Batch(entries=()), log.head)))
            return
        seq, new = log.head, []
        for step, kind, event, raw in steps:
            seq += step
            new.append(Entry(seq, 0, seq, kind, event, "agent" if raw is not None else "", raw))
        # Counted back from the new head, so that they often hit something; some are in the parent or nowhere.
        drop = tuple(seq - n for n in sorted(dropped) if seq - n > 0)
        batch = Batch(entries=tuple(new), drop=drop)
        assert self.run(self.store.append(log.lease, batch, log.head)) == seq
        log.last_call = (batch, log.head) if new else log.last_call
        log.head = seq
        log.entries |= {e.seq: e for e in new}
        for n in drop:
            if n > max(log.base, log.shown_to) and n != log.head:
                log.entries.pop(n, None)

    @rule(log=logs)
    def repeat(self, log: Log) -> None:
        if not log.erased and log.last_call is not None:
            batch, expected_head = log.last_call
            if batch.entries[-1].seq == log.head and all(
                e.seq in log.entries or e.seq in batch.drop for e in batch.entries
            ):
                assert self.run(self.store.append(log.lease, batch, expected_head)) == log.head

    @rule(log=logs, wrong=st.integers(-3, 3).filter(bool))
    def append_at_the_wrong_place(self, log: Log, wrong: int) -> None:
        if not log.erased:
            other = Batch(entries=(Entry(log.head + 5, 0, 0, "text", b"never seen before, and too long to be drawn"),))
            error = self.run(refusal(Conflict, self.store.append(log.lease, other, log.head + wrong)))
            assert error.data["head"] == log.head

    @rule(log=logs)
    def claim_again(self, log: Log) -> None:
        if not log.erased:
            old = log.lease
            log.lease, _, head = self.run(self.store.claim(log.session))
            log.last_call = None
            assert (head, log.lease.epoch > old.epoch) == (log.head, True)
            self.run(refusal(Fenced, self.store.append(old, Batch(entries=()), log.head)))

    @rule(target=logs, log=logs, share=st.floats(0, 1))
    def fork(self, log: Log, share: float) -> Any:
        if log.erased:
            self.run(refusal(NotFound, self.store.claim(new_session(), ForkPoint(log.session, 0))))
            return multiple()
        seq = int(log.head * share)
        session = new_session()
        lease, _, head = self.run(self.store.claim(session, ForkPoint(log.session, seq)))
        assert head == seq
        shown = {n: e for n, e in log.entries.items() if n <= seq}
        fork = Log(session, lease, shown, seq, base=seq, parent=log.storing(seq))
        if fork.parent is not None:
            fork.parent.forks.append(fork)
        return self.keep(fork)

    @rule(log=logs)
    def erase(self, log: Log) -> None:
        if not log.erased:
            self.run(self.store.erase(log.session))
            log.erased = True
        self.run(refusal(NotFound, self.store.read(log.session, 0, 1)))

    @rule()
    def open_again(self) -> None:
        self.run(self.store.close())
        self.store = self.run(self.opened())

    @rule(log=logs, after=st.integers(0, 40), limit=st.integers(1, 6), max_bytes=st.sampled_from([1, 60, 1 << 20]))
    def read(self, log: Log, after: int, limit: int, max_bytes: int) -> None:
        if not log.erased:
            page = self.run(self.store.read(log.session, after, limit, max_bytes))
            expected = log.expected(after)[:limit]
            assert page.head == log.head
            assert list(page.entries) == expected[: len(page.entries)]
            if max_bytes == 1 << 20:
                assert len(page.entries) == len(expected)
            assert bool(page.entries) == bool(expected)

    @rule(log=logs, before=st.none() | st.integers(0, 40), limit=st.integers(1, 6), some=st.booleans())
    def tail(self, log: Log, before: int | None, limit: int, some: bool) -> None:
        if not log.erased:
            kinds = ("text", "user.message") if some else ()
            page = self.run(self.store.tail(log.session, before, limit, kinds))
            fitting = [
                e for e in log.expected() if (before is None or e.seq < before) and (not kinds or e.kind in kinds)
            ]
            assert list(page.entries) == fitting[-limit:]

    @invariant()
    def every_log_reads_as_it_should(self) -> None:
        for log in [log for log in self.made if not log.erased]:
            assert list(self.run(self.store.read(log.session, 0, 1000)).entries) == log.expected()


StoreMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestStoreAgainstAModel = StoreMachine.TestCase
