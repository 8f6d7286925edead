"""The law of insight: for any events and any restarts in between, the counts equal those of the log itself."""

import asyncio
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model import events as ev
from fairlead.model.ids import CallId
from fairlead.model.usage_stats import UsageStats
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.insight_conformance import HOUR, ID, NOON, Log, called, counted, ended

QUARTER = HOUR // 4

models = st.sampled_from(["opus", "haiku"])
usages = st.dictionaries(
    models, st.builds(ev.ModelUsage, input=st.integers(0, 9), output=st.integers(0, 9)), max_size=2
)
turns = st.builds(ended, st.sampled_from(["completed", "failed", "cancelled"]), usage=usages)
calls = st.sampled_from(["a", "b", "c"]).map(lambda call: called(call, f"Tool-{call}"))
ends = st.builds(
    lambda call, status: ev.ToolEnded(id=ID, call=CallId(call), status=status),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["done", "failed"]),
)
steps = st.tuples(st.integers(0, 2), st.integers(0, 400), st.one_of(turns, calls, ends))
cuts = st.sets(st.integers(0, 11), max_size=3)
offsets = st.sampled_from([0, 60, 330, 345, -210, 840, -720])


def expected(events: list[tuple[int, int, ev.Event]], offset: int) -> tuple[Counter[object], Counter[object]]:
    """Tokens by day, project and model, and calls by tool: computed by reading everything, without regard to speed."""
    tokens: Counter[object] = Counter()
    used: Counter[object] = Counter()
    running: set[tuple[int, str]] = set()
    for session, at, event in events:
        day = (datetime.fromtimestamp(at / 1000, UTC) + timedelta(minutes=offset)).date().isoformat()
        match event:
            case ev.TurnEnded():
                tokens[day, f"/{session}", "turns"] += 1
                for model, usage in event.usage.items():
                    tokens[day, f"/{session}", model] += usage.input + usage.output
            case ev.ToolCalled():
                running.add((session, event.call))
            case ev.ToolEnded() if (session, event.call) in running:
                running.discard((session, event.call))
                used[f"Tool-{event.call}"] += 1
            case _:
                pass
    return +tokens, +used


def found(insight: UsageStats) -> tuple[Counter[object], Counter[object]]:
    tokens: Counter[object] = Counter()
    for row in insight.spent:
        tokens[row.day, row.project, row.model] += row.input + row.output
    for turned in insight.turns:
        tokens[turned.day, turned.project, "turns"] += turned.turns
    used: Counter[object] = Counter()
    for tool in insight.tools:
        used[tool.tool] += tool.calls
    return +tokens, +used


@settings(max_examples=30, deadline=None)
@given(st.lists(steps, max_size=12), cuts, offsets)
def test_counts_equal_those_of_the_log_after_any_restarts(
    events: list[tuple[int, int, ev.Event]], stops: set[int], offset: int
) -> None:
    happened = [(session, NOON + quarter * QUARTER, event) for session, quarter, event in events]

    async def run() -> UsageStats:
        with tempfile.TemporaryDirectory() as folder:
            store = await SqliteStore.open(Path(folder))
            logs = [await Log.new(store, f"/{number}") for number in range(3)]
            for place, (session, at, event) in enumerate(happened):
                await logs[session].append(at, event)
                if place in stops:
                    await store.wait_indexed()
                    await store.close()
                    store = await SqliteStore.open(Path(folder))
                    for log in logs:
                        await log.again(store)
            try:
                return await counted(store, offset)
            finally:
                await store.close()

    assert found(asyncio.run(run())) == expected(happened, offset)
