"""Every recorded session as envelopes: they pass the schema (conftest), are balanced, and their ids last."""

import pytest

from agents.claude.golden_claude import cases, inputs
from clients.happy.telling import Told, told


@pytest.mark.parametrize("case", cases())
def test_a_recorded_session_passes(case: str) -> None:
    session = Told().run(inputs(case))
    ids = [envelope["id"] for envelope in session.envelopes]
    assert len(set(ids)) == len(ids)
    times = [envelope["time"] for envelope in session.envelopes]
    assert all(a < b for a, b in zip(times, times[1:], strict=False))
    assert told(inputs(case)) == session.envelopes
