"""The law for claudecodeui's chat: after a cut and a resume its reference client shows the same as a client that was
always connected; every run has one `complete`, its last frame; and live rows equal the rows of history.

Over every recorded session and generated ones: cut after any frame, and reconnect at any later moment.
"""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import cases, inputs
from clients.claudecodeui.chat_offline import ChatRecorder, Frame, shown, stepped
from clients.cognova.chat_offline import SESSION
from fairlead.clients.claudecodeui.chat.frames import ChatEncoder
from fairlead.model import events as ev
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.formats.timestamps import iso_timestamp as written
from fairlead_testing.claudecodeui_client import Shown
from laws.test_cognova_law import ALTERED, altered
from laws.test_cut_and_resume import generated

KINDS = frozenset(
    {"text", "thinking", "tool_use", "tool_result", "stream_delta", "stream_end", "status", "error", "complete"}
    | {"permission_request", "permission_cancelled", "task_notification"}
)
CARDS = frozenset({"permission_request", "permission_cancelled"})
PIECES = frozenset({"stream_delta", "stream_end"})


def words(frame: Frame) -> Frame:
    """A frame without its number; a `stream_end` with a text becomes the row of that text."""
    row = {name: value for name, value in frame.items() if name != "seq"}
    return {**row, "kind": "text"} if frame["kind"] == "stream_end" and "role" in frame else row


def seen(client: Shown) -> Any:
    rows = [{name: value for name, value in row.items() if name != "seq"} for row in client.rows]
    return rows, client.streaming, client.requests, client.completes, client.budget


def check(recorder: ChatRecorder, cuts: list[tuple[int, int]]) -> None:
    """`cuts`: number of frames received before the connection broke, and number of entries before the reconnect."""
    frames = recorder.live()
    there = seen(shown(frames))
    assert seen(shown(recorder.read(0))) == there, "one who reads it all at the end"
    end = len(recorder.published)
    for cut, later in cuts:
        last = frames[cut - 1]["seq"] if cut else 0
        published = sum(entry.seq <= last // FRAMES for entry in recorder.published)
        back = min(end, published + later)
        parts = (frames[:cut], recorder.resumed(last, back), recorder.live(back))
        assert seen(shown(*parts)) == there, f"cut behind frame {cut}, back after {back} of {end}"
        numbers = [frame["seq"] for part in parts for frame in part]
        assert numbers == sorted(set(numbers)), "each number once, and growing"


def check_replay(recorder: ChatRecorder) -> None:
    """The frames of a replay equal the live frames, except that a text without its pieces is a row."""
    live = {frame["seq"]: frame for frame in recorder.live()}
    ended = {frame["id"]: words(frame) for frame in live.values() if "content" in frame}
    for frame in recorder.read(0):
        if frame["kind"] == "text":
            assert words(frame) == ended[frame["id"]]
        else:
            assert frame["kind"] == "stream_end" or live[frame["seq"]] == frame


def check_whole(recorder: ChatRecorder) -> None:
    """A client that does not look at the session receives the same, each text as a row and none in pieces."""
    frames = stepped(ChatEncoder(whole=True), recorder.memory().known, recorder.published)
    expected = [words(frame) for frame in recorder.live() if frame["kind"] not in PIECES or "role" in frame]
    assert [words(frame) for frame in frames] == expected
    assert not {frame["kind"] for frame in frames} & PIECES


def check_runs(recorder: ChatRecorder) -> None:
    running, runs, ended = False, 0, 0
    for entry in recorder.published:
        event = ev.decode(entry.event)
        if isinstance(event, ev.TurnStarted):
            running, runs = True, runs + 1
        for frame in recorder.of(entry):
            assert frame["kind"] in KINDS and "type" not in frame
            assert frame["sessionId"] == SESSION and frame["seq"] // FRAMES == entry.seq
            assert running or frame["kind"] in CARDS, "nothing is of no run"
            if frame["kind"] == "complete":
                running, ended = False, ended + 1
                assert frame["success"] == (frame["exitCode"] == 0 and not frame["aborted"])
    assert ended == runs - running


def check_history(recorder: ChatRecorder, moments: list[int]) -> None:
    """Live rows of the main thread, with each result on its call, equal the rows of history: ids, order and content."""
    for moment in moments:
        live: dict[str, Frame] = {}
        calls: dict[str, Frame] = {}
        for entry in recorder.published[:moment]:
            for frame in recorder.of(entry):
                row = words(frame)
                if row["kind"] not in ("text", "thinking", "tool_use", "tool_result", "task_notification"):
                    continue
                if "parentToolUseId" in row:
                    continue
                if row["kind"] == "tool_use":
                    row["timestamp"] = written(ev.decode(entry.event).at)
                if row["kind"] == "tool_result":
                    kept = {name: row[name] for name in ("content", "isError", "toolUseResult") if name in row}
                    if row["toolId"] in calls:
                        calls[row["toolId"]]["toolResult"] = kept
                    continue
                live[row["id"]] = row
                if row["kind"] == "tool_use":
                    calls[row["toolId"]] = row
        stored = recorder.history(moment)
        for row in stored:
            row.pop("subagentTools", None)
        live_rows = [row for row in stored if row["id"] in live]
        assert live_rows == list(live.values())
        assert all(row["role"] == "user" or "isLocalCommandStdout" in row for row in stored if row["id"] not in live)


def some(recorder: ChatRecorder) -> list[tuple[int, int]]:
    count, end = len(recorder.live()), len(recorder.published)
    return [(cut, gap) for cut in range(0, count + 1, max(1, count // 40)) for gap in (0, 1, 5, end)]


@pytest.mark.rules("S003-047", "S003-048", "S003-051", "S003-052", "S003-053", "S003-054", "S003-058", "S003-059")
@pytest.mark.rules("S003-060", "S003-061", "S003-031", "S003-034")
@pytest.mark.parametrize("case", sorted({*cases()} - ALTERED))
def test_every_recorded_session(case: str) -> None:
    recorder = ChatRecorder().run(inputs(case))
    check(recorder, some(recorder))
    check_runs(recorder)
    check_replay(recorder)
    check_whole(recorder)
    end = len(recorder.published)
    check_history(recorder, [*range(0, end, max(1, end // 10)), end])


@pytest.mark.rules("S003-048", "S003-054", "S003-060")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_cut_of_any_session(data: st.DataObject) -> None:
    recorder = ChatRecorder().run(data.draw(generated()))
    assume(not altered(recorder))
    count, end = len(recorder.live()), len(recorder.published)
    check(recorder, data.draw(st.lists(st.tuples(st.integers(0, count), st.integers(0, end)), max_size=6)))
    check_runs(recorder)
    check_history(recorder, [end, data.draw(st.integers(0, end))])
