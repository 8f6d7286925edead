"""The replay law (`fairlead_testing.replay`) in every discovered protocol; and a shared encoder has no memory."""

import asyncio
import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import Input, cases, inputs
from clients.happy.test_happy_laws import plays
from clients.mylifedb.view_offline import ViewRecorder
from fairlead.server.discovery import discover
from fairlead_testing.replay import WAYS, Plan, ReplayClient, check_replay, plan_of
from laws.replay_clients import CLIENTS
from laws.test_cognova_law import ALTERED
from laws.test_cut_and_resume import generated


@functools.lru_cache(maxsize=8)
def recorded(case: str) -> ViewRecorder:
    """The log of a case; scenes only read it. Tests of the same case run one after the other."""
    return ViewRecorder().run(inputs(case))


def test_every_protocol_has_a_client() -> None:
    """MCP only answers: it sends nothing by itself, so that its clients cannot miss anything."""
    live = {protocol.name for protocol in discover()} - {"mcp"}
    assert {name.partition(" ")[0] for name in CLIENTS} == live


def each_way(end: int, case: str) -> Plan:
    """Each way once in a session, and one of them at its very end: which one differs between the sessions."""
    ways = sorted(WAYS)
    eighths = [end * number // 8 for number in range(1, 7)]
    spans = [*zip(eighths[::2], eighths[1::2], strict=True), (end - 1, end)]
    return plan_of(spans, [*ways, ways[len(case) % len(ways)]])


@pytest.mark.parametrize("kind", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("case", sorted({*cases()} - ALTERED))
async def test_two_clients_of_every_recorded_session(case: str, kind: type[ReplayClient]) -> None:
    scene = kind.scene_of(recorded(case))
    await check_replay(kind, scene, each_way(scene.end, case))


@pytest.mark.parametrize("kind", CLIENTS.values(), ids=CLIENTS)
@settings(max_examples=25, deadline=None)
@given(st.one_of(plays, generated()), st.data())
def test_two_clients_of_any_session(kind: type[ReplayClient], made: list[Input], data: st.DataObject) -> None:
    scene = kind.scene_of(ViewRecorder().run(made))
    place = st.integers(0, scene.end)
    spans = data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=3))
    ways = data.draw(st.lists(st.sampled_from(sorted(WAYS)), min_size=len(spans), max_size=len(spans)))
    asyncio.run(check_replay(kind, scene, plan_of(spans, ways)))


@pytest.mark.parametrize("kind", CLIENTS.values(), ids=CLIENTS)
def test_an_encoder_that_is_shared_is_a_value(kind: type[ReplayClient]) -> None:
    """Two clients of a protocol create equal encoders, and an encoder cannot store state."""
    scene = kind.scene_of(ViewRecorder())
    one, two = kind(scene).encoder(), kind(scene).encoder()
    assert one == two and hash(one) == hash(two)
    assert type(one).__struct_config__.frozen  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        one.memory = {}  # type: ignore[attr-defined]
