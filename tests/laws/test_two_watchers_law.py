"""The law of shared encoders: of two clients of one encoder, one lags, reconnects or looks away; both end with the same
state as a client that reads everything at the end. In every protocol; and a shared encoder has no memory.
"""

import asyncio
import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import Input, cases, inputs
from clients.happy.test_happy_laws import plays
from clients.mylifedb.view_offline import ViewRecorder
from laws.test_cognova_law import ALTERED
from laws.test_cut_and_resume import generated
from laws.two_watchers import SEATS, WAYS, Plan, Scene, Watcher, plans_of, play


@functools.lru_cache(maxsize=8)
def recorded(case: str) -> ViewRecorder:
    """The log of a case; scenes only read it. Tests of the same case run one after the other."""
    return ViewRecorder().run(inputs(case))


async def check(kind: type[Watcher], scene: Scene, plan: Plan) -> None:
    always, other, late = await play(kind, scene, plan)
    assert always == late, "the one that was always there"
    assert other == late, f"the one that {plan}"


def each_way(end: int, case: str) -> Plan:
    """Each way once in a session, and one of them at its very end: which one differs between the sessions."""
    ways = sorted(WAYS)
    eighths = [end * number // 8 for number in range(1, 7)]
    spans = [*zip(eighths[::2], eighths[1::2], strict=True), (end - 1, end)]
    return plans_of(spans, [*ways, ways[len(case) % len(ways)]])


@pytest.mark.parametrize("seat", SEATS.values(), ids=SEATS)
@pytest.mark.parametrize("case", sorted({*cases()} - ALTERED))
async def test_two_clients_of_every_recorded_session(case: str, seat: type[Watcher]) -> None:
    scene = seat.scene_of(recorded(case))
    await check(seat, scene, each_way(scene.end, case))


@pytest.mark.parametrize("seat", SEATS.values(), ids=SEATS)
@settings(max_examples=25, deadline=None)
@given(st.one_of(plays, generated()), st.data())
def test_two_clients_of_any_session(seat: type[Watcher], made: list[Input], data: st.DataObject) -> None:
    scene = seat.scene_of(ViewRecorder().run(made))
    place = st.integers(0, scene.end)
    spans = data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=3))
    ways = data.draw(st.lists(st.sampled_from(sorted(WAYS)), min_size=len(spans), max_size=len(spans)))
    asyncio.run(check(seat, scene, plans_of(spans, ways)))


@pytest.mark.parametrize("seat", SEATS.values(), ids=SEATS)
def test_an_encoder_that_is_shared_is_a_value(seat: type[Watcher]) -> None:
    """Two clients of a protocol create equal encoders, and an encoder cannot store state."""
    scene = seat.scene_of(ViewRecorder())
    one, two = seat(scene).variant(), seat(scene).variant()
    assert one == two and hash(one) == hash(two)
    assert type(one).__struct_config__.frozen  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        one.memory = {}  # type: ignore[attr-defined]
