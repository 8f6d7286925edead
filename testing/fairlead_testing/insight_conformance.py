"""Tests for the usage statistics of every store adapter; used together with `StoreConformance`, with the same fixture.

    class TestMyStore(StoreConformance, UsageStatsConformance): ...

NOT promised by the port, and so not tested here: that the last append is counted already (`indexed` waits for it), and
that the counts of erased sessions survive the loss of derived data.
"""

from typing import Any

from fairlead.model import events as ev
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SessionId, TurnId
from fairlead.model.store import Batch, Entry, ForkPoint, Lease, Store, Summary
from fairlead.model.usage_stats import UsageStats
from fairlead_testing.store_conformance import Stores, new_session

HOUR = 3_600_000
NOON = 20_000 * 24 * HOUR + 12 * HOUR
"""2024-10-04 at noon, UTC."""
ID = EventId("r/0/x")
USAGE = {
    "opus": ev.ModelUsage(input=10, output=5, cache_read=3, cache_write=2, cost_usd=0.5),
    "haiku": ev.ModelUsage(output=1),
}


class Log:
    """Appends events of one session at given times."""

    def __init__(self, store: Store, lease: Lease, project: str, head: int) -> None:
        self._store = store
        self._lease = lease
        self._summary = Summary(session=lease.session, cwd=project)
        self.head = head

    @classmethod
    async def new(cls, store: Store, project: str = "/p", fork: ForkPoint | None = None) -> "Log":
        lease, _, head = await store.claim(new_session(), fork)
        return cls(store, lease, project, head)

    async def again(self, store: Store) -> None:
        """Continue with the same log in a store that was opened again."""
        self._store = store
        self._lease, _, self.head = await store.claim(self.session)

    @property
    def session(self) -> SessionId:
        return self._lease.session

    async def append(self, at: int, *events: ev.Event) -> None:
        entries = tuple(
            Entry(self.head + number, 0, at, ev.kind_of(event), ev.encode(event))
            for number, event in enumerate(events, 1)
        )
        self.head = await self._store.append(self._lease, Batch(entries=entries, summary=self._summary), self.head)


def ended(status: ev.TurnStatus = "completed", **fields: Any) -> ev.TurnEnded:
    return ev.TurnEnded(id=ID, turn=TurnId("t"), status=status, **fields)


def called(call: str, name: str) -> ev.ToolCalled:
    return ev.ToolCalled(id=ID, call=CallId(call), name=name, input={}, message=MessageId("m"))


async def counted(store: Store, offset: int = 0) -> UsageStats:
    await store.wait_indexed()
    return await store.usage_stats(0, NOON + 1000 * 24 * HOUR, offset)


class UsageStatsConformance:
    async def test_tokens_and_money_are_counted_by_day_project_and_model(self, make_store: Stores) -> None:
        store = await make_store()
        one, two = await Log.new(store), await Log.new(store, "/q")
        await one.append(NOON, ended(usage=USAGE, duration_ms=100), ended("failed", usage=USAGE))
        await one.append(NOON + 24 * HOUR, ended("cancelled", usage={"opus": ev.ModelUsage(input=1)}))
        await two.append(NOON, ended(cost_usd=0.25))
        found = await counted(store)
        spent = [(row.day, row.project, row.model, row.input, row.output, row.cost_usd) for row in found.spent]
        assert spent == [
            ("2024-10-04", "/p", "haiku", 0, 2, 0.0),
            ("2024-10-04", "/p", "opus", 20, 10, 1.0),
            ("2024-10-04", "/q", "", 0, 0, 0.25),
            ("2024-10-05", "/p", "opus", 1, 0, 0.0),
        ]
        assert (found.spent[1].cache_read, found.spent[1].cache_write) == (6, 4)
        turns = [(row.day, row.project, row.turns, row.failed, row.cancelled, row.duration_ms) for row in found.turns]
        assert turns == [
            ("2024-10-04", "/p", 2, 1, 0, 100),
            ("2024-10-04", "/q", 1, 0, 0, 0),
            ("2024-10-05", "/p", 1, 0, 1, 0),
        ]

    async def test_a_turn_whose_models_have_no_price_costs_what_it_costs(self, make_store: Stores) -> None:
        store = await make_store()
        await (await Log.new(store)).append(NOON, ended(usage={"opus": ev.ModelUsage(input=7)}, cost_usd=0.25))
        spent = {row.model: (row.input, row.cost_usd) for row in (await counted(store)).spent}
        assert spent == {"opus": (7, 0.0), "": (0, 0.25)}

    async def test_a_day_is_that_of_who_asks(self, make_store: Stores) -> None:
        store = await make_store()
        await (await Log.new(store)).append(NOON, ended(usage=USAGE))
        for offset, day in ((0, "04"), (11 * 60, "04"), (12 * 60, "05"), (-12 * 60 - 45, "03")):
            found = await counted(store, offset)
            days = {row.day for row in found.spent} | {row.day for row in found.turns}
            assert days == {f"2024-10-{day}"}

    async def test_only_the_span_that_was_asked_for_is_summed(self, make_store: Stores) -> None:
        store = await make_store()
        log = await Log.new(store)
        for hours in range(4):
            await log.append(NOON + hours * HOUR, ended())
        await store.wait_indexed()
        assert [row.turns for row in (await store.usage_stats(NOON + HOUR, NOON + 3 * HOUR)).turns] == [2]

    async def test_tools_are_counted_when_they_end(self, make_store: Stores) -> None:
        store = await make_store()
        log = await Log.new(store)
        await log.append(NOON, called("a", "Bash"), called("b", "Bash"), called("c", "Read"), called("d", "Edit"))
        denied = ev.PermissionResolved(
            id=ID, request=RequestId("r"), call=CallId("b"), tool="Bash", behavior="deny", how="person", by="Ann"
        )
        await log.append(NOON + 500, ev.ToolEnded(id=ID, call=CallId("a")), denied)
        await log.append(NOON + 900, ev.ToolEnded(id=ID, call=CallId("b"), is_error=True, status="failed"))
        await log.append(NOON + 1000, ended("cancelled", closed=(CallId("c"),)))
        # A second end: the turn's end has closed the call already.
        await log.append(NOON + 1100, ev.ToolEnded(id=ID, call=CallId("c"), status="interrupted"))
        tools = (await counted(store)).tools
        assert [(t.tool, t.calls, t.failed, t.interrupted, t.denied, t.total_ms) for t in tools] == [
            ("Bash", 2, 1, 0, 1, 1400),
            ("Read", 1, 0, 1, 0, 1000),
        ]

    async def test_the_last_word_about_each_limit_is_kept(self, make_store: Stores) -> None:
        store = await make_store()
        one, two = await Log.new(store), await Log.new(store)
        week = {"rateLimitType": "seven_day", "utilization": 0.5}
        await one.append(NOON + 10, ev.RateLimit(id=ID, info=week), ev.RateLimit(id=ID, info={"status": "allowed"}))
        # A session whose past is read later does not overwrite newer values.
        await two.append(NOON, ev.RateLimit(id=ID, info={"rateLimitType": "seven_day", "utilization": 0.1}))
        limits = (await counted(store)).limits
        assert [(limit.kind, limit.at, limit.info) for limit in limits] == [
            ("", NOON + 10, {"status": "allowed"}),
            ("seven_day", NOON + 10, week),
        ]

    async def test_a_fork_counts_what_is_its_own(self, make_store: Stores) -> None:
        store = await make_store()
        parent = await Log.new(store)
        await parent.append(NOON, ended(usage=USAGE))
        child = await Log.new(store, "/p", ForkPoint(parent.session, parent.head))
        await child.append(NOON, ended())
        assert [row.turns for row in (await counted(store)).turns] == [2]

    async def test_nothing_is_counted_twice_after_a_restart(self, make_store: Stores) -> None:
        store = await make_store()
        await (await Log.new(store)).append(NOON, ended(usage=USAGE), called("a", "Bash"))
        before = await counted(store)
        await store.close()
        assert await counted(await make_store()) == before

    async def test_what_was_spent_stays_spent_when_its_session_is_erased(self, make_store: Stores) -> None:
        store = await make_store()
        log = await Log.new(store)
        await log.append(NOON, called("a", "Bash"), ended(usage=USAGE))
        before = await counted(store)
        await store.erase(log.session)
        # Its entries were the newest: an adapter that numbers entries may reuse their numbers.
        other = await Log.new(store, "/q")
        await other.append(NOON, ended(), ended())
        after = await counted(store)
        assert after.spent == before.spent
        assert [(row.project, row.turns) for row in after.turns] == [("/p", 1), ("/q", 2)]
