"""The law: the state that a client folds from a cut and a resume equals the state that it folds from a full replay.

For every view (each encoding of each protocol with a reference client), every recorded session and generated ones,
every cut, and a resume at any later moment. The log here works as in the core: the same stage, the same drops.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import cases, feed, inputs
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.clients.native.codec import CODECS
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.sessions.log import PendingEntries
from fairlead_testing.native_client import Fold, NativeClientState
from fairlead_testing.replay import unframed

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
Frames = Callable[[Entry], dict[str, Any]]


class History:
    """Entries published live, in order, and the contents of the log after each publication."""

    def __init__(self) -> None:
        self.live: list[Entry] = []
        self.gone_at: dict[int, int] = {}
        """For each dropped seq, the number of entries that had been published when it was dropped."""

    def log(self, moment: int) -> list[Entry]:
        """The log after `moment` publications."""
        return [entry for entry in self.live[:moment] if self.gone_at.get(entry.seq, moment + 1) > moment]


def history_of(inputs: Iterable[dict[str, Any]]) -> History:
    history = History()
    interpreter = ClaudeInterpreter(SESSION)
    head = at = 0
    for number, given_input in enumerate(inputs):
        stage = PendingEntries(head, at, 1000)
        outcome = feed(interpreter, given_input, number)
        for event in outcome.events:
            placed, entry = stage.add(event)
            interpreter.assign_seq(placed, entry.seq)
        head, at = stage.seq, stage.at
        for new in stage.entries:
            prev = history.live[-1].seq if history.live else 0
            history.live.append(Entry(new.seq, prev, new.at, new.kind, new.event))
        for seq in outcome.drop:
            history.gone_at.setdefault(seq, len(history.live))
    return history


VIEWS: dict[str, Frames] = {
    "native json": lambda entry: msgspec.json.decode(unframed(CODECS["fairlead.v1.json"].encode(SESSION, entry))[0]),
    "native msgpack": lambda entry: msgspec.msgpack.decode(
        unframed(CODECS["fairlead.v1.msgpack"].encode(SESSION, entry))[0]
    ),
}


def folded(view: Frames, *parts: Iterable[Entry]) -> NativeClientState:
    fold = Fold()
    for part in parts:
        for entry in part:
            fold.apply(view(entry))
    return fold.state


def check(history: History, view: Frames, cuts: Iterable[tuple[int, int]]) -> None:
    """`cuts`: (number of entries that the client saw live, number of entries published when it came back)."""
    end = len(history.live)
    # Each entry is encoded and decoded once: the cuts fold the same frames again and again.
    frames = {entry.seq: view(entry) for entry in history.live}
    view = lambda entry: frames[entry.seq]  # noqa: E731
    whole = folded(view, history.log(end))
    assert folded(view, history.live) == whole, "always there"
    for seen, back in cuts:
        cursor = history.live[seen - 1].seq if seen else 0
        missed = [entry for entry in history.log(back) if entry.seq > cursor]
        assert folded(view, history.live[:seen], missed, history.live[back:]) == whole, f"cut at {seen}, back at {back}"


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("most", [12, pytest.param(100_000, marks=pytest.mark.long)], ids=["twelve cuts", "every cut"])
def test_cuts_of_every_recorded_session(case: str, view: Frames, most: int) -> None:
    history = history_of(inputs(case))
    end = len(history.live)
    cuts = range(0, end + 1, max(1, end // most))
    check(history, view, [(seen, min(end, seen + gap)) for seen in cuts for gap in (0, 1, 3, end)])


def _stream(number: int, **event: Any) -> dict[str, Any]:
    return {
        "agent": {"type": "stream_event", "uuid": f"s{number}", "session_id": SESSION, "parent_tool_use_id": None}
        | {"event": event}
    }


@st.composite
def generated(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of streamed messages with text, thinking and calls; some cut off, some answered, some not streamed."""
    made: list[dict[str, Any]] = []
    count = iter(range(10**6))
    for turn in range(draw(st.integers(1, 3))):
        prompt = {"role": "user", "content": draw(st.text(max_size=8))}
        made.append({"gateway": {"type": "user", "message": prompt, "uuid": f"p{turn}", "session_id": ""}})
        for message in range(draw(st.integers(0, 3))):
            name = f"m{turn}.{message}"
            streamed = draw(st.booleans())
            body = {"id": name, "type": "message", "role": "assistant", "model": "opus", "content": [], "usage": {}}
            if streamed:
                made.append(_stream(next(count), type="message_start", message=body))
            for index in range(draw(st.integers(0, 3))):
                kind = draw(st.sampled_from(["text", "thinking", "tool_use"]))
                pieces = draw(st.lists(st.text(min_size=1, max_size=4), max_size=5))
                made.extend(_block(draw, count, name, body, index, kind, pieces, streamed))
            if streamed and draw(st.booleans()):
                made.append(_stream(next(count), type="message_delta", delta={"stop_reason": "end_turn"}))
                made.append(_stream(next(count), type="message_stop"))
        made.append(
            draw(
                st.sampled_from(
                    [
                        {"agent": {"type": "result", "subtype": "success", "uuid": f"r{turn}", "is_error": False}},
                        {"exit": "it crashed"},
                    ]
                )
            )
        )
    return made


def _block(
    draw: st.DrawFn,
    count: Any,
    name: str,
    body: dict[str, Any],
    index: int,
    kind: str,
    pieces: list[str],
    streamed: bool,
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    call = f"call-{name}-{index}"
    text = "".join(pieces)
    blocks: dict[str, dict[str, Any]] = {
        "text": {"type": "text", "text": text},
        "thinking": {"type": "thinking", "thinking": text, "signature": "s"},
        "tool_use": {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text}},
    }
    block = blocks[kind]
    if streamed:
        start = {"type": kind, "id": call, "name": "Bash"} if kind == "tool_use" else {"type": kind}
        made.append(_stream(next(count), type="content_block_start", index=index, content_block=start))
        field = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}[kind]
        delta_type = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}[kind]
        for piece in pieces:
            delta = {"type": delta_type, field: piece}
            made.append(_stream(next(count), type="content_block_delta", index=index, delta=delta))
    if not streamed or draw(st.integers(0, 4)):
        made.append(
            {
                "agent": {"type": "assistant", "uuid": f"a-{name}-{index}", "parent_tool_use_id": None}
                | {"session_id": SESSION, "message": body | {"content": [block]}}
            }
        )
        if kind == "tool_use" and draw(st.booleans()):
            result = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
            made.append(
                {
                    "agent": {"type": "user", "uuid": f"u-{name}-{index}", "parent_tool_use_id": None}
                    | {"message": {"role": "user", "content": [result]}}
                }
            )
    return made


@given(generated(), st.data())
@settings(deadline=None, max_examples=80)
def test_any_cut_of_any_session(made: list[dict[str, Any]], data: st.DataObject) -> None:
    history = history_of(made)
    end = len(history.live)
    cuts = data.draw(
        st.lists(
            st.integers(0, end).flatmap(lambda seen: st.tuples(st.just(seen), st.integers(seen, end))), max_size=12
        )
    )
    for view in VIEWS.values():
        check(history, view, cuts)
