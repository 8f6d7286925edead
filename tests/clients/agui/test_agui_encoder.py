"""The encoder of a run, without a gateway: interrupts, and runs that continue where another was interrupted."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude.golden_claude import Input, cases, inputs
from clients.happy.test_happy_laws import plays
from clients.mylifedb.view_offline import ViewRecorder
from fairlead.clients.agui.context import LIMIT, RunContext
from fairlead.clients.agui.encoder import RunEncoder
from fairlead.clients.agui.history import HistoryReducer, message_of_row
from fairlead.clients.agui.wire import ASKED
from fairlead.model import events as ev
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.errors import Unavailable
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SubagentId, TurnId
from fairlead.model.store import Entry
from fairlead.model.views import NewRow, ReplaceRow
from fairlead_testing.agui_client import AgUiClient, Event, events_of
from fairlead_testing.replay import SESSION, log_of
from laws.test_cut_and_resume import generated

Log = list[ev.Event]
T1 = TurnId("t1")
M1 = MessageId("50000000-0000-4000-8000-000000000001")
ONE = RunEncoder(thread="thread", run="run")
START: Event = {"type": "RUN_STARTED", "threadId": "thread", "runId": "run"}


def named(number: int) -> EventId:
    return EventId(f"e{number}")


def owner(subagent: str | None) -> SubagentId | None:
    return None if subagent is None else SubagentId(subagent)


def called(call: str, message: str = "msg_1", subagent: str | None = None) -> ev.ToolCalled:
    return ev.ToolCalled(
        id=named(0),
        turn=T1,
        subagent=owner(subagent),
        call=CallId(call),
        name="Bash",
        input={"command": call},
        message=MessageId(message),
    )


def asked(request: str, call: str, subagent: str | None = None) -> ev.PermissionRequested:
    return ev.PermissionRequested(
        id=named(0),
        turn=T1,
        subagent=owner(subagent),
        request=RequestId(request),
        call=CallId(call),
        tool="Bash",
        input={},
        title=request,
    )


def resolved(request: str, call: str) -> ev.PermissionResolved:
    return ev.PermissionResolved(
        id=named(0), turn=T1, request=RequestId(request), call=CallId(call), tool="Bash", behavior="allow", how="person"
    )


def done(call: str, subagent: str | None = None) -> ev.ToolEnded:
    return ev.ToolEnded(id=named(0), turn=T1, subagent=owner(subagent), call=CallId(call), content="ok")


def delta(text: str, offset: int, subagent: str | None = None) -> ev.TextDelta:
    message = MessageId(f"msg_{subagent}")
    place = owner(subagent)
    return ev.TextDelta(id=named(0), turn=T1, subagent=place, message=message, block=0, offset=offset, text=text)


BEGIN = ev.TurnStarted(id=named(1), turn=T1)
PROMPT = ev.UserMessage(id=named(2), turn=T1, message=M1, content=(TextBlock("go"),))
END = ev.TurnEnded(id=named(3), turn=T1, status="completed", text="done")


class Offline:
    """A run whose driver settles it when the test says so."""

    def __init__(self, encoder: RunEncoder = ONE, client: AgUiClient | None = None) -> None:
        self.encoder = encoder
        self.context: RunContext | None = None
        self.client = client or AgUiClient()
        self.client.apply(START)
        state = {"mode": "default", "model": "", "title": "", "queue": []}
        self.client.apply({"type": "STATE_SNAPSHOT", "snapshot": {"fairlead": state}})
        self.data = b""

    def feed(self, entries: Sequence[Entry]) -> "Offline":
        for entry in entries:
            self.context, frames = self.encoder.step(self.context, SESSION, entry)
            self._receive(frames)
        return self

    def settle(self) -> "Offline":
        assert self.context is not None and self.encoder.settling(self.context)
        self._receive(self.encoder.settled(self.context))
        return self

    def _receive(self, frames: bytes) -> None:
        self.data += frames
        self.client.feed(frames)

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in events_of(self.data)]


def test_a_request_ends_the_run_with_an_interrupt_when_it_is_not_settled_soon() -> None:
    run = Offline().feed(log_of([BEGIN, PROMPT, called("c1"), asked("r1", "c1")]).entries)
    assert run.data.endswith(ASKED), "the driver is woken"
    assert run.client.running
    run.settle()
    (interrupt,) = run.client.interrupts
    assert (interrupt["id"], interrupt["toolCallId"], interrupt["message"]) == ("r1", "c1", "r1")
    assert interrupt["responseSchema"]["required"] == ["approved"]


def test_requests_at_the_same_time_are_one_interrupt_and_all_calls_are_sent_before_it() -> None:
    log = log_of([BEGIN, PROMPT, called("c1"), asked("r1", "c1"), called("c2"), asked("r2", "c2"), done("c0")])
    run = Offline().feed(log.entries).settle()
    assert [one["id"] for one in run.client.interrupts] == ["r1", "r2"]
    assert run.kinds.count("TOOL_CALL_START") == 2
    assert run.kinds.count("TOOL_CALL_RESULT") == 0, "what comes after the last request belongs to the next run"


def test_a_request_that_another_client_settles_at_once_does_not_end_the_run() -> None:
    events: Log = [
        BEGIN,
        PROMPT,
        called("c1"),
        asked("r1", "c1"),
        delta("x", 0),
        resolved("r1", "c1"),
        done("c1"),
        END,
    ]
    run = Offline().feed(log_of(events).entries)
    assert run.client.outcomes == ["success"]
    assert run.client.message("msg_None.0") == {"id": "msg_None.0", "role": "assistant", "content": "x"}


def test_a_settled_request_stays_in_the_interrupt_of_another_one() -> None:
    events: Log = [
        BEGIN,
        PROMPT,
        called("c1"),
        asked("r1", "c1"),
        called("c2"),
        asked("r2", "c2"),
        resolved("r2", "c2"),
    ]
    entries = log_of([*events, done("c2"), resolved("r1", "c1"), done("c1"), END]).entries
    run = Offline().feed(entries[:7]).settle()
    assert [one["id"] for one in run.client.interrupts] == ["r1", "r2"]
    last = max(entry.seq for entry in entries if entry.kind == "permission.asked")
    again = Offline(RunEncoder(thread="thread", run="run", sent_up_to=last), run.client).feed(entries)
    assert again.client.outcomes == ["interrupt", "success"]
    assert len([message for message in again.client.messages if message["role"] == "tool"]) == 2


def test_a_flood_of_entries_behind_a_request_ends_the_run() -> None:
    pieces = [delta("x", number) for number in range(LIMIT + 1)]
    run = Offline().feed(log_of([BEGIN, PROMPT, called("c1"), asked("r1", "c1"), *pieces]).entries)
    assert run.client.outcomes == ["interrupt"]
    assert run.context is not None and run.context.held == ()


def test_a_subagent_is_suspended_with_its_request_and_started_again_with_its_parent() -> None:
    outer = ev.SubagentStarted(id=named(4), turn=T1, child=SubagentId("s1"), call=CallId("c1"), title="outer")
    parent = SubagentId("s1")
    inner = ev.SubagentStarted(
        id=named(5), turn=T1, child=SubagentId("s2"), call=CallId("c2"), title="inner", subagent=parent
    )
    over = [ev.SubagentEnded(id=named(6), turn=T1, child=SubagentId(n), call=CallId("c1")) for n in ("s2", "s1")]
    before: Log = [
        BEGIN,
        PROMPT,
        called("c1"),
        outer,
        called("c2", "m2", "s1"),
        inner,
        delta("Hel", 0, "s2"),
    ]
    asks: Log = [called("c3", "m3", "s2"), asked("r1", "c3", "s2")]
    whole = ev.Text(id=named(7), turn=T1, subagent=SubagentId("s2"), message=MessageId("msg_s2"), block=0, text="Hello")
    entries = log_of([*before, *asks, resolved("r1", "c3"), done("c3", "s2"), whole, *over, END]).entries
    run = Offline().feed(entries[: len(before) + 2]).settle()
    assert run.kinds[-4:] == ["TEXT_MESSAGE_END", "SUBAGENT_FINISHED", "SUBAGENT_FINISHED", "RUN_FINISHED"]
    suspended = events_of(run.data)[-3:-1]
    assert [one["subagentRunId"] for one in suspended] == ["s2", "s1"], "the inner one first"
    assert suspended[0]["outcome"] == {"type": "suspended", "interruptIds": ["r1"]}
    last = entries[len(before) + 1].seq
    again = Offline(RunEncoder(thread="thread", run="run", sent_up_to=last), run.client).feed(entries)
    starts = [one for one in events_of(again.data) if one["type"] == "SUBAGENT_STARTED"]
    assert [(one["subagentRunId"], one["name"]) for one in starts] == [("s1", "outer"), ("s2", "inner")]
    assert again.client.message("msg_s2.0") == {
        "id": "msg_s2.0",
        "role": "assistant",
        "content": "Hello",
        "subagentRunId": "s2",
    }


def test_the_rest_of_a_text_whose_beginning_left_the_log_is_sent() -> None:
    """The interrupted run sent its first pieces; the block has replaced them when the next run reads the log."""
    begin: Log = [BEGIN, PROMPT, delta("Hel", 0), called("c1"), asked("r1", "c1")]
    entries = log_of(begin).entries
    run = Offline().feed(entries).settle()
    piece, last = entries[2].seq, entries[-1].seq
    message = MessageId("msg_None")
    whole = ev.Text(id=named(7), turn=T1, message=message, block=0, text="Hello", marks=((piece, 3), (last + 1, 4)))
    later = log_of([*begin, resolved("r1", "c1"), delta("l", 3), whole, done("c1"), END]).entries
    kept = [entry for entry in later if entry.kind != "text.delta"]
    again = Offline(RunEncoder(thread="thread", run="run", sent_up_to=last), run.client).feed(kept)
    assert again.client.message("msg_None.0") == {"id": "msg_None.0", "role": "assistant", "content": "Hello"}


def test_a_run_that_begins_inside_a_text_sends_the_whole_text() -> None:
    whole = ev.Text(id=named(7), turn=T1, message=MessageId("msg_None"), block=0, text="Hello")
    run = Offline().feed(log_of([delta("lo", 3), whole, END]).entries)
    assert [one["delta"] for one in events_of(run.data) if "delta" in one] == ["Hello"]


def test_all_calls_of_one_answer_are_in_one_row() -> None:
    entries = log_of([BEGIN, PROMPT, called("c1"), called("x", "msg_2"), called("c2"), END]).entries
    rows = {message["id"]: message for message in rows_of(entries)}
    assert [call["id"] for call in rows["msg_1"]["toolCalls"]] == ["c1", "c2"]
    reducer = HistoryReducer(SESSION)
    made = [row for entry in entries for row in reducer.step(entry)]
    assert isinstance(made[-1], ReplaceRow)
    early = message_of_row(made[-1].data, entries[2].seq)
    assert early is not None and [call["id"] for call in early["toolCalls"]] == ["c1"], "as it was before the second"


def test_a_run_waits_for_the_turn_of_its_own_message() -> None:
    other = TurnId("t0")
    first: Log = [
        ev.TurnStarted(id=named(8), turn=other),
        ev.TurnEnded(id=named(9), turn=other, status="failed"),
    ]
    run = Offline(RunEncoder(thread="thread", run="run", target=M1, own=(M1,)))
    run.feed(log_of([*first, BEGIN, PROMPT, END]).entries)
    assert run.client.outcomes == ["success"]
    assert run.client.messages == []


def test_a_message_that_is_withdrawn_ends_its_run() -> None:
    cancelled = ev.MessageCancelled(id=named(8), message=M1)
    run = Offline(RunEncoder(thread="thread", run="run", target=M1)).feed(log_of([cancelled]).entries)
    assert run.client.outcomes == ["cancelled"]
    run = Offline(RunEncoder(thread="thread", run="run", target=M1)).feed(log_of([BEGIN, cancelled, END]).entries)
    assert run.client.outcomes == ["success"]


@pytest.mark.parametrize(
    "event",
    [
        ev.AgentExited(id=named(8), reason="it died", expected=False),
        ev.ErrorRaised(id=named(8), code="agent_missing", message="it is not there"),
    ],
)
def test_an_error_outside_a_turn_ends_the_run(event: ev.Event) -> None:
    run = Offline().feed(log_of([event]).entries)
    assert run.client.error is not None and run.client.error["message"].startswith("it ")
    run = Offline().feed(log_of([BEGIN, event, END]).entries)
    assert run.client.outcomes == ["success"]


def test_calls_that_end_with_the_turn_have_a_result() -> None:
    end = msgspec.structs.replace(END, status="cancelled", closed=(CallId("c1"), CallId("never made")))
    run = Offline().feed(log_of([BEGIN, PROMPT, called("c1"), end]).entries)
    assert run.client.outcomes == ["cancelled"]
    assert [m["toolCallId"] for m in run.client.messages if m["role"] == "tool"] == ["c1"]


def test_a_run_that_breaks_off_says_why() -> None:
    run = Offline().feed(log_of([BEGIN, PROMPT, delta("Hel", 0)]).entries)
    run.client.feed(run.encoder.failed(run.context, Unavailable("the disk is full")))
    assert run.client.error == {"type": "RUN_ERROR", "message": "the disk is full", "code": "unavailable"}


def test_the_input_of_a_run_counts_cached_tokens() -> None:
    used = {"large": ev.ModelUsage(input=1, output=2, cache_read=3, cache_write=4)}
    run = Offline().feed(log_of([BEGIN, PROMPT, msgspec.structs.replace(END, usage=used)]).entries)
    (usage,) = events_of(run.data)[-1]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (8, 2, 10)


def test_a_picture_is_a_part_of_a_message() -> None:
    picture = ImageBlock({"type": "base64", "media_type": "image/png", "data": "aGk="})
    (row,) = HistoryReducer(SESSION).step(
        log_of([msgspec.structs.replace(PROMPT, content=(TextBlock("see"), picture))]).entries[0]
    )
    assert isinstance(row, NewRow)
    source = {"type": "data", "value": "aGk=", "mimeType": "image/png"}
    parts = [{"type": "text", "text": "see"}, {"type": "image", "source": source}]
    assert msgspec.json.decode(row.data)["content"] == parts


# --- laws


def shown(client: AgUiClient) -> list[Event]:
    return sorted(client.messages, key=lambda message: str(message["id"]))


def rows_of(entries: Sequence[Entry]) -> list[Event]:
    """The messages of the projection."""
    reducer, rows = HistoryReducer(SESSION), dict[str, bytes]()
    for entry in entries:
        for made in reducer.step(entry):
            assert isinstance(made, ReplaceRow if made.key in rows else NewRow)  # type: ignore[union-attr]
            assert isinstance(made, NewRow | ReplaceRow)
            rows[made.key] = made.data
    found = (message_of_row(data, entries[-1].seq) for data in rows.values())
    return sorted((one for one in found if one is not None), key=lambda message: str(message["id"]))


def first_run(log: ViewRecorder) -> list[Entry]:
    """The entries up to the end of the first run, as they were written."""
    context, found = None, []
    for entry in log.entries:
        context, _ = ONE.step(context, SESSION, entry)
        found.append(entry)
        if context.finished:
            break
    return found


def check_interrupts(log: ViewRecorder, patience: int) -> None:
    """Interrupt at every request that is open for `patience` entries: the runs together are one run without them."""
    entries = first_run(log)
    if not entries:
        return
    whole = Offline().feed(entries)
    client, quiet = AgUiClient(), 0
    run = Offline(client=client)
    for number, entry in enumerate(entries):
        run.feed([entry])
        quiet = quiet + 1 if run.encoder.settling(run.context) else 0
        if quiet > patience:
            run.settle()
            last = max(one.seq for one in entries[: number + 1] if one.kind in ASKS)
            run = Offline(RunEncoder(thread="thread", run="run", sent_up_to=last), client).feed(entries[: number + 1])
            quiet = 0
    assert shown(client) == shown(whole.client)


ASKS = ("permission.asked", "question.asked", "plan.proposed")


@pytest.mark.parametrize("patience", [0, 2])
@pytest.mark.parametrize("case", sorted(cases()))
def test_interrupted_runs_of_every_recorded_session_are_one_run(case: str, patience: int) -> None:
    check_interrupts(ViewRecorder().run(inputs(case)), patience)


@settings(max_examples=25, deadline=None)
@given(st.one_of(plays, generated()), st.integers(0, 4))
def test_interrupted_runs_of_any_session_are_one_run(made: list[Input], patience: int) -> None:
    check_interrupts(ViewRecorder().run(made), patience)


@settings(max_examples=25, deadline=None)
@given(st.one_of(plays, generated()))
def test_a_finished_run_shows_what_the_history_has(made: list[Input]) -> None:
    entries = first_run(ViewRecorder().run(made))
    run = Offline().feed(entries)
    if entries and run.context is not None and run.context.finished:
        # The beginning of a block that the model never completed is in no history; a text message has no pictures.
        history = [message for message in rows_of(entries) if not isinstance(message.get("content"), list)]
        known = {message["id"] for message in history}
        assert [message for message in shown(run.client) if message["id"] in known] == history
