"""The reference client: every event has its effect on the client's state, and odd lines have none."""

from typing import Any

import msgspec

from fairlead_testing.native_client import Fold, FoldedBlock, FoldedMessage


def fold(*lines: dict[str, Any]) -> Fold:
    client = Fold()
    for seq, line in enumerate(lines, 1):
        client.apply({"seq": seq, "id": f"e{seq}", **line})
    return client


def delta(words: str, offset: int, kind: str = "text", **fields: Any) -> dict[str, Any]:
    return {"type": f"{kind}.delta", "message": "m", "block": 0, "offset": offset, "text": words, **fields}


def whole(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "message": "m", "block": 0, "text": words, **fields}


def blocks(client: Fold) -> list[tuple[str, bool]]:
    return [(item.text, item.whole) for item in client.state.conversation if isinstance(item, FoldedBlock)]


def test_pieces_are_written_at_their_offset() -> None:
    assert blocks(fold(delta("he", 0), delta("llo", 2))) == [("hello", False)]
    assert blocks(fold(delta("he", 0), delta("he", 0), delta("ello", 1))) == [("hello", False)]
    # A gap is not filled with guesses: the whole block will arrive.
    assert blocks(fold(delta("he", 0), delta("o", 4))) == [("he", False)]


def test_the_whole_block_replaces_its_pieces_and_late_pieces_change_nothing() -> None:
    assert blocks(fold(delta("he", 0), whole("hello"), delta("x", 5))) == [("hello", True)]


def test_the_whole_block_stands_where_it_became_whole() -> None:
    other = {"type": "user.message", "message": "u", "content": [{"type": "text", "text": "steer"}], "via": "steer"}
    seen = fold(delta("he", 0), other, whole("hello")).state
    unseen = fold({"type": "record", "record": "x"}, other, whole("hello")).state
    assert seen == unseen
    assert isinstance(seen.conversation[0], FoldedMessage)


def test_a_line_that_was_seen_before_changes_nothing() -> None:
    client = fold(whole("one"), {"type": "notice", "kind": "k", "text": "t"})
    state = msgspec.json.encode(client.state)
    client.apply({"seq": 2, "id": "e2", "type": "notice", "kind": "k", "text": "t"})
    assert msgspec.json.encode(client.state) == state
    assert client.seq == 2


def test_unknown_kinds_and_fields_are_ignored() -> None:
    client = fold({"type": "of.tomorrow"}, whole("x", new=1), {"type": "text"})
    assert blocks(client) == [("x", True)]
    assert client.seq == 3


def test_thinking_and_input_pieces() -> None:
    client = fold(
        delta("so", 0, "thinking"),
        delta("", 2, "thinking", signature="S"),
        {"type": "input.delta", "message": "m", "block": 1, "offset": 0, "call": "c", "name": "Bash", "json": "{"},
    )
    thought, call = (item for item in client.state.conversation if isinstance(item, FoldedBlock))
    assert (thought.kind, thought.text, thought.signature) == ("thinking", "so", "S")
    assert (call.kind, call.text) == ("tool_use", "{")
    done = fold({"type": "thinking", "message": "m", "block": 0, "text": "so", "signature": "S"})
    assert blocks(done) == [("so", True)]


def test_a_session_from_its_opening_to_its_close() -> None:
    client = fold(
        {"type": "session.opened", "cwd": "/srv", "agent": "claude", "title": "t"},
        {"type": "session.forked", "parent": "p", "seq": 3},
        {"type": "session.resumed", "agent_session": "a"},
        {"type": "agent.started", "agent": "claude", "pid": 1},
        {"type": "agent.ready", "agent_session": "a", "version": "2", "model": "m", "mode": "default"},
        {"type": "mode.changed", "mode": "plan"},
        {"type": "model.changed", "model": "n"},
        {"type": "thinking.changed", "budget": 5},
        {"type": "session.changed", "title": "new", "settings": {"a": 1}},
        {"type": "session.changed", "archived": True, "settings": {"b": 2}},
        {"type": "rewound", "message": "m"},
        {"type": "rate.limit", "info": {"status": "x"}},
        {"type": "error", "code": "busy", "message": "no"},
        {"type": "agent.exited", "reason": "idle", "expected": True},
        {"type": "session.closed", "reason": "done"},
    )
    state = client.state
    assert (state.cwd, state.agent, state.title, state.archived, state.closed) == ("/srv", "claude", "new", True, True)
    assert (state.mode, state.model, state.thinking, state.version) == ("plan", "n", 5, "2")
    assert state.settings == {"a": 1, "b": 2}
    assert (state.running, state.agent_session) == (False, "a")
    assert state.rate_limit == {"status": "x"}
    assert state.errors == [("busy", "no")]
    client.apply({"seq": 99, "id": "e", "type": "agent.started", "agent": "claude", "pid": 2})
    assert (client.state.running, client.state.closed) == (True, False)


def test_turns_open_and_end() -> None:
    client = fold({"type": "turn.started", "turn": "t1"}, {"type": "interrupt.asked"})
    assert (client.state.turn, client.state.interrupting) == ("t1", True)
    client = fold(
        {"type": "turn.started", "turn": "t1", "trigger": "agent"},
        {"type": "interrupt.asked"},
        {"type": "turn.ended", "turn": "t1", "status": "failed", "reason": "r", "errors": ["e"], "cost_usd": 0.5},
        {"type": "turn.ended", "turn": "t0", "status": "failed"},
        {"type": "turn.started"},
        {"type": "interrupt.asked"},
    )
    turn = client.state.turns["t1"]
    assert (turn.trigger, turn.status, turn.reason, turn.errors, turn.cost_usd) == ("agent", "failed", "r", ("e",), 0.5)
    assert (client.state.turn, client.state.interrupting) == (None, False)


def test_calls_and_subagents() -> None:
    client = fold(
        {"type": "tool.called", "call": "c", "name": "Task", "input": {"a": 1}, "message": "m"},
        {"type": "subagent.started", "child": "s", "call": "c", "title": "job", "background": True},
        {"type": "tool.progress", "call": "c", "elapsed_s": 2, "note": "n"},
        {"type": "tool.ended", "call": "c", "content": "x", "is_error": True, "status": "failed"},
        {"type": "tool.progress", "call": "c", "elapsed_s": 9},
        {"type": "tool.ended", "call": "old", "name": "Read"},
        {"type": "subagent.ended", "child": "s", "call": "c", "status": "stopped", "summary": "z"},
        {"type": "subagent.ended", "child": "unknown", "call": "c"},
    )
    call = client.state.calls["c"]
    assert (call.name, call.input, call.status, call.content, call.elapsed_s) == ("Task", {"a": 1}, "failed", "x", 2)
    assert client.state.calls["old"].status == "done"
    assert list(client.state.subagents) == ["s"]
    assert (client.state.subagents["s"].status, client.state.subagents["s"].background) == ("stopped", True)


def test_items_move_from_the_main_thread_to_their_subagent_once_it_is_known() -> None:
    child = "c0123456789abcdef0123456"
    called = {"type": "tool.called", "call": "t1", "name": "Bash", "input": {}, "message": "m", "block": 1}
    prompt = {"type": "user.message", "message": "u", "content": [{"type": "text", "text": "job"}]}
    resolved = {"type": "subagent.resolved", "child": child, "call": "task", "messages": ["m", "u"], "calls": ["t1"]}
    client = fold(prompt, whole("deep"), called, whole("mine", message="other"), resolved)
    assert [item.subagent for item in client.state.conversation] == [child, child, child, None]
    assert client.state.calls["t1"].subagent == child


def test_requests_wait_until_they_are_settled() -> None:
    asked: list[dict[str, Any]] = [
        {"type": "permission.asked", "request": "r1", "call": "c", "tool": "Bash", "input": {}},
        {"type": "question.asked", "request": "r2", "call": "c", "questions": []},
        {"type": "plan.proposed", "request": "r3", "call": "c", "plan": "p"},
    ]
    assert list(fold(*asked).state.asked) == ["r1", "r2", "r3"]
    allowed = {"type": "permission.resolved", "request": "r1", "call": "c", "tool": "Bash", "behavior": "allow"}
    state = fold(
        *asked, {**allowed, "how": "person"}, {"type": "permission.cancelled", "request": "r2", "reason": "x"}
    ).state
    assert list(state.asked) == ["r3"]
    assert state.decided == {"r1": "allow", "r2": "cancelled"}


def test_the_queue_is_kept_in_its_order() -> None:
    queued: list[dict[str, Any]] = [
        {"type": "message.queued", "message": name, "content": []} for name in ("a", "b", "c")
    ]
    moved = {"type": "message.moved", "message": "c", "position": 0}
    names = [item.message for item in fold(*queued, moved).state.queue]
    assert names == ["c", "a", "b"]
    rest = fold(
        *queued,
        {"type": "message.dequeued", "message": "a"},
        {"type": "message.cancelled", "message": "c"},
        {"type": "message.moved", "message": "zz", "position": 1},
    )
    assert [item.message for item in rest.state.queue] == ["b"]


def test_hooks_and_compaction() -> None:
    hook = {"type": "hook.progress", "hook": "h", "name": "n", "event": "Stop"}
    client = fold({**hook, "phase": "started"}, {**hook, "phase": "ended", "outcome": "success"})
    assert (client.state.hooks["h"].phase, client.state.hooks["h"].outcome) == ("ended", "success")
    started = {"type": "compaction", "phase": "started"}
    boundary = {"type": "compaction", "phase": "boundary"}
    assert fold(started, boundary).state.compacting
    assert not fold(started, {"type": "compaction", "phase": "ended"}, boundary).state.compacting
