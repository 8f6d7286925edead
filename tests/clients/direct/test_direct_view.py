"""What a direct client hears: the agent's bytes, and of what went before only what it must know."""

import json
from collections.abc import Iterable

import pytest

from agents.claude.golden_claude import cases, feed, inputs, raw
from clients.native.conversation_driver import frames
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.clients.direct.view import DirectEncoder, DirectReducer, decode_catch_up
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Origin
from fairlead.sessions.log import PendingEntries
from fairlead.testing.direct_client import DirectClient

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
VARIANT = DirectEncoder()


def log_of(case: str) -> list[Entry]:
    """As the core stages it: a record's bytes beside its first event."""
    interpreter = ClaudeInterpreter(SESSION)
    entries: list[Entry] = []
    head = at = 0
    for number, given in enumerate(inputs(case)):
        ((origin, said),) = given.items()
        known: Origin = "agent" if origin == "agent" else "transcript" if origin == "transcript" else "gateway"
        stage = PendingEntries(head, at, 1000)
        beside: bytes | None = raw(said)
        for event in feed(interpreter, given, number).events:
            placed, _ = stage.add(event, known if beside is not None else "", beside)
            interpreter.assign_seq(placed, stage.seq)
            beside = None
        head, at = stage.seq, stage.at
        for new in stage.entries:
            prev = entries[-1].seq if entries else 0
            entries.append(Entry(new.seq, prev, new.at, new.kind, new.event, new.origin, new.raw))
    return entries


def hear(client: DirectClient, data: bytes) -> None:
    for text, payload in frames(data):
        assert text
        assert payload.endswith(b"\n")
        client.feed(payload)


def folded(*parts: bytes) -> DirectClient:
    client = DirectClient()
    for part in parts:
        hear(client, part)
    return client


def live(entries: Iterable[Entry]) -> bytes:
    return b"".join(VARIANT.encode(SESSION, entry) for entry in entries)


@pytest.mark.rules("S004-086", "S004-311")
@pytest.mark.parametrize("case", cases())
def test_the_agents_lines_come_as_they_were_written(case: str) -> None:
    entries = log_of(case)
    lines = [payload for _, payload in frames(live(entries))]
    wanted = [entry.raw + b"\n" for entry in entries if entry.origin == "agent" and entry.raw is not None]
    ours = b'"control_cancel_request"'
    assert [line for line in lines if line in wanted or ours not in line] == wanted or "transcript" in case


@pytest.mark.parametrize("case", cases())
def test_the_law_one_who_leaves_and_comes_back_knows_what_one_knows_who_stayed(case: str) -> None:
    entries = log_of(case)
    whole = folded(live(entries))
    step = max(1, len(entries) // 12)
    for cut in range(0, len(entries) + 1, step):
        fold = DirectReducer()
        for entry in entries[:cut]:
            assert fold.step(entry) == ()
        again = DirectReducer()
        again.restore(fold.snapshot())
        state = decode_catch_up(again.snapshot())
        assert state.seq == (entries[cut - 1].seq if cut else 0)
        back = folded(state.frames(), live(entries[cut:]))
        assert (back.init, back.pending) == (whole.init, whole.pending)


@pytest.mark.rules("S004-310")
@pytest.mark.parametrize("version", ["2.1.37", "2.1.120", "2.1.325"])
def test_one_who_joins_is_told_the_last_init_and_what_waits(version: str) -> None:
    entries = log_of(f"{version}-perm_allow_bash")
    asked = next(place for place, entry in enumerate(entries) if entry.kind == "permission.asked")
    fold = DirectReducer()
    for entry in entries[: asked + 1]:
        fold.step(entry)
    client = folded(decode_catch_up(fold.snapshot()).frames())
    assert client.init is not None
    ((name, request),) = client.pending.items()
    assert request["subtype"] == "can_use_tool"
    event = json.dumps({"type": "permission.resolved", "id": "x", "request": name}).encode()
    fold.step(Entry(entries[asked].seq + 1, 0, 1, "permission.resolved", event))
    assert folded(decode_catch_up(fold.snapshot()).frames()).pending == {}


def test_a_permission_that_somebody_settled_is_withdrawn_from_the_others() -> None:
    event = json.dumps({"type": "permission.resolved", "id": "x", "request": "r1", "asked": True}).encode()
    entry = Entry(5, 4, 1, "permission.resolved", event)
    client = DirectClient()
    client.pending["r1"] = {}
    hear(client, VARIANT.encode(SESSION, entry))
    assert client.pending == {}
    by_rule = json.dumps({"type": "permission.resolved", "id": "x", "request": "hook:1", "asked": False}).encode()
    assert VARIANT.encode(SESSION, Entry(6, 5, 1, "permission.resolved", by_rule)) == b""


def test_our_own_lines_and_copies_are_not_the_agents_words() -> None:
    assert VARIANT.encode(SESSION, Entry(1, 0, 1, "user.message", b"{}", "gateway", b"{}")) == b""
    assert VARIANT.encode(SESSION, Entry(1, 0, 1, "record", b"{}", "transcript", b"{}")) == b""
    assert VARIANT.encode(SESSION, Entry(1, 0, 1, "text", b"{}", "transcript", b'{"a":1}')) != b""
    assert VARIANT.signal(SESSION, "typing", "Ann", None) == b""


@pytest.mark.rules("S004-316")
def test_a_client_whose_connection_is_closed_says_that_nothing_was_sent() -> None:
    sent: list[str] = []
    client = DirectClient(sent.append)
    client.pending["r"] = {"input": {"command": "ls"}}
    assert client.send_message("hi") and client.respond_to_permission("r", "allow") and client.send_interrupt("i")
    assert json.loads(sent[1])["response"]["response"] == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    client.disconnected()
    assert not client.is_connected
    assert not client.send_message("hi")
    assert not client.respond_to_permission("r", "deny", message="no")
    assert not client.send_interrupt("i")
    assert len(sent) == 3
