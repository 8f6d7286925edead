"""The law for MyLifeDB: after a cut and a resume its reference client holds the same as a client that was always
connected.

Over every recorded session, generated ones and this protocol's own cases, in each encoding: cut anywhere, reconnect at
any later moment, by the last uuid, by a full replay, or as a slow reader that missed the pieces in between.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import cases, inputs
from clients.mylifedb.view_offline import Frame, ViewRecorder
from fairlead.clients.mylifedb.fold import MyLifeDbReducer
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder
from fairlead.model.views import NewRow
from fairlead_testing.mylifedb_client import MyLifeDbClient
from golden.cases import case_names, read_log
from laws.test_cut_and_resume import generated

VARIANTS = (MyLifeDbEncoder(state=True), MyLifeDbEncoder(packed=True, state=True))


def watching(*frames: list[Frame]) -> MyLifeDbClient:
    client = MyLifeDbClient()
    client.opened()
    for part in frames:
        for frame in part:
            client.apply(frame)
    return client


def seen(client: MyLifeDbClient, *, passing: bool = True) -> Any:
    """Everything that is shown, except todos, which are sent only to clients connected at the time of a change, and
    times, in which the wire's record and the transcript's copy may differ."""
    state = msgspec.to_builtins(client.state)
    del state["todos"]
    for message in state["messages"]:
        message.pop("timestamp", None)
    if not passing:
        del state["streaming_text"]
    rows = [row.get("uuid") or row for row in client.rows]
    return state, rows


def last_uuid(frames: list[Frame], showing: ViewRecorder) -> tuple[str, int]:
    """The last of these records that has a key, and its ordinal."""
    for frame in reversed(frames):
        uuid = frame.get("uuid")
        place = next((row.ordinal for row in showing.rows if row.key and row.key == uuid), 0)
        if place:
            return str(uuid), place
    return "", 0


def check(showing: ViewRecorder, cuts: list[tuple[int, int]]) -> None:
    # Read once: clients keep frames and do not change them.
    live = showing.live()
    there = watching(live)
    assert seen(watching(showing.history()), passing=False) == seen(there, passing=False), "one who comes at the end"
    expected = seen(there)
    end = len(showing.places)
    for cut, back in cuts:
        before = live[: showing.places[cut - 1][1] if cut else 0]
        since = live[showing.places[back - 1][1] if back else 0 :]
        uuid, after = last_uuid(before, showing)
        resume = [{"type": "resume", "verdict": "ok" if uuid else "gap", "fromUuid": uuid}]
        resumed = watching(before, resume, showing.resumed(after, back), since)
        assert seen(resumed) == expected, f"cut at {cut}, back at {back} from {uuid or 'the beginning'} of {end}"
        whole = watching(before)
        whole.closed()
        whole.opened()
        for frame in [*showing.resumed(0, back), *since]:
            whole.apply(frame)
        assert seen(whole) == expected, f"cut at {cut}, all again at {back} of {end}"
        rows = showing.places[cut - 1][0] if cut else 0
        slow = watching(before, showing.resumed(rows, back, fresh=False), since)
        assert seen(slow) == expected, f"slow from {cut} to {back} of {end}"
    assert live == showing.live(), "a client changed a frame that others were sent too"


def some(end: int) -> list[tuple[int, int]]:
    every = range(0, end + 1, max(1, end // 12))
    return [(cut, min(end, cut + gap)) for cut in every for gap in (0, 1, 7, end)]


@pytest.mark.rules("S000-148", "S000-151", "S000-166", "S000-203", "S000-204", "S000-227")
@pytest.mark.parametrize("variant", VARIANTS, ids=repr)
@pytest.mark.parametrize("case", cases())
def test_every_recorded_session(case: str, variant: MyLifeDbEncoder) -> None:
    showing = ViewRecorder(variant).run(inputs(case))
    check(showing, some(len(showing.places)))


@pytest.mark.parametrize("case", case_names("mylifedb"))
def test_every_case_of_this_protocol(case: str) -> None:
    showing = ViewRecorder().replay(read_log("mylifedb", case))
    end = len(showing.places)
    check(showing, [(cut, back) for cut in range(end + 1) for back in range(cut, end + 1)])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_generated_sessions(data: st.DataObject) -> None:
    showing = ViewRecorder().run(data.draw(generated()))
    end = len(showing.places)
    place = st.integers(0, end)
    cuts = data.draw(st.lists(st.tuples(place, place), max_size=4))
    check(showing, [(min(cut), max(cut)) for cut in cuts])


@pytest.mark.rules("S000-149")
@pytest.mark.parametrize("case", cases())
def test_a_log_that_is_folded_later_gives_the_same_rows(case: str) -> None:
    """Its deltas are gone by then."""
    showing = ViewRecorder().run(inputs(case))
    fold = MyLifeDbReducer(showing.fold._session)
    rows = [
        made.key
        for entry in showing.entries
        if entry.seq not in showing.gone
        for made in fold.step(entry)
        if isinstance(made, NewRow)
    ]
    assert rows == [row.key for row in showing.rows]
