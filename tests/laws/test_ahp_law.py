"""The law of AHP: a snapshot and the actions after it give the later snapshot, for sessions with any events.

`test_replay_law` has the sessions of real agents; here queues, requests and interrupts come in any order, with deltas
that leave the log. The reference client folds with reducers of its own.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.ahp.context import ActionOrigin, reference_of
from fairlead.clients.ahp.snapshots import AhpReducer
from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SubagentId, TurnId
from fairlead.model.views import NewRow
from fairlead_testing.replay import SESSION, EventLog, LogScene, check_replay, log_of, plan_of
from laws.replay_clients import AhpReplay
from sizing import examples

CALLS = [CallId(f"c{number}") for number in range(3)]
MESSAGES = [MessageId(f"{number:08d}-0000-4000-8000-000000000000") for number in range(4)]
TURNS = [TurnId("t1"), TurnId("t2")]

call, message, turn = st.sampled_from(CALLS), st.sampled_from(MESSAGES), st.sampled_from(TURNS)
words = st.sampled_from(["", "one", "two words", "ünïcode ✓"])
subagent = st.sampled_from([None, None, SubagentId("s1")])
name = EventId("e")
reference = st.sampled_from(["", "not ours", reference_of(ActionOrigin("vs", 4))])
content = st.builds(lambda text: (TextBlock(text),), words)
request = call.map(lambda name: RequestId(f"r-{name}"))
plain_input = st.sampled_from([{}, {"command": "ls"}, {"file_path": "/a", "content": "x"}])

core_events = st.one_of(
    st.builds(ev.MessageQueued, id=st.just(name), message=message, content=content, reference=reference),
    st.builds(
        lambda message, content: ev.MessageQueued(
            id=name,
            message=message,
            content=content,
            reference=reference_of(ActionOrigin("vs", 3, f"request_{message}")),
        ),
        message,
        content,
    ),
    st.builds(ev.MessageDequeued, id=st.just(name), message=message),
    st.builds(ev.MessageCancelled, id=st.just(name), message=message),
    st.builds(ev.MessageMoved, id=st.just(name), message=message, position=st.integers(0, 3)),
    st.builds(ev.InterruptRequested, id=st.just(name), turn=turn, reference=reference),
    st.builds(ev.TurnStarted, id=st.just(name), turn=turn, trigger=st.sampled_from(["prompt", "agent"])),
    st.builds(ev.TurnEnded, id=st.just(name), turn=turn, status=st.sampled_from(["completed", "failed", "cancelled"])),
    st.builds(
        ev.UserMessage,
        id=st.just(name),
        turn=turn,
        message=message,
        content=content,
        via=st.sampled_from(["prompt", "steer", "agent"]),
    ),
    st.builds(ev.ToolCalled, id=st.just(name), turn=turn, call=call, name=words, input=plain_input, message=message),
    st.builds(
        ev.ToolEnded, id=st.just(name), turn=turn, subagent=subagent, call=call, content=words, is_error=st.booleans()
    ),
    st.builds(
        ev.PermissionRequested,
        id=st.just(name),
        turn=turn,
        subagent=subagent,
        request=request,
        call=call,
        tool=st.just("Bash"),
        input=plain_input,
        suggestions=st.sampled_from([(), ("Bash(ls:*)",)]),
    ),
    st.builds(ev.PlanProposed, id=st.just(name), turn=turn, request=request, call=call, plan=words),
    st.builds(
        ev.QuestionAsked,
        id=st.just(name),
        turn=turn,
        request=request,
        call=call,
        questions=st.sampled_from(
            [(), ({"question": "Why?", "options": [{"label": "A"}, "odd"]},), ({"odd": 1, "options": 5},)]
        ),
    ),
    st.builds(
        ev.PermissionResolved,
        id=st.just(name),
        request=request,
        call=call,
        tool=st.just("Bash"),
        behavior=st.sampled_from(["allow", "deny"]),
        how=st.just("person"),
        message=words,
        updated_input=st.sampled_from([None, {"answers": {"Why?": "A"}}, {"command": "rm"}]),
        remembered=st.sampled_from([(), ("Bash(ls:*)",)]),
    ),
    st.builds(ev.PermissionCancelled, id=st.just(name), request=request, reason=words),
    st.builds(ev.SessionChanged, id=st.just(name), title=st.sampled_from([None, "A title"]), archived=st.booleans()),
    st.builds(ev.SessionForked, id=st.just(name), parent=st.just(SESSION), seq=st.just(1)),
    st.builds(ev.ModelChanged, id=st.just(name), model=words),
    st.builds(ev.ThinkingChanged, id=st.just(name), budget=st.sampled_from([None, 0, 5])),
    st.builds(
        ev.SessionChanged,
        id=st.just(name),
        settings=st.sampled_from([{}, {"mode": "plan", "model": "m"}, {"mode": 5, "thinking": None, "new": 1}]),
    ),
    st.builds(ev.ModeChanged, id=st.just(name), mode=st.sampled_from(["plan", "default"])),
    st.builds(ev.ErrorRaised, id=st.just(name), turn=turn, code=words, message=words),
)


between_deltas = core_events.filter(
    lambda event: isinstance(event, ev.PermissionRequested | ev.PermissionResolved | ev.ToolEnded | ev.ModeChanged)
)
"""What the agent's other threads and the core do while it writes. It writes a text to its end, or not at all."""


@st.composite
def texts(draw: st.DrawFn) -> list[ev.Event]:
    """A text or a thought: its deltas, with other events between them, and the whole block, or no block at all."""
    block, about = draw(st.integers(0, 2)), draw(message)
    thought = draw(st.booleans())
    # A text is always in a turn.
    made: list[ev.Event] = [ev.TurnStarted(id=name, turn=TURNS[0], trigger="agent")]
    whole = ""
    for piece in draw(st.lists(words, max_size=3)):
        fields: dict[str, Any] = {"id": name, "turn": TURNS[0], "message": about, "block": block, "offset": len(whole)}
        made.append((ev.ThinkingDelta if thought else ev.TextDelta)(**fields, text=piece))
        whole += piece
        made.extend(draw(st.lists(between_deltas, max_size=1)))
    if draw(st.booleans()):
        kind: type[Any] = ev.Thinking if thought else ev.Text
        made.append(kind(id=name, turn=TURNS[0], message=about, block=block, text=whole or "whole"))
    return made


def with_drops(events: list[ev.Event]) -> EventLog:
    """The log of these events: a whole block has the marks of its deltas, which leave the log."""
    gone: dict[int, int] = {}
    open_deltas: dict[tuple[str, int, bool], list[tuple[int, int]]] = {}
    placed: list[ev.Event] = []
    for seq, event in enumerate(events, 1):
        match event:
            case ev.TextDelta() | ev.ThinkingDelta():
                key = (event.message, event.block, isinstance(event, ev.TextDelta))
                if event.offset == 0:
                    open_deltas[key] = []
                open_deltas.setdefault(key, []).append((seq, event.offset + len(event.text)))
            case ev.Text() | ev.Thinking():
                marks = tuple(open_deltas.pop((event.message, event.block, isinstance(event, ev.Text)), ()))
                event = msgspec.structs.replace(event, marks=marks)
                gone |= {delta: seq for delta, _ in marks}
            case _:
                pass
        placed.append(event)
    return EventLog(log_of(placed).entries, gone)


def once(events: list[ev.Event]) -> Iterator[ev.Event]:
    """A call, a message's place in the queue and a block exist once, as in every real log."""
    seen: set[Any] = set()
    for event in events:
        match event:
            case ev.ToolCalled():
                key: Any = event.call
            case ev.MessageQueued():
                key = event.message
            case ev.PermissionRequested() | ev.PlanProposed() | ev.QuestionAsked():
                key = event.request
            case ev.Text() | ev.Thinking():
                key = (event.message, event.block)
            case ev.TextDelta() | ev.ThinkingDelta() if (event.message, event.block) in seen:
                continue
            case _:
                yield event
                continue
        if key not in seen:
            seen.add(key)
            yield event


sessions = st.lists(st.one_of(core_events.map(lambda event: [event]), texts()), max_size=25).map(
    lambda parts: with_drops(list(once([event for part in parts for event in part])))
)


@examples(60, 2000)
@given(sessions, st.data())
def test_a_snapshot_and_later_actions_give_the_later_snapshot(log: EventLog, data: st.DataObject) -> None:
    place = st.integers(0, len(log.entries))
    spans = data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=3))
    asyncio.run(check_replay(AhpReplay, LogScene(log), plan_of(spans, ["reconnects"] * len(spans))))


@examples(60, 2000)
@given(sessions, st.data())
def test_the_same_log_gives_the_same_rows_whenever_it_is_reduced(log: EventLog, data: st.DataObject) -> None:
    """With the deltas, as it was live; without them, as it is read later; and from a stored state."""
    live, late, first = AhpReducer(SESSION), AhpReducer(SESSION), AhpReducer(SESSION)
    cut = data.draw(st.integers(0, len(log.entries)))
    for entry in log.entries[:cut]:
        first.step(entry)
    resumed = AhpReducer(SESSION)
    resumed.restore(first.snapshot())
    rows = [made.data for entry in log.entries for made in live.step(entry) if isinstance(made, NewRow)]
    kept = [entry for entry in log.entries if entry.seq not in log.gone]
    assert rows == [made.data for entry in kept for made in late.step(entry) if isinstance(made, NewRow)]
    for entry in log.entries[cut:]:
        resumed.step(entry)
    assert resumed.snapshot() == live.snapshot()
