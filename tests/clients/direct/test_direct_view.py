"""Frames that a direct client receives: the agent's bytes, and from the past only the state that it needs."""

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
from fairlead_testing.direct_client import DirectClient

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
VARIANT = DirectEncoder()


def log_of(case: str) -> list[Entry]:
    """Build the log as the core stages it: a record's bytes are stored with the record's first event."""
    interpreter = ClaudeInterpreter(SESSION)
    entries: list[Entry] = []
    head = at = 0
    for number, given in enumerate(inputs(case)):
        ((origin, record),) = given.items()
        known: Origin = "agent" if origin == "agent" else "transcript" if origin == "transcript" else "gateway"
        stage = PendingEntries(head, at, 1000)
        record_bytes: bytes | None = raw(record)
        for event in feed(interpreter, given, number).events:
            placed, _ = stage.add(event, known if record_bytes is not None else "", record_bytes)
            interpreter.assign_seq(placed, stage.seq)
            record_bytes = None
        head, at = stage.seq, stage.at
        for new in stage.entries:
            prev = entries[-1].seq if entries else 0
            entries.append(Entry(new.seq, prev, new.at, new.kind, new.event, new.origin, new.raw))
    return entries


def feed_frames(client: DirectClient, data: bytes) -> None:
    for text, payload in frames(data):
        assert text
        assert payload.endswith(b"\n")
        client.feed(payload)


def folded(*parts: bytes) -> DirectClient:
    client = DirectClient()
    for part in parts:
        feed_frames(client, part)
    return client


def live(entries: Iterable[Entry]) -> bytes:
    return b"".join(VARIANT.encode(SESSION, entry) for entry in entries)


@pytest.mark.rules("S004-086", "S004-311")
@pytest.mark.parametrize("case", cases())
def test_the_agents_lines_are_sent_unchanged(case: str) -> None:
    entries = log_of(case)
    lines = [payload for _, payload in frames(live(entries))]
    wanted = [entry.raw + b"\n" for entry in entries if entry.origin == "agent" and entry.raw is not None]
    ours = b'"control_cancel_request"'
    assert [line for line in lines if line in wanted or ours not in line] == wanted or "transcript" in case


@pytest.mark.parametrize("case", cases())
def test_a_client_that_reconnects_holds_the_same_state_as_one_that_stayed(case: str) -> None:
    entries = log_of(case)
    whole = folded(live(entries))
    step = max(1, len(entries) // 12)
    for cut in range(0, len(entries) + 1, step):
        fold = DirectReducer(SESSION)
        for entry in entries[:cut]:
            assert fold.step(entry) == ()
        again = DirectReducer(SESSION)
        again.restore(fold.snapshot())
        state = decode_catch_up(again.snapshot())
        assert state.seq == (entries[cut - 1].seq if cut else 0)
        back = folded(state.frames(), live(entries[cut:]))
        assert (back.init, back.pending) == (whole.init, whole.pending)


@pytest.mark.rules("S004-310")
@pytest.mark.parametrize("version", ["2.1.37", "2.1.120", "2.1.325"])
def test_a_joining_client_receives_the_last_init_and_the_pending_requests(version: str) -> None:
    entries = log_of(f"{version}-perm_allow_bash")
    asked = next(place for place, entry in enumerate(entries) if entry.kind == "permission.asked")
    fold = DirectReducer(SESSION)
    for entry in entries[: asked + 1]:
        fold.step(entry)
    client = folded(decode_catch_up(fold.snapshot()).frames())
    assert client.init is not None
    ((name, request),) = client.pending.items()
    assert request["subtype"] == "can_use_tool"
    event = json.dumps({"type": "permission.resolved", "id": "x", "request": name}).encode()
    fold.step(Entry(entries[asked].seq + 1, 0, 1, "permission.resolved", event))
    assert folded(decode_catch_up(fold.snapshot()).frames()).pending == {}


def test_a_resolved_permission_is_withdrawn_from_the_other_clients() -> None:
    event = json.dumps({"type": "permission.resolved", "id": "x", "request": "r1", "asked": True}).encode()
    entry = Entry(5, 4, 1, "permission.resolved", event)
    client = DirectClient()
    client.pending["r1"] = {}
    feed_frames(client, VARIANT.encode(SESSION, entry))
    assert client.pending == {}
    by_rule = json.dumps({"type": "permission.resolved", "id": "x", "request": "hook:1", "asked": False}).encode()
    assert VARIANT.encode(SESSION, Entry(6, 5, 1, "permission.resolved", by_rule)) == b""


def test_gateway_lines_and_transcript_copies_are_not_sent_as_the_agents_output() -> None:
    assert VARIANT.encode(SESSION, Entry(1, 0, 1, "user.message", b"{}", "gateway", b"{}")) == b""
    assert VARIANT.encode(SESSION, Entry(1, 0, 1, "record", b"{}", "transcript", b"{}")) == b""
    assert VARIANT.encode(SESSION, Entry(1, 0, 1, "text", b"{}", "transcript", b'{"a":1}')) != b""
    assert VARIANT.signal(SESSION, "typing", "Ann", None) == b""


@pytest.mark.rules("S004-316")
def test_a_disconnected_client_reports_that_nothing_was_sent() -> None:
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
