"""The law for Cognova's chat: after a cut and a resume its reference client shows the same as a client that was always
connected; and the streamed content equals the stored content.

Over every recorded session, generated ones and this protocol's own cases: cut after any frame, also between two frames
of one entry, and reconnect at any later moment.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import cases, inputs
from clients.cognova.chat_offline import ChatRecorder, Frame, shown
from fairlead.model import events as ev
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead_testing.cognova_client import Shown
from golden.cases import case_names, read_log
from laws.test_cut_and_resume import generated

ALTERED = {"2.1.325-background_shell", "2.1.37-background_shell"}
"""Paths in these recordings were anonymised, so a block is shorter than its stream: no agent sends that."""


def seen(client: Shown) -> Any:
    """All but the position of a text among calls of subagents: it is read as a whole, and was streamed in pieces."""
    answers = [
        (answer.text, answer.tools, answer.status, answer.cost_usd, answer.duration_ms, answer.errors)
        for answer in client.answers
    ]
    return answers, client.requests, sorted(client.settled), client.errors


def altered(recorder: ChatRecorder) -> bool:
    """Whether some block differs from its stream: a client that received the stream cannot be corrected."""
    streamed: dict[tuple[str, int], str] = {}
    for entry in recorder.published:
        event = ev.decode(entry.event)
        if isinstance(event, ev.TextDelta):
            name = (event.message, event.block)
            streamed[name] = streamed.get(name, "") + event.text
        elif isinstance(event, ev.Text) and not event.text.startswith(streamed.get((event.message, event.block), "")):
            return True
    return False


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


def some(recorder: ChatRecorder) -> list[tuple[int, int]]:
    count, end = len(recorder.live()), len(recorder.published)
    return [(cut, gap) for cut in range(0, count + 1, max(1, count // 40)) for gap in (0, 1, 5, end)]


def check_calls(frames: list[Frame]) -> None:
    begun = [frame["toolUseId"] for frame in frames if frame["type"] == "chat:tool_start"]
    ended = [frame["toolUseId"] for frame in frames if frame["type"] == "chat:tool_end"]
    assert max(Counter(begun).values(), default=1) == max(Counter(ended).values(), default=1) == 1
    running: set[str] = set()
    for frame in frames:
        if frame["type"] == "chat:tool_start":
            running.add(frame["toolUseId"])
        elif frame["type"] == "chat:tool_end":
            running.remove(frame["toolUseId"])
            assert len(frame["result"]) <= 5000


def check_order(frames: list[Frame]) -> None:
    """The text of an answer comes between its start and its only end."""
    open_ = False
    for frame in frames:
        match frame["type"]:
            case "chat:stream_start":
                assert not open_
                open_ = True
            case "chat:text_delta":
                assert open_
            case "chat:stream_end" | "chat:interrupted":
                assert open_
                open_ = False


def check_stored(recorder: ChatRecorder, moments: list[int]) -> None:
    for moment in moments:
        streamed = [answer for answer in shown(recorder.live(0, moment)).answers if answer.text or answer.tools]
        page = recorder.messages(moment)
        stored = [message for message in page["messages"] if message["role"] == "assistant"]
        texts = ["".join(block.get("text", "") for block in message["content"]) for message in stored]
        assert "".join(texts) == "".join(answer.text for answer in streamed)
        assert [text for text in texts if text] == [answer.text for answer in streamed if answer.text]
        assert recorder.counted(moment).messages == len(page["messages"])


@pytest.mark.rules("S002-025", "S002-031", "S002-032", "S002-039", "S002-044", "S002-046")
@pytest.mark.parametrize("case", sorted({*cases()} - ALTERED))
def test_every_recorded_session(case: str) -> None:
    recorder = ChatRecorder().run(inputs(case))
    check(recorder, some(recorder))
    check_calls(recorder.live())
    check_order(recorder.live())
    end = len(recorder.published)
    check_stored(recorder, [*range(0, end, max(1, end // 10)), end])


@pytest.mark.parametrize("case", case_names("cognova"))
def test_every_cut_of_every_case_of_this_protocol(case: str) -> None:
    recorder = ChatRecorder().replay(read_log("cognova", case))
    end = len(recorder.published)
    check(recorder, [(cut, gap) for cut in range(len(recorder.live()) + 1) for gap in range(end + 1)])
    check_calls(recorder.live())
    check_order(recorder.live())
    check_stored(recorder, list(range(end + 1)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_cut_of_any_session(data: st.DataObject) -> None:
    recorder = ChatRecorder().run(data.draw(generated()))
    assume(not altered(recorder))
    count, end = len(recorder.live()), len(recorder.published)
    check(recorder, data.draw(st.lists(st.tuples(st.integers(0, count), st.integers(0, end)), max_size=6)))
    check_calls(recorder.live())
    check_order(recorder.live())
    check_stored(recorder, [end, data.draw(st.integers(0, end))])
