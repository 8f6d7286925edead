"""Decoding and encoding: every known type becomes its class, nothing raises, and sent lines match the seed exactly."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.claude.golden_claude import cases, inputs, raw
from fairlead.agents.claude.wire import control, decode
from fairlead.agents.claude.wire import records as r
from fairlead.agents.claude.wire.control import cancel_line, environment_line, keep_alive_line, user_line

# --- sent lines ------------------------------------------------------------------------------------------


@pytest.mark.rules("S004-048", "S004-058", "S004-063", "S004-067")
def test_a_first_prompt_is_exactly_the_seeds_line() -> None:
    hello = b'{"type":"user","message":{"role":"user","content":"Hello"},"parent_tool_use_id":null,"session_id":""}\n'
    assert user_line("Hello") == hello
    files = hello.replace(b"Hello", b"What files are in this project?")
    assert user_line("What files are in this project?") == files


@pytest.mark.rules("S004-064")
def test_a_later_prompt_carries_the_session_and_its_own_uuid() -> None:
    assert user_line("b", "sid", "uid") == (
        b'{"type":"user","message":{"role":"user","content":"b"},"parent_tool_use_id":null,'
        b'"session_id":"sid","uuid":"uid"}\n'
    )


def test_a_prompt_of_blocks_goes_as_a_list() -> None:
    sent = json.loads(user_line([{"type": "text", "text": "a"}]))
    assert sent["message"]["content"] == [{"type": "text", "text": "a"}]


@pytest.mark.rules("S004-121", "S004-124", "S004-131")
def test_the_small_messages_are_exact() -> None:
    assert keep_alive_line() == b'{"type":"keep_alive"}\n'
    assert environment_line({"A": "b"}) == b'{"type":"update_environment_variables","variables":{"A":"b"}}\n'
    assert cancel_line("r1") == b'{"type":"control_cancel_request","request_id":"r1"}\n'


@pytest.mark.rules("S004-050")
def test_the_set_of_messages_we_may_send_is_closed() -> None:
    answers = (control.answer_line("r"), control.mcp_answer_line("r", {}), control.error_line("r", "no"))
    others = (user_line("a"), cancel_line("r"), keep_alive_line(), environment_line({}))
    lines = (control.request_line("r", "interrupt", {}), *answers, *others)
    assert {json.loads(line)["type"] for line in lines} == {
        "user",
        "control_request",
        "control_response",
        "control_cancel_request",
        "keep_alive",
        "update_environment_variables",
    }
    public = {name for name in vars(control) if name.endswith("_line") and not name.startswith("_")}
    assert len(public - {"encode_line"}) == len(lines)


# --- received lines --------------------------------------------------------------------------------------

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
}

LINES: list[tuple[dict[str, Any], type[Any]]] = [
    ({"type": "user", "message": {"role": "user", "content": "x"}, "parent_tool_use_id": None}, r.UserRecord),
    ({"type": "assistant", "message": MESSAGE, "session_id": "abc123", "uuid": "u"}, r.AssistantRecord),
    ({"type": "stream_event", "event": {"type": "ping"}, "uuid": "u"}, r.StreamRecord),
    ({"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}, r.ResultRecord),
    ({"type": "tool_progress", "tool_use_id": "t", "elapsed_time_seconds": 3}, r.ToolProgressRecord),
    ({"type": "tool_use_summary", "summary": "s", "preceding_tool_use_ids": ["t"]}, r.ToolUseSummary),
    ({"type": "auth_status", "isAuthenticating": True, "output": []}, r.AuthStatus),
    ({"type": "rate_limit_event", "rate_limit_info": {}}, r.RateLimitRecord),
    ({"type": "progress", "data": {"type": "hook_progress"}}, r.ProgressRecord),
    ({"type": "system", "subtype": "init", "tools": ["Bash"]}, r.Init),
    ({"type": "system", "subtype": "status", "status": None}, r.Status),
    ({"type": "system", "subtype": "compact_boundary", "compact_metadata": {}}, r.CompactBoundary),
    ({"type": "system", "subtype": "task_started", "task_id": "t"}, r.TaskStarted),
    ({"type": "system", "subtype": "task_progress", "task_id": "t"}, r.TaskProgress),
    ({"type": "system", "subtype": "task_updated", "task_id": "t", "patch": {}}, r.TaskUpdated),
    ({"type": "system", "subtype": "task_notification", "task_id": "t", "status": "failed"}, r.TaskNotification),
    ({"type": "system", "subtype": "background_tasks_changed", "tasks": []}, r.BackgroundTasks),
    ({"type": "system", "subtype": "hook_started", "hook_id": "h"}, r.HookRecord),
    ({"type": "system", "subtype": "hook_progress", "hook_id": "h"}, r.HookRecord),
    ({"type": "system", "subtype": "hook_response", "hook_id": "h", "exit_code": 1}, r.HookRecord),
    ({"type": "system", "subtype": "files_persisted", "files": []}, r.SystemNotice),
    ({"type": "system", "subtype": "api_retry", "attempt": 1}, r.SystemNotice),
    ({"type": "system", "subtype": "model_refusal_no_fallback"}, r.SystemNotice),
    ({"type": "system", "subtype": "thinking_tokens"}, r.SystemQuiet),
    ({"type": "control_request", "request_id": "q", "request": {"subtype": "x"}}, r.ControlRequest),
    ({"type": "control_response", "response": {"subtype": "success", "request_id": "q"}}, r.ControlResponse),
    ({"type": "control_cancel_request", "request_id": "q"}, r.ControlCancel),
    ({"type": "keep_alive"}, r.KeepAlive),
    ({"type": "streamlined_text", "text": "x"}, r.QuietRecord),
    ({"type": "streamlined_tool_use_summary", "tool_summary": "x"}, r.QuietRecord),
    ({"type": "command_lifecycle", "state": "queued"}, r.QuietRecord),
    ({"type": "summary", "summary": "x", "leafUuid": "u"}, r.TitleRecord),
]


@pytest.mark.rules("S004-051", "S004-087", "S004-126")
@pytest.mark.parametrize(("line", "kind"), LINES, ids=lambda value: value.__name__ if isinstance(value, type) else "")
def test_each_type_becomes_its_class_whatever_the_order_of_its_keys(line: dict[str, Any], kind: type[Any]) -> None:
    assert type(decode.decode(raw(line))) is kind
    assert decode.decode(raw(dict(reversed(line.items())))) == decode.decode(raw(line))


NAMES: dict[str, Any] = {"session_id": "s", "uuid": "u"}
HAND_MADE: list[dict[str, Any]] = [
    {"type": "tool_use_summary", "summary": "s", "preceding_tool_use_ids": ["t1", "t2"]},
    {"type": "auth_status", "isAuthenticating": True, "output": ["open this"], "error": "refused"},
    {"type": "auth_status", "isAuthenticating": False, "output": []},
]


@pytest.mark.rules("S004-111", "S004-112")
@pytest.mark.parametrize("line", HAND_MADE)
def test_every_field_of_an_unobserved_record_is_read(line: dict[str, Any]) -> None:
    record = decode.decode(raw({**line, **NAMES}))
    read = {name: getattr(record, name) for name in (*line, *NAMES) if name != "type"}
    assert {"type": line["type"], **read} == {**line, **NAMES}
    assert getattr(record, "error", None) == line.get("error")


@pytest.mark.rules("S004-115", "S004-122", "S004-123")
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("streamlined_text", {"text"}),
        ("streamlined_tool_use_summary", {"tool_summary"}),
        ("files_persisted", {"files", "failed", "processed_at", "subtype"}),
    ],
)
def test_a_record_forwarded_unchanged_is_recognised_by_its_names(kind: str, names: set[str]) -> None:
    """No part of it is shown as conversation; its bytes are stored unchanged."""
    (line,) = [
        given_["agent"]
        for given_ in inputs("every-type")
        if kind in (given_.get("agent", {}).get("type"), given_.get("agent", {}).get("subtype"))
    ]
    assert set(line) == {"type", "session_id", "uuid", *names}
    record = decode.decode(raw(line))
    assert isinstance(record, r.QuietRecord | r.SystemNotice)
    assert (record.session_id, record.uuid) == (line["session_id"], line["uuid"])


ERRORS = ["authentication_failed", "billing_error", "rate_limit", "invalid_request", "server_error", "unknown"]


@pytest.mark.rules("S004-084")
@pytest.mark.parametrize("error", [*ERRORS, "of_tomorrow", None])
def test_the_error_of_an_answer_is_kept_as_it_is(error: str | None) -> None:
    line = {"type": "assistant", "message": MESSAGE, **NAMES, **({"error": error} if error else {})}
    record = decode.decode(raw(line))
    assert isinstance(record, r.AssistantRecord) and record.error == error


@pytest.mark.rules("S004-058")
def test_a_user_record_has_its_optional_fields() -> None:
    line = {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": "a"}]},
        "parent_tool_use_id": "toolu_1",
        "session_id": "s",
        "uuid": "u",
        "isSynthetic": True,
    }
    record = decode.decode(raw(line))
    assert isinstance(record, r.UserRecord)
    assert (record.parent_tool_use_id, record.session_id, record.uuid, record.isSynthetic) == (
        "toolu_1",
        "s",
        "u",
        True,
    )
    assert record.message.content == [{"type": "text", "text": "a"}]


@pytest.mark.rules("S004-074", "S004-075", "S004-076")
def test_init_is_read_with_and_without_its_optional_lists() -> None:
    bare = decode.decode(raw({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/srv"}))
    full = decode.decode(
        raw(
            {
                "type": "system",
                "subtype": "init",
                "agents": ["a"],
                "skills": ["s"],
                "plugins": [{"name": "p", "path": "/p"}],
            }
        )
    )
    assert isinstance(bare, r.Init) and (bare.agents, bare.skills, bare.plugins) == (None, None, None)
    assert isinstance(full, r.Init) and (full.agents, full.skills) == (["a"], ["s"])
    assert full.plugins == [{"name": "p", "path": "/p"}]


def test_both_spellings_of_a_tools_result_are_read() -> None:
    wire = decode.decode(raw({"type": "user", "message": {}, "tool_use_result": {"a": 1}}))
    row = decode.decode(raw({"type": "user", "message": {}, "toolUseResult": "Error: no"}))
    assert isinstance(wire, r.UserRecord) and wire.result == {"a": 1}
    assert isinstance(row, r.UserRecord) and row.result == "Error: no"


WRONG: list[dict[str, Any]] = [
    {"type": "user", "message": "no object"},
    {"type": "assistant"},
    {"type": "assistant", "message": {"content": [], "id": 7}},
    {"type": "result", "subtype": 3},
    {"type": "system", "subtype": "init", "tools": "all"},
    {"type": "system", "subtype": ["init"]},
    {"type": "control_request", "request_id": 1, "request": {}},
    {"type": "stream_event", "event": {"type": "content_block_delta", "index": "zero"}},
]


@pytest.mark.parametrize("line", WRONG)
def test_a_known_type_with_other_fields_is_unknown_without_an_error(line: dict[str, Any]) -> None:
    record = decode.decode(raw({**line, "uuid": "u-1"}))
    assert isinstance(record, r.UnknownRecord)
    assert (record.type, record.uuid) == (line["type"], "u-1")


@pytest.mark.parametrize(
    "line", [b"", b"{", b"nonsense", b"[1]", b"7", b'"text"', b"null", b'{"a":}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_line_that_is_not_an_object_is_invalid(line: bytes) -> None:
    assert isinstance(decode.decode(line), r.InvalidRecord)


@pytest.mark.parametrize("line", [b"{}", b'{"type":null}', b'{"type":3,"uuid":4}', b'{"subtype":7}'])
def test_an_object_without_a_type_is_unknown(line: bytes) -> None:
    assert decode.decode(line) == r.UnknownRecord()


def test_half_an_emoji_does_not_lose_the_record() -> None:
    line = rb'{"type":"user","message":{"content":"cut \ud83d, whole \ud83d\ude00, \\ud83d, low \udc00"},"uuid":"u"}'
    record = decode.decode(line)
    assert isinstance(record, r.UserRecord)
    assert record.message.content == "cut \ufffd, whole \U0001f600, \\ud83d, low \ufffd"
    assert decode.decode_object(line)["uuid"] == "u"


def test_stray_bytes_do_not_lose_the_record() -> None:
    record = decode.decode(b'{"type":"system","subtype":"informational","content":"a\xffb"}')
    assert isinstance(record, r.SystemNotice)
    assert record.content == "a\ufffdb"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_raise(line: bytes) -> None:
    decode.decode(line)
    decode.decode_row(line)


KEYS = st.sampled_from(["type", "subtype", "uuid", "message", "event", "request", "response", "tools", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from([line["type"] for line, _ in LINES])


@given(TYPES, st.dictionaries(KEYS, VALUES, max_size=5))
def test_no_fields_make_the_decoder_raise(kind: str, fields: dict[str, Any]) -> None:
    assert not isinstance(decode.decode(json.dumps({**fields, "type": kind}).encode()), r.InvalidRecord)


@given(st.dictionaries(st.text(min_size=1).filter(lambda key: not key.isascii()), VALUES, max_size=3))
def test_unknown_fields_change_nothing(fields: dict[str, Any]) -> None:
    for line, _ in LINES:
        assert decode.decode(json.dumps({**fields, **line}).encode()) == decode.decode(raw(line))


def test_rows_of_a_transcript_are_conversation_only_with_a_uuid() -> None:
    row = {"type": "user", "message": {"role": "user", "content": "x"}}
    assert decode.decode_row(raw(row)) == r.QuietRecord(type="user")
    assert decode.decode_row(raw({"type": "assistant", "message": MESSAGE})) == r.QuietRecord(type="assistant")
    assert isinstance(decode.decode_row(raw({**row, "uuid": "u"})), r.UserRecord)
    blob = {"type": "api-request-blob", "message": {"role": "user", "content": "x"}}
    assert isinstance(decode.decode_row(raw(blob)), r.QuietRecord)


def test_every_record_of_the_recorded_traffic_is_known() -> None:
    odd = {
        (case, message.get("type"), message.get("subtype"))
        for case in cases()
        if case != "every-type"
        for given_ in inputs(case)
        for kind, message in given_.items()
        if kind in ("agent", "transcript")
        if isinstance(decode.decode(raw(message)), r.UnknownRecord | r.InvalidRecord)
    }
    assert odd == set()


@pytest.mark.rules("S004-238")
def test_every_message_with_a_session_carries_one_id_per_session() -> None:
    for case in cases():
        if "resume" in case or "fork" in case or case == "every-type":
            continue
        messages = [given_["agent"] for given_ in inputs(case) if "agent" in given_]
        ids = {message["session_id"] for message in messages if "session_id" in message}
        assert len(ids) <= 1, case
        for message in messages:
            control = message["type"].startswith("control_") or message["type"] == "keep_alive"
            assert ("session_id" in message) != control, (case, message["type"])
