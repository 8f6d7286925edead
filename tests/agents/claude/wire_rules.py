"""The rules of the seed for the messages of the Claude CLI, as functions over messages.

Pure: the same functions check recorded messages (test_wire_traces.py) and the current messages of the real CLI
(e2e/test_real_records.py). `messages` are the messages of the CLI in order; a `turn` is its messages for one prompt.
"""

from collections.abc import Sequence
from typing import Any

from fairlead.agents.claude.versions import parse_version
from fairlead.model.ids import is_uuid

Message = dict[str, Any]
Messages = Sequence[Message]

NUMBER = (int, float)
MODES = {"default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "delegate", "auto"}
USAGE = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
MODEL_USAGE = {
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "webSearchRequests",
    "costUSD",
    "contextWindow",
    "maxOutputTokens",
}
ERRORS = {"error_during_execution", "error_max_turns", "error_max_budget_usd"}
API_ERRORS = {"authentication_failed", "billing_error", "rate_limit", "invalid_request", "server_error", "unknown"}

# The oldest version in which each behaviour was observed.
TELLS_MODES = "2.1.77"
TELLS_ERRORS = "2.1.90"
DESCRIBES_CALLS = "2.1.120"
CARRIES_TOTALS_OVER = "2.1.280"
HAS_USAGE_OF_QUERY = "2.1.310"


def of(messages: Messages, kind: str, subtype: str | None = None) -> list[Message]:
    found = [message for message in messages if message.get("type") == kind]
    return found if subtype is None else [message for message in found if message.get("subtype") == subtype]


def some(messages: Messages, kind: str, subtype: str | None = None) -> list[Message]:
    """Return the messages of one type. At least one must exist, or a rule about them would check nothing."""
    found = of(messages, kind, subtype)
    assert found, (kind, subtype)
    return found


def permissions(messages: Messages) -> list[Message]:
    """Return the permission requests of the CLI."""
    requests = [message["request"] for message in of(messages, "control_request")]
    return [request for request in requests if request["subtype"] == "can_use_tool"]


def blocks(messages: Messages, kind: str, block: str) -> list[Message]:
    """Return the content blocks of one type in messages of one type. At least one must exist."""
    contents = [message["message"]["content"] for message in of(messages, kind)]
    found = [part for content in contents if isinstance(content, list) for part in content if part["type"] == block]
    assert found, (kind, block)
    return found


def since(version: str, first: str) -> bool:
    this, other = parse_version(version), parse_version(first)
    assert this is not None and other is not None
    return this >= other


# --- init, answers, streams -----------------------------------------------------------------------------------


def init_says_where_and_what_it_is(messages: Messages, version: str) -> None:
    names = {"cwd", "session_id", "model", "permissionMode", "apiKeySource", "claude_code_version", "output_style"}
    for init in some(messages, "system", "init"):
        assert all(isinstance(init[name], str) for name in names)
        assert is_uuid(init["uuid"]) and is_uuid(init["session_id"])
        assert init["claude_code_version"] == version
        assert init["permissionMode"] in MODES
        assert all(isinstance(tool, str) for tool in init["tools"]) and init["tools"]
        assert all(isinstance(name, str) for name in init["slash_commands"]) and init["slash_commands"]
        assert isinstance(init["mcp_servers"], list)


def an_assistant_record_is_a_message_with_one_block_and_no_true_totals(messages: Messages) -> None:
    for record in some(messages, "assistant"):
        message = record["message"]
        assert set(record) >= {"type", "message", "session_id", "uuid"}
        assert isinstance(record.get("error", ""), str)
        assert (message["type"], message["role"]) == ("message", "assistant")
        assert isinstance(message["id"], str) and isinstance(message["model"], str)
        assert len(message["content"]) == 1
        assert all(isinstance(message["usage"][name], int) for name in USAGE)
        assert "parent_tool_use_id" in record or "parentUuid" in record
        if message["model"] != "<synthetic>":
            assert (message["stop_reason"], message["usage"]["output_tokens"]) == (None, 1)
        else:
            assert message["stop_reason"] in ("stop_sequence", "end_turn")


def the_blocks_of_one_answer_come_in_messages_of_one_id(turn: Messages) -> None:
    """For an answer with a text and a call."""
    text, call = some(turn, "assistant")[:2]
    assert [record["message"]["content"][0]["type"] for record in (text, call)] == ["text", "tool_use"]
    assert text["message"]["id"] == call["message"]["id"]
    assert text["uuid"] != call["uuid"]


def answers_have_text_thinking_and_calls(messages: Messages) -> None:
    assert {record["message"]["content"][0]["type"] for record in of(messages, "assistant")} >= {
        "text",
        "thinking",
        "tool_use",
    }


def the_stream_has_why_an_answer_stopped(turn: Messages, *reasons: str) -> None:
    events = [message["event"] for message in of(turn, "stream_event")]
    assert [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"] == [*reasons]


def the_stream_of_a_block_comes_before_its_record_and_its_stop_after(turn: Messages) -> None:
    """For one answer with a thinking block and a text."""
    order = []
    for message in turn:
        if message.get("type") == "stream_event":
            assert set(message) >= {"event", "parent_tool_use_id", "uuid", "session_id"}
            order.append(message["event"]["type"])
        elif message.get("type") == "assistant":
            order.append("assistant")
    short = [kind for number, kind in enumerate(order) if number == 0 or kind != order[number - 1]]
    block = ["content_block_start", "content_block_delta", "assistant", "content_block_stop"]
    assert short == ["message_start", *block, *block, "message_delta", "message_stop"]


def the_stream_of_a_text_is_the_events_of_the_model_api(turn: Messages) -> None:
    """For one answer that consists of one text."""
    events = [message["event"] for message in some(turn, "stream_event")]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert set(events[2]) == {"type", "index", "delta"} and events[2]["delta"]["type"] == "text_delta"
    text = "".join(event["delta"]["text"] for event in events[2:-3])
    assert text == of(turn, "assistant")[-1]["message"]["content"][0]["text"]


def content_blocks_have_the_shapes_of_the_seed(messages: Messages) -> None:
    for block in blocks(messages, "assistant", "text"):
        assert (set(block), type(block["text"])) == ({"type", "text"}, str)
    for block in blocks(messages, "assistant", "tool_use"):
        shape = {"type": str, "id": str, "name": str, "input": dict}
        assert {name: type(value) for name, value in block.items()} == shape
    results = blocks(messages, "user", "tool_result")
    for block in results:
        assert {"type", "tool_use_id", "content"} <= set(block) <= {"type", "tool_use_id", "content", "is_error"}
        assert isinstance(block.get("is_error", False), bool)
    assert {type(block["content"]) for block in results} == {str, list}


# --- results --------------------------------------------------------------------------------------------------


def a_result_has_its_numbers_and_names(messages: Messages) -> None:
    for result in some(messages, "result"):
        assert all(isinstance(result[name], NUMBER) for name in ("duration_ms", "duration_api_ms", "num_turns"))
        assert isinstance(result["total_cost_usd"], NUMBER)
        assert result.get("stop_reason") is None or isinstance(result["stop_reason"], str)
        assert is_uuid(result["uuid"]) and is_uuid(result["session_id"])


def a_result_lists_what_was_denied(turn: Messages) -> None:
    (result,) = of(turn, "result")
    (denial,) = result["permission_denials"]
    assert set(denial) == {"tool_name", "tool_use_id", "tool_input"}
    (call,) = blocks(turn, "assistant", "tool_use")
    assert (denial["tool_name"], denial["tool_use_id"], denial["tool_input"]) == (
        call["name"],
        call["id"],
        call["input"],
    )


def a_result_is_the_last_word_on_each_prompt(messages: Messages) -> None:
    """Each query begins with an init, and all its messages come before its only result."""
    kinds: list[str] = []
    for message in messages:
        if message.get("type") in ("assistant", "user", "stream_event", "result"):
            kinds.append(message["type"])
        elif message.get("subtype") == "init":
            assert not kinds or kinds[-1] == "result"
            kinds.append("init")
    assert kinds[0] == "init" and kinds[-1] == "result"
    assert all(kinds[number + 1] == "init" for number, kind in enumerate(kinds[:-1]) if kind == "result")


def the_result_of_a_success_is_the_final_text(turn: Messages) -> None:
    (result,) = of(turn, "result")
    assert (result["subtype"], result["is_error"]) == ("success", False)
    final = of(turn, "assistant")[-1]["message"]["content"][0]["text"]
    assert result["result"] == final != ""


def an_api_error_is_a_success_with_is_error_and_its_text(turn: Messages) -> None:
    result = of(turn, "result")[0]
    assert (result["subtype"], result["is_error"]) == ("success", True)
    answer = next(record for record in of(turn, "assistant") if record.get("error"))
    assert answer["error"] in API_ERRORS
    assert answer["message"]["model"] == "<synthetic>"
    assert answer["message"]["content"][0]["text"] == result["result"] != ""


def usage_is_of_the_query_and_cost_and_the_usage_of_models_run_on(first: Message, second: Message) -> None:
    """For two results of one process. The scripted API returns the same numbers for each request; the second prompt
    takes two requests."""
    used = {"input_tokens": 11, "output_tokens": 42, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 3}
    assert {name: first["usage"][name] for name in used} == used
    assert {name: second["usage"][name] for name in used} == {name: 2 * used[name] for name in used}
    for result in (first, second):
        for model in result["modelUsage"].values():
            assert set(model) >= MODEL_USAGE and all(isinstance(model[name], NUMBER) for name in MODEL_USAGE)
    (name,) = first["modelUsage"]
    assert (first["modelUsage"][name]["outputTokens"], second["modelUsage"][name]["outputTokens"]) == (42, 3 * 42)
    assert second["total_cost_usd"] > first["total_cost_usd"]


def after_a_resume_totals_begin_again_or_go_on(before: Message, after: Message, version: str) -> None:
    """For the last result of a process that ended cleanly, and the first of the process that resumed its session."""
    carried = since(version, CARRIES_TOTALS_OVER)
    assert (after["total_cost_usd"] > before["total_cost_usd"]) is carried
    (name,) = after["modelUsage"]
    assert (after["modelUsage"][name]["outputTokens"] > 42) is carried
    of_query = after.get("model_usage_since_last_result")
    assert (of_query is not None) is since(version, HAS_USAGE_OF_QUERY)
    if of_query is not None:
        assert {model: used["outputTokens"] for model, used in of_query.items()} == {name: 42}


def an_error_result_has_no_text_and_all_else(messages: Messages, version: str) -> None:
    failed = [result for result in some(messages, "result") if result["subtype"] != "success"]
    assert {result["subtype"] for result in failed} <= ERRORS
    assert "error_max_turns" in {result["subtype"] for result in failed}
    for result in failed:
        an_error_has_its_fields(result)
        assert all(isinstance(error, str) for error in result["errors"])
        if result["subtype"].startswith("error_max"):
            assert result["is_error"] is bool(result["errors"]) is since(version, TELLS_ERRORS)


def an_error_has_its_fields(result: Message) -> None:
    names = {"duration_ms", "duration_api_ms", "num_turns", "total_cost_usd", "usage", "modelUsage"}
    assert set(result) >= names | {"permission_denials", "uuid", "session_id"} and "result" not in result


# --- states ---------------------------------------------------------------------------------------------------


def compaction_is_two_states_and_a_boundary(turn: Messages) -> None:
    """For a /compact that a person requested."""
    messages = [message for message in of(turn, "system") if message["subtype"] != "init"]
    states = [message for message in messages if message["subtype"] == "status"]
    assert all(is_uuid(message["uuid"]) and is_uuid(message["session_id"]) for message in messages)
    assert [state["status"] for state in states if state["status"] != "requesting"] == ["compacting", None]
    (boundary,) = [message for message in messages if message["subtype"] == "compact_boundary"]
    assert boundary["compact_metadata"]["trigger"] == "manual"
    assert isinstance(boundary["compact_metadata"]["pre_tokens"], int)


def a_state_carries_the_mode_when_it_changed_except_in_the_oldest(
    messages: Messages, version: str, *changes: str
) -> None:
    states = of(messages, "system", "status")
    assert all(is_uuid(state["uuid"]) and is_uuid(state["session_id"]) for state in states)
    modes = [state["permissionMode"] for state in states if "permissionMode" in state]
    assert modes[: len(changes)] == ([*changes] if since(version, TELLS_MODES) else [])
    assert set(modes) <= MODES


def the_end_of_a_task_has_its_file_and_summary(messages: Messages) -> None:
    for ended in some(messages, "system", "task_notification"):
        assert all(isinstance(ended[name], str) for name in ("task_id", "output_file", "summary"))
        assert ended["status"] in ("completed", "failed", "stopped")
        assert is_uuid(ended["uuid"]) and is_uuid(ended["session_id"])


# --- permissions and subagents --------------------------------------------------------------------------------


def a_permission_that_is_asked_for_has_its_tool_and_what_else_the_version_says(
    messages: Messages, version: str
) -> None:
    """For several requests, some with and some without suggestions and a blocked path."""
    found = permissions(messages)
    for request in found:
        assert isinstance(request["tool_name"], str) and isinstance(request["tool_use_id"], str)
        assert isinstance(request["input"], dict)
        words = ("blocked_path", "decision_reason", "description", "agent_id")
        assert all(isinstance(request.get(name, ""), str) for name in words)
        assert all("type" in update for update in request.get("permission_suggestions", []))
    for name in ("permission_suggestions", "blocked_path"):
        assert len([request for request in found if name in request]) in range(1, len(found)), name
    assert any("description" in request for request in found) is since(version, DESCRIBES_CALLS)


def what_a_subagent_says_and_asks_names_the_call_that_began_it(turn: Messages) -> None:
    records = [message for message in turn if message.get("type") in ("user", "assistant")]
    begun = next(
        block["id"]
        for record in records
        for block in record["message"]["content"]
        if block["type"] == "tool_use" and record["parent_tool_use_id"] is None
    )
    for kind in ("user", "assistant"):
        assert {record["parent_tool_use_id"] for record in of(records, kind)} == {None, begun}
    (request,) = permissions(turn)
    assert isinstance(request["agent_id"], str)


def the_main_thread_has_no_parent(turn: Messages) -> None:
    records = [*some(turn, "user"), *some(turn, "assistant")]
    assert {record["parent_tool_use_id"] for record in records} == {None}
    assert all("agent_id" not in request for request in permissions(turn))
