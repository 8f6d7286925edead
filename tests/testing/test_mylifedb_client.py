"""The client half of the MyLifeDB protocol: conversion, deduplication, optimistic messages, the tree, working, the
stream.
"""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_testing.mylifedb_client import (
    ChatPage,
    Message,
    MyLifeDbClient,
    address,
    build_tree,
    convert,
    milliseconds,
)
from fairlead_testing.threads import ThreadNode, walk

TIME = "2026-01-19T04:45:15.012Z"
TIME_MS = 1_768_797_915_012


def record(kind: str, uuid: str, content: Any = "", **fields: Any) -> dict[str, Any]:
    body = {"type": kind, "uuid": uuid, "parentUuid": None, "timestamp": TIME}
    return {**body, "message": {"role": kind, "content": content}, **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "ls"}}


def result(name: str = "t1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "ok"}


def connected(*frames: dict[str, Any]) -> MyLifeDbClient:
    client = MyLifeDbClient()
    client.opened("ws://here/")
    for frame in frames:
        client.received(json.dumps(frame))
    return client


def delta(kind: str, name: str, piece: str, **more: Any) -> dict[str, Any]:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": kind, name: piece}}
    return {"type": "stream_event", "event": event, **more}


STOP = {"type": "stream_event", "event": {"type": "message_stop"}}

# --- conversion


@pytest.mark.rules("S000-175", "S000-176", "S000-177")
@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("as it is\n", "as it is\n"),
        ([], ""),
        (None, ""),
        ([call()], ""),
        ([text("one"), call(), text("two")], "one\ntwo"),
    ],
)
def test_the_text_of_a_message(content: Any, shown: str) -> None:
    assert convert(record("assistant", "a", content)).content == shown


@pytest.mark.rules("S000-178", "S000-179", "S000-180", "S000-181", "S000-182", "S000-183", "S000-184")
def test_thinking_calls_and_the_rest_of_a_message() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
    shown = convert(record("assistant", "a", [thought, {"type": "thinking", "thinking": "So."}, call()]))
    assert shown == Message(
        id="a",
        role="assistant",
        content="",
        timestamp=TIME_MS,
        toolCalls=({"id": "t1", "name": "Bash", "parameters": {"command": "ls"}, "status": "completed"},),
        thinking=(thought, {"type": "thinking", "thinking": "So."}),
    )
    plain = convert(record("user", "u", "hello"))
    assert msgspec.to_builtins(plain) == {"id": "u", "role": "user", "content": "hello", "timestamp": TIME_MS}, "absent"


def test_times_are_iso_or_a_number() -> None:
    assert milliseconds(TIME) == milliseconds(TIME_MS) == TIME_MS
    assert milliseconds("no time") == milliseconds(None) == 0


# --- working or idle


@pytest.mark.rules("S000-021", "S000-022", "S000-033")
def test_working_is_reported_after_every_record_and_starts_as_false() -> None:
    client = MyLifeDbClient()
    assert client.state.working is False
    client = connected(record("user", "u"), {"type": "unknown"}, record("assistant", "a", [text("done")]))
    assert client.published == [True, True, False]


@pytest.mark.parametrize(
    ("frames", "working"),
    [
        pytest.param([record("user", "u")], True, marks=pytest.mark.rules("S000-023")),
        pytest.param([record("user", "u", [result()])], True, marks=pytest.mark.rules("S000-024")),
        pytest.param([{"type": "progress", "uuid": "p", "data": {}}], True, marks=pytest.mark.rules("S000-025")),
        pytest.param(
            [record("user", "u"), record("assistant", "a", [text("so"), call()])],
            True,
            marks=pytest.mark.rules("S000-026"),
        ),
        pytest.param(
            [record("user", "u"), record("assistant", "a", [text("done")])],
            False,
            marks=pytest.mark.rules("S000-027", "S000-036", "S000-167"),
        ),
        pytest.param(
            [
                record("user", "u"),
                {"type": "assistant", "uuid": "a", "message": {}},
                {"type": "assistant", "uuid": "b"},
            ],
            False,
            marks=pytest.mark.rules("S000-028"),
        ),
        pytest.param(
            [{"type": "progress", "uuid": "p"}, {"type": "queue-operation", "operation": "dequeue"}],
            False,
            marks=pytest.mark.rules("S000-030"),
        ),
        pytest.param([record("user", "u"), {"type": "queue-operation", "operation": "dequeue"}], True),
        pytest.param(
            [record("user", "u"), {"type": "queue-operation", "operation": "enqueue"}],
            True,
            marks=pytest.mark.rules("S000-031"),
        ),
        pytest.param([record("user", "u"), {"type": "result", "uuid": "r"}], False),
        pytest.param(
            [record("user", "u"), record("assistant", "a", [call()]), record("user", "v", [result()])],
            True,
            marks=pytest.mark.rules("S000-034"),
        ),
    ],
)
def test_the_working_state_follows_from_the_frames(frames: list[dict[str, Any]], working: bool) -> None:
    assert connected(*frames).state.working is working


@pytest.mark.rules("S000-029")
def test_whether_the_last_answer_had_calls_is_remembered() -> None:
    client = connected(record("assistant", "a", [call()]), {"type": "system", "uuid": "s"})
    assert client._working.tools is True
    client.apply(record("assistant", "b", [text("done")]))
    assert client._working.tools is False


MEANT = frozenset({"user", "assistant", "progress", "result", "queue-operation"})
OWN = frozenset({"session_info", "resume", "todo_update", "session_state", "typing", "ack", "error", "stream_event"})
CARDS = frozenset({"control_request", "control_response", "control_cancel_request"})


@pytest.mark.rules("S000-032")
@given(st.text().filter(lambda kind: kind not in MEANT | OWN | CARDS))
def test_other_types_change_nothing(kind: str) -> None:
    for before in (record("user", "u"), record("assistant", "a", [text("done")])):
        client = connected(before)
        working = client.state.working
        client.apply({"type": kind})
        assert client.state.working is working


# --- messages


@pytest.mark.rules("S000-165", "S000-166", "S000-238")
def test_each_record_is_shown_once_in_order() -> None:
    frames = [record("user", "u", "hello"), record("assistant", "a", [text("Hi.")]), record("user", "u", "hello")]
    client = connected(*frames, *frames)
    assert [message.id for message in client.state.messages] == ["u", "a"]
    assert "[ChatInterface] Received message: assistant a" in client.reports


@pytest.mark.rules("S000-086")
def test_a_record_without_a_message_needs_none() -> None:
    client = connected({"type": "progress", "uuid": "p", "data": {"type": "hook_progress"}, "toolUseID": "t1"})
    assert client.state.messages == []


@pytest.mark.rules("S000-100", "S000-101", "S000-102")
def test_an_error_is_shown_to_the_person_but_not_as_a_message() -> None:
    client = connected(record("user", "u", "hello"), delta("text_delta", "text", "Half"))
    before = client.is_streaming
    client.apply({"type": "error", "error": "It failed."})
    assert client.notices == ["It failed."]
    assert (before, client.is_streaming) == (True, False)
    assert [message.id for message in client.state.messages] == ["u"]


@pytest.mark.rules("S000-206", "S000-207")
@pytest.mark.parametrize("data", ["{", "[]", "", b"\xff"])
def test_a_frame_that_cannot_be_read_is_reported_and_ends_the_stream(data: str | bytes) -> None:
    client = connected(record("user", "u"))
    before = client.is_streaming
    client.received(data)
    assert client.reports[-1].startswith("Failed to parse message:")
    assert (before, client.is_streaming) == (True, False)


# --- sending


@pytest.mark.rules("S000-168", "S000-169")
def test_without_a_connection_nothing_is_sent_or_shown() -> None:
    client = MyLifeDbClient()
    assert client.send("hello", "x", 1) is None
    assert (client.state.messages, client.is_streaming) == ([], False)
    assert client.reports == ["WebSocket not connected"]


@pytest.mark.rules("S000-171", "S000-172", "S000-173", "S000-174")
def test_a_message_is_shown_before_the_server_has_it() -> None:
    client = connected()
    frame = client.send("hello", "random-uuid", 1234)
    assert frame is not None and json.loads(frame) == {"type": "user_message", "content": "hello"}
    assert client.is_streaming is True
    assert client.state.messages == [Message(id="random-uuid", role="user", content="hello", timestamp=1234)]
    client.apply(record("user", "u", "hello"))
    assert [message.id for message in client.state.messages] == ["u"], "the server's takes its place"


@pytest.mark.rules("S000-208", "S000-209", "S000-210")
def test_a_send_that_fails_is_reported_shown_and_ends_the_stream() -> None:
    client = connected()
    client.send("hello", "random-uuid", 1)
    client.send_failed("the socket is closing")
    assert client.reports[-1] == client.notices[-1] == "Failed to send message: the socket is closing"
    assert client.is_streaming is False


# --- the connection


@pytest.mark.rules("S000-157", "S000-158")
@pytest.mark.parametrize(
    ("page", "socket"),
    [
        ("http://localhost:12345/chat?x=1", "ws://localhost:12345/api/claude/sessions/S/subscribe"),
        ("https://home.example/app/", "wss://home.example/api/claude/sessions/S/subscribe"),
    ],
)
def test_the_sockets_address_is_that_of_the_page(page: str, socket: str) -> None:
    assert address(page, "S") == socket


@pytest.mark.rules("S000-161", "S000-162", "S000-163", "S000-164", "S000-233", "S000-234")
def test_the_connection_is_shown_as_it_is() -> None:
    client = MyLifeDbClient()
    assert client.indicator == "Disconnected"
    client.opened("ws://here/")
    assert (client.connected, client.indicator) == (True, "")
    assert client.reports == [
        "[ChatInterface] Connecting to WebSocket: ws://here/",
        "[ChatInterface] WebSocket connected",
    ]
    client.failed()
    assert client.indicator == "Disconnected"
    client.opened()
    client.closed()
    assert client.indicator == "Disconnected"


# --- the stream


@pytest.mark.rules("S000-119", "S000-120", "S000-121")
def test_the_streamed_text_grows_only_by_text_deltas() -> None:
    client = connected(
        delta("text_delta", "text", "Here "),
        delta("thinking_delta", "thinking", "Hm"),
        delta("input_json_delta", "partial_json", "{}"),
        delta("text_delta", "text", "it is"),
        delta("text_delta", "text", "a subagent's", parent_tool_use_id="t1"),
    )
    assert client.state.streaming_text == "Here it is"
    assert client.texts == ["Here ", "Here it is"]


@pytest.mark.rules("S000-122", "S000-123", "S000-124")
@pytest.mark.parametrize("end", [STOP, record("assistant", "a", [text("Here it is")])])
def test_the_streamed_text_disappears_when_the_message_arrives(end: dict[str, Any]) -> None:
    client = connected(delta("text_delta", "text", "Here it is"), end, record("assistant", "a", [text("Here it is")]))
    assert client.state.streaming_text == ""
    assert [message.content for message in client.state.messages] == ["Here it is"], "shown once"


# --- the tree

CONVERSATION = [
    record("user", "A"),
    record("assistant", "B", parentUuid="A"),
    record("assistant", "C", parentUuid="B"),
    record("user", "D", parentUuid="C"),
    record("assistant", "E", parentUuid="D"),
    record("user", "A2", parentUuid="B"),
]


def shape(nodes: list[ThreadNode]) -> Any:
    return [(node.uuid, shape(node.children)) for node in nodes]


@pytest.mark.rules("S000-185", "S000-190", "S000-191", "S000-193")
def test_messages_form_a_tree() -> None:
    tree = build_tree(CONVERSATION)
    assert shape(tree) == [("A", [("B", [("C", [("D", [("E", [])])]), ("A2", [])])])]
    assert [dict(node.row) for node in walk(tree)] == [CONVERSATION[n] for n in (0, 1, 2, 3, 4, 5)]


@pytest.mark.rules("S000-192", "S000-194", "S000-195")
def test_roots_are_those_without_a_known_parent() -> None:
    rows = [record("user", "A"), record("user", "B", parentUuid="gone"), record("user", "C", parentUuid="")]
    assert shape(build_tree(rows)) == [("A", []), ("B", []), ("C", [])]


@pytest.mark.rules("S000-195", "S000-196")
@given(st.permutations(CONVERSATION))
def test_a_parent_may_come_after_its_child(rows: list[dict[str, Any]]) -> None:
    tree = build_tree(rows)
    assert [node.uuid for node in tree] == ["A"]
    order = [row["uuid"] for row in rows]
    for node in walk(tree):
        children = [child.uuid for child in node.children]
        assert children == sorted(children, key=order.index)
    assert len(list(walk(tree))) == len(rows)


def test_parents_in_a_circle_end_somewhere() -> None:
    rows = [
        record("user", "A", parentUuid="B"),
        record("user", "B", parentUuid="A"),
        record("user", "C", parentUuid="C"),
    ]
    assert shape(build_tree(rows)) == [("A", [("B", [])]), ("C", [])]


# --- the page


@pytest.mark.rules("S000-159", "S000-160")
def test_another_session_is_another_socket_and_leaving_closes_it() -> None:
    page = ChatPage("http://here:1/")
    one, two = address(page.page, "one"), address(page.page, "two")
    assert page.select("one") == [("open", one)]
    assert page.select("one") == []
    first = page.client
    first.opened(one)
    assert page.select("two") == [("close", one), ("open", two)]
    assert page.client is not first and not first.connected
    assert page.leave() == [("close", two)]
    assert page.leave() == []


@pytest.mark.rules("S000-170")
def test_enter_sends_the_typed_text() -> None:
    page = ChatPage("http://here:1/")
    page.select("one")
    for key in "hi":
        assert page.key(key, "x", 1) == []
    assert page.key("Enter", "x", 1) == [], "what cannot be sent stays in the input"
    assert page.input == "hi"
    page.client.opened()
    assert page.key("Enter", "x", 1) == [("send", '{"type":"user_message","content":"hi"}')]
    assert page.input == ""
