"""Laws of Claude's interpreter: a cut changes nothing, the same records give the same events, no input makes it raise,
and a client ends in the same state however it received the events."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.claude.golden_claude import SESSION, Input, Log, cases, inputs, raw
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.wire.markers import InterruptMarker, encode_marker
from fairlead.agents.links.framing import LineSplitter
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Record
from fairlead.model.ids import EventId
from fairlead.model.store import Origin
from fairlead_testing.native_client import Fold, NativeClientState
from sizing import examples

CASES = {case: inputs(case) for case in cases()}
A_CASE = st.sampled_from(sorted(CASES))

# --- generated sessions: short messages of the wire in any order -------------------------------------------------

CALLS = st.sampled_from(["toolu_1", "toolu_2", "toolu_t", "toolu_u"])
MESSAGES = st.sampled_from(["msg_1", "msg_2", "msg_3"])
PARENTS = st.sampled_from([None, None, None, "toolu_t", "toolu_u", "toolu_1", "toolu_unknown"])
TEXTS = st.sampled_from(
    ["hello", "", "[Request interrupted by user]", "<local-command-stdout>x</local-command-stdout>", "äö😀"]
)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, TEXTS),
    st.builds(
        lambda call, name: {"type": "tool_use", "id": call, "name": name, "input": {"description": "d"}},
        CALLS,
        st.sampled_from(["Bash", "Task", "Agent", "ExitPlanMode"]),
    ),
    st.just({"type": "odd"}),
)
RESULTS = st.builds(
    lambda call, error: {"type": "tool_result", "tool_use_id": call, "content": "r", "is_error": error},
    CALLS,
    st.booleans(),
)
DATA = st.sampled_from(
    [None, {"isAsync": True, "agentId": "a1"}, {"backgroundTaskId": "b1"}, {"agentId": "a1"}, "Error"]
)
STOPS = st.sampled_from([None, "end_turn", "tool_use"])


def _message(kind: str, content: Any, message: str, stop: str | None = None) -> dict[str, Any]:
    return {"type": kind, "message": {"id": message, "model": "m", "content": content, "stop_reason": stop}}


RECORDS = st.one_of(
    st.builds(
        lambda block, message, parent, stop: {
            **_message("assistant", [block], message, stop),
            "parent_tool_use_id": parent,
        },
        BLOCKS,
        MESSAGES,
        PARENTS,
        STOPS,
    ),
    st.builds(
        lambda block, parent, data: {
            **_message("user", [block], "m"),
            "parent_tool_use_id": parent,
            "tool_use_result": data,
        },
        RESULTS,
        PARENTS,
        DATA,
    ),
    st.builds(lambda text, parent: {**_message("user", text, "m"), "parent_tool_use_id": parent}, TEXTS, PARENTS),
    st.builds(
        lambda event, parent: {"type": "stream_event", "event": event, "parent_tool_use_id": parent},
        st.one_of(
            st.builds(lambda message: {"type": "message_start", "message": {"id": message}}, MESSAGES),
            st.builds(
                lambda index, block: {"type": "content_block_start", "index": index, "content_block": block},
                st.integers(0, 2),
                BLOCKS,
            ),
            st.builds(
                lambda index, kind, words: {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": {
                        "type": kind,
                        "text": words,
                        "thinking": words,
                        "partial_json": words,
                        "signature": words,
                    },
                },
                st.integers(0, 2),
                st.sampled_from(["text_delta", "thinking_delta", "input_json_delta", "signature_delta"]),
                st.text(max_size=4),
            ),
            st.builds(lambda stop: {"type": "message_delta", "delta": {"stop_reason": stop}}, STOPS),
            st.just({"type": "message_stop"}),
        ),
        PARENTS,
    ),
    st.builds(
        lambda error, cost: {"type": "result", "subtype": "success", "is_error": error, "total_cost_usd": cost},
        st.booleans(),
        st.floats(0, 1),
    ),
    st.builds(lambda mode: {"type": "system", "subtype": "init", "permissionMode": mode}, st.sampled_from(["a", "b"])),
    st.builds(
        lambda status: {"type": "system", "subtype": "status", "status": status}, st.sampled_from([None, "compacting"])
    ),
    st.builds(
        lambda subtype, call, status: {
            "type": "system",
            "subtype": subtype,
            "task_id": "a1",
            "tool_use_id": call,
            "task_type": "local_agent",
            "is_backgrounded": True,
            "status": status,
        },
        st.sampled_from(["task_started", "task_notification", "task_progress"]),
        CALLS,
        st.sampled_from(["completed", "stopped"]),
    ),
    st.builds(
        lambda call: {
            "type": "control_request",
            "request_id": call,
            "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": call},
        },
        CALLS,
    ),
)


@st.composite
def sessions(draw: st.DrawFn) -> list[Input]:
    """Inputs in any order, some of them twice: sequences that no agent should send, and that a broken one might."""
    made: list[Input] = []
    for number in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(["agent"] * 8 + ["gateway", "interrupt", "exit", "transcript", "again"]))
        uuid = f"u-{number}"
        if kind == "again" and made:
            made.append(draw(st.sampled_from(made)))
        elif kind == "gateway":
            made.append({"gateway": {"type": "user", "message": {"role": "user", "content": "p"}, "uuid": uuid}})
        elif kind == "interrupt":
            made.append({"interrupt": uuid})
        elif kind == "exit":
            made.append({"exit": "gone"})
        else:
            record = {"uuid": uuid, **draw(RECORDS)}
            made.append({"transcript" if kind == "transcript" else "agent": record})
    return made


SESSIONS = A_CASE.map(lambda case: CASES[case]) | sessions()


# --- the laws ------------------------------------------------------------------------------------------------------


def cut(log: Log) -> Log:
    """The same log with an interpreter that was saved and restored."""
    fresh = ClaudeInterpreter(SESSION)
    fresh.restore(log.interpreter.snapshot())
    log.interpreter = fresh
    return log


@examples(50, 150)
@given(SESSIONS, st.data())
def test_a_cut_changes_nothing(case: list[Input], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(case)), max_size=5))
    whole, parted = Log(), Log()
    for number, given_ in enumerate(case):
        if number in cuts:
            cut(parted)
        assert whole.add(given_) == parted.add(given_)
    assert whole.interpreter.turn == parted.interpreter.turn
    assert whole.interpreter.background_work == parted.interpreter.background_work


class Store:
    """The entries that the core stores: a record's bytes with its first event, without dropped entries."""

    def __init__(self) -> None:
        self.log = Log()
        self.entries: list[tuple[int, ev.Event, Record | None]] = []

    def add(self, given_: Input) -> Interpretation:
        before = len(self.log.entries)
        outcome = self.log.add(given_)
        ((kind, what),) = given_.items()
        if kind == "interrupt":
            # The core's own event: the marker of an interrupt is stored with it.
            marker = Record(encode_marker(InterruptMarker(cause=what)), "gateway")
            self.entries.append((0, ev.InterruptRequested(id=EventId(what)), marker))
        record = None if kind in ("exit", "interrupt") else Record(raw(what), msgspec.convert(kind, Origin))
        for seq, event in self.log.entries[before:]:
            self.entries.append((seq, event, record))
            record = None
        if kind == "exit":
            gone = ev.AgentExited(id=EventId("x"), reason=what, expected=False)
            self.entries.append((0, gone, None))
        return outcome

    def restarted(self, checkpoint: bytes, after: int) -> ClaudeInterpreter:
        """An interpreter from a checkpoint and the entries after it, as the core builds it at startup."""
        fresh = ClaudeInterpreter(SESSION)
        fresh.restore(checkpoint)
        for seq, event, record in self.entries[after:]:
            if seq in self.log.dropped:
                continue
            if record is not None:
                fresh.step(record)
            if isinstance(event, ev.AgentExited):
                fresh.exited(event.reason, event.id)
            fresh.assign_seq(event, seq)
        return fresh


@examples(60, 200)
@given(SESSIONS, st.data())
def test_a_restart_from_an_older_checkpoint_and_the_log_changes_nothing(case: list[Input], data: st.DataObject) -> None:
    # A row that was known already is not stored; a restarted gateway reads the transcript again instead. And dropped
    # entries are not known again: a stream that is repeated to a restarted gateway is not recognised.
    case = [given_ for number, given_ in enumerate(case) if "transcript" not in given_ and given_ not in case[:number]]
    saved = data.draw(st.integers(0, len(case)))
    restart = data.draw(st.integers(saved, len(case)))
    store = Store()
    checkpoint, after = store.log.interpreter.snapshot(), 0
    for number, given_ in enumerate(case[:restart]):
        if number == saved:
            checkpoint, after = store.log.interpreter.snapshot(), len(store.entries)
        store.add(given_)
    other = Log(store.restarted(checkpoint, after))
    other.entries = list(store.log.entries)
    for given_ in case[restart:]:
        gone = set(store.log.dropped)
        expected, got = store.add(given_), other.add(given_)
        assert [_without_cause(event) for event in got.events] == [_without_cause(event) for event in expected.events]
        # An entry that was dropped already may be dropped once more.
        assert set(got.drop) - gone == set(expected.drop) - gone


def _without_cause(event: ev.Event) -> ev.Event:
    """Blank the ids of exits: they differ between the two logs, and nothing else may."""
    return msgspec.structs.replace(event, id=EventId("")) if event.id.startswith("exit-") else event


@examples(40, 100)
@given(SESSIONS)
def test_the_same_records_give_the_same_events(case: list[Input]) -> None:
    assert Log().run(case).entries == Log().run(case).entries


def assistant(uuid: str, *content: dict[str, Any], parent: str | None = None) -> Input:
    message = {"id": "msg_1", "model": "m", "content": list(content), "stop_reason": None}
    return {"agent": {"uuid": uuid, "type": "assistant", "message": message, "parent_tool_use_id": parent}}


LATE_ROW: list[Input] = [
    assistant("u-0", {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"description": "d"}}),
    {
        "agent": {
            "uuid": "u-1",
            "type": "system",
            "subtype": "task_started",
            "task_id": "a1",
            "tool_use_id": "toolu_1",
            "task_type": "local_agent",
            "is_backgrounded": True,
        }
    },
    {"exit": "gone"},
    {"transcript": assistant("u-2", {"type": "text", "text": "hello"}, parent="toolu_1")["agent"]},
]
"""A row of a subagent's own file, read after the turn of its call is over."""

HELD_ROW: list[Input] = [
    assistant("u-0", {"type": "tool_use", "id": "toolu_1", "name": "Agent", "input": {"description": "d"}}),
    {"agent": {"uuid": "u-1", "type": "result", "subtype": "success", "is_error": False}},
    assistant("u-2", {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}}, parent="toolu_1"),
    {
        "transcript": {
            "uuid": "u-3",
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "r"}]},
            "parent_tool_use_id": "toolu_u",
        }
    },
]
"""Such a row of an unknown call: it is deferred, and emitted when the process is gone."""


@examples(60, 200)
@given(SESSIONS)
@example(LATE_ROW)
@example(HELD_ROW)
def test_every_session_is_well_formed(case: list[Input]) -> None:
    """For any input: unique ids, one end per turn, at most one end per call, nothing of a turn outside it.

    Only the rows of a subagent's own file keep the turn of its call after that turn is over."""
    log = Log()
    current, over = None, set()
    called: set[str] = set()
    ended: set[str] = set()
    rows = {given_["transcript"].get("uuid") for given_ in case if "transcript" in given_}
    for given_ in [*case, {"exit": "the end"}]:
        for event in log.add(given_).events:
            if isinstance(event, ev.TurnStarted):
                assert current is None and event.turn not in over
                current = event.turn
            late = event.id.partition("/")[0] in rows and event.subagent is not None and event.turn in over
            assert late or event.turn == current
            if isinstance(event, ev.TurnEnded):
                over.add(current)
                current = None
            if isinstance(event, ev.ToolCalled):
                assert event.call not in called
                called.add(event.call)
            if isinstance(event, ev.ToolEnded):
                assert event.call not in ended
                ended.add(event.call)
    ids = [event.id for event in log.events]
    assert len(set(ids)) == len(ids)
    assert current is None
    assert log.interpreter.turn is None
    assert len(log.interpreter.background_work) == 0
    assert called <= ended


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "uuid",
        "subtype",
        "message",
        "event",
        "content",
        "request",
        "request_id",
        "response",
        "tools",
        "tasks",
        "data",
        "x",
    ]
)
TYPES = st.sampled_from(
    ["user", "assistant", "system", "result", "stream_event", "control_request", "tool_progress", "progress", "x", ""]
)
OBJECTS = st.builds(lambda kind, fields: {**fields, "type": kind}, TYPES, st.dictionaries(FIELDS, ANY, max_size=5))


@examples(60, 200)
@given(st.lists(OBJECTS | ANY, max_size=6))
def test_no_line_makes_it_raise_and_no_line_is_lost(lines: list[Any]) -> None:
    log = Log()
    for line in lines:
        for origin in ("agent", "transcript", "gateway"):
            log.interpreter.step(Record(json.dumps(line).encode(), msgspec.convert(origin, Any)))
    log.interpreter.exited("gone", "c")


@pytest.mark.rules("S004-051")
@given(st.dictionaries(st.text(min_size=1, max_size=8), ANY, max_size=4))
def test_a_record_of_an_unknown_type_is_kept(fields: dict[str, Any]) -> None:
    record = {**fields, "type": "of_tomorrow", "uuid": "u-1"}
    (kept,) = ClaudeInterpreter(SESSION).step(Record(raw(record))).events
    assert isinstance(kept, ev.RecordStored)
    assert (kept.record, kept.known) == ("of_tomorrow", False)


@pytest.mark.rules("S004-002", "S004-024")
@examples(30, 60)
@given(A_CASE, st.lists(st.integers(1, 4000), min_size=1, max_size=20))
def test_any_cut_of_the_bytes_gives_the_same_events(case: str, sizes: list[int]) -> None:
    """The wire's lines as one run of bytes, read in pieces of any size, as from a pipe or a socket."""
    lines = [raw(given_["agent"]) for given_ in CASES[case] if "agent" in given_]
    data = b"\n".join(lines) + b"\n"
    splitter, read, at = LineSplitter(), [], 0
    while at < len(data):
        for size in sizes:
            read += splitter.feed(data[at : at + size])
            at += size
    assert read == lines


# --- a client ------------------------------------------------------------------------------------------------------


def folded(lines: list[dict[str, Any]]) -> NativeClientState:
    fold = Fold()
    for line in lines:
        fold.apply(line)
    return fold.state


def from_log(log: Log) -> list[dict[str, Any]]:
    """The lines as a later client receives them: without entries that the log has dropped."""
    return [line for line in log.lines() if line["seq"] not in log.dropped]


@examples(50, 150)
@given(SESSIONS)
def test_a_client_with_the_deltas_ends_in_the_same_state_as_one_without(case: list[Input]) -> None:
    log = Log().run(case)
    assert folded(list(log.lines())) == folded(from_log(log))


def catch_up(block: dict[str, Any], after: int) -> list[dict[str, Any]]:
    """The rest of a streamed block for a client whose cursor is in the middle of it: a delta from its mark on."""
    marks = [(seq, offset) for seq, offset in block.get("marks", []) if seq <= after]
    if block["type"] not in ("text", "thinking") or not marks:
        return []
    offset = marks[-1][1]
    names = ["message", "block", "turn", "subagent"]
    common = {name: block[name] for name in names if name in block}
    delta: dict[str, Any] = {"seq": block["seq"], "type": f"{block['type']}.delta", "id": "x", "offset": offset}
    return [{**common, **delta, "text": block["text"][offset:]}]


@examples(60, 200)
@given(SESSIONS, st.data())
def test_a_client_cut_anywhere_and_resumed_from_the_log_ends_the_same(case: list[Input], data: st.DataObject) -> None:
    log = Log().run(case)
    after = data.draw(st.integers(0, len(log.entries)))
    lines = list(log.lines())
    live = [line for line in lines if line["seq"] <= after]
    resumed: list[dict[str, Any]] = []
    for line in from_log(log):
        if line["seq"] > after:
            resumed += [*catch_up(line, after), line]
    # Delivery is at least once: the last lines may come again.
    again = live[-2:] if data.draw(st.booleans()) else []
    assert folded([*live, *again, *resumed]) == folded(from_log(log))


def test_the_cost_of_a_step_does_not_grow_with_the_session() -> None:
    """Measured in the size of the memory that a step works on, not in time: it does not grow."""
    log = Log()
    sizes = []
    for turn in range(120):
        for number in range(50):
            message, call = f"msg_{turn}_{number}", f"toolu_{turn}_{number}"
            if number == 0:
                log.add({"gateway": {"type": "user", "uuid": f"p{turn}", "message": {"content": "go"}}})
            log.add(
                {
                    "agent": {
                        **_message("assistant", [{"type": "tool_use", "id": call, "name": "Bash"}], message),
                        "uuid": message,
                    }
                }
            )
            result = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
            log.add({"agent": {**_message("user", [result], "m"), "uuid": f"r{call}"}})
        log.add({"agent": {"type": "result", "subtype": "success", "uuid": f"e{turn}"}})
        sizes.append(len(log.interpreter.snapshot()))
    # Two generations of ids at most: after that the size only fluctuates.
    assert max(sizes) < 80_000
    assert max(sizes[60:]) <= max(sizes[:60])
