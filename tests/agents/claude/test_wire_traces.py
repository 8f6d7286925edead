"""What the recorded traffic of the three versions shows of the wire itself: the shapes that the seed describes."""

from collections.abc import Iterator
from typing import Any

import pytest

from agents.claude.golden_claude import cases, inputs
from fairlead.model.ids import is_uuid

VERSIONS = ("2.1.37", "2.1.120", "2.1.325")
NUMBER = (int, float)
MODES = {"default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "delegate", "auto"}


def messages(version: str, kind: str, subtype: str | None = None) -> list[dict[str, Any]]:
    found = [
        given["agent"]
        for case in cases()
        if case.startswith(f"{version}-")
        for given in inputs(case)
        if given.get("agent", {}).get("type") == kind
    ]
    return found if subtype is None else [message for message in found if message.get("subtype") == subtype]


def of_case(case: str, *types: str) -> list[dict[str, Any]]:
    """What the agent said in one case, in order."""
    found = [given["agent"] for given in inputs(case) if "agent" in given]
    return [message for message in found if message.get("type") in types]


def asked(version: str) -> list[dict[str, Any]]:
    """The permissions that it asked for."""
    requests = [message["request"] for message in messages(version, "control_request")]
    return [request for request in requests if request["subtype"] == "can_use_tool"]


def each(kind: str, subtype: str | None = None) -> Iterator[dict[str, Any]]:
    for version in VERSIONS:
        found = messages(version, kind, subtype)
        assert found, version
        yield from found


@pytest.mark.rules("S004-068", "S004-069", "S004-071", "S004-072", "S004-073")
def test_init_says_where_and_what_it_is() -> None:
    names = (
        "cwd",
        "session_id",
        "model",
        "permissionMode",
        "apiKeySource",
        "claude_code_version",
        "output_style",
        "uuid",
    )
    for version in VERSIONS:
        found = messages(version, "system", "init")
        assert found
        for init in found:
            assert all(isinstance(init[name], str) for name in names)
            assert init["claude_code_version"] == version
            assert init["permissionMode"] in MODES
            assert all(isinstance(tool, str) for tool in init["tools"]) and init["tools"]
            assert all(isinstance(name, str) for name in init["slash_commands"]) and init["slash_commands"]
            assert isinstance(init["mcp_servers"], list)


def test_the_session_id_is_a_uuid() -> None:
    assert all(is_uuid(init["session_id"]) for init in each("system", "init"))


@pytest.mark.rules("S004-049", "S004-078", "S004-079", "S004-081", "S004-082")
def test_an_assistant_record_is_a_message_with_one_block_and_no_true_totals() -> None:
    usage = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    for record in each("assistant"):
        message = record["message"]
        assert set(record) >= {"type", "message", "session_id", "uuid"}
        assert isinstance(record.get("error", ""), str)
        assert (message["type"], message["role"]) == ("message", "assistant")
        assert isinstance(message["id"], str) and isinstance(message["model"], str)
        assert len(message["content"]) == 1
        assert all(isinstance(message["usage"][name], int) for name in usage)
        assert "parent_tool_use_id" in record or "parentUuid" in record
        if message["model"] != "<synthetic>":
            assert (message["stop_reason"], message["usage"]["output_tokens"]) == (None, 1)
        else:
            assert message["stop_reason"] in ("stop_sequence", "end_turn")


@pytest.mark.rules("S004-080", "S004-081")
def test_answers_have_text_thinking_and_calls_and_the_stream_has_why_they_stopped() -> None:
    for version in VERSIONS:
        blocks = {record["message"]["content"][0]["type"] for record in messages(version, "assistant")}
        assert blocks >= {"text", "thinking", "tool_use"}
        deltas = [
            event["event"]["delta"]
            for event in of_case(f"{version}-thinking", "stream_event")
            if event["event"]["type"] == "message_delta"
        ]
        assert [delta["stop_reason"] for delta in deltas] == ["end_turn"]


@pytest.mark.rules("S004-032", "S004-085")
def test_the_stream_of_a_block_comes_before_its_record_and_its_stop_after() -> None:
    for version in VERSIONS:
        order = []
        for given in inputs(f"{version}-thinking"):
            message = given.get("agent", {})
            if message.get("type") == "stream_event":
                assert set(message) >= {"event", "parent_tool_use_id", "uuid", "session_id"}
                order.append(message["event"]["type"])
            elif message.get("type") == "assistant":
                order.append("assistant")
        short = [kind for number, kind in enumerate(order) if number == 0 or kind != order[number - 1]]
        block = ["content_block_start", "content_block_delta", "assistant", "content_block_stop"]
        assert short == ["message_start", *block, *block, "message_delta", "message_stop"]


@pytest.mark.rules("S004-090", "S004-091", "S004-093", "S004-098")
def test_a_result_has_its_numbers_and_names() -> None:
    for result in each("result"):
        assert all(isinstance(result[name], NUMBER) for name in ("duration_ms", "duration_api_ms", "num_turns"))
        assert isinstance(result["total_cost_usd"], NUMBER)
        assert result.get("stop_reason") is None or isinstance(result["stop_reason"], str)
        assert is_uuid(result["uuid"]) and is_uuid(result["session_id"])


@pytest.mark.rules("S004-096")
def test_a_result_lists_what_was_denied() -> None:
    for version in VERSIONS:
        (result,) = [
            given["agent"] for given in inputs(f"{version}-perm_deny") if given.get("agent", {}).get("type") == "result"
        ]
        (denial,) = result["permission_denials"]
        assert set(denial) == {"tool_name", "tool_use_id", "tool_input"}


@pytest.mark.rules("S004-036", "S004-087")
def test_a_result_is_the_last_word_on_a_prompt_in_success_and_in_failure() -> None:
    for version in VERSIONS:
        for case in ("simple", "thinking", "perm_allow_bash", "perm_deny", "max_turns"):
            said = [
                record["type"] for record in of_case(f"{version}-{case}", "assistant", "user", "stream_event", "result")
            ]
            assert (said[-1], said.count("result")) == ("result", 1)


@pytest.mark.rules("S004-087")
def test_an_interrupt_and_an_api_error_end_in_a_result_too() -> None:
    for case in ("2.1.37-api_err400", "2.1.120-api_err529", "2.1.325-api_err400"):
        assert of_case(case, "result")
    for version in VERSIONS:
        stopped, after = of_case(f"{version}-interrupt_tool", "result")
        assert (stopped["subtype"], after["subtype"]) == ("error_during_execution", "success")


@pytest.mark.rules("S004-088", "S004-089")
def test_the_result_of_a_success_is_the_final_text() -> None:
    for version in VERSIONS:
        for case in ("simple", "perm_allow_bash"):
            (result,) = of_case(f"{version}-{case}", "result")
            assert (result["subtype"], result["is_error"]) == ("success", False)
            final = of_case(f"{version}-{case}", "assistant")[-1]["message"]["content"][0]["text"]
            assert result["result"] == final != ""


@pytest.mark.rules("S004-084", "S004-088")
def test_an_api_error_is_a_success_with_is_error_and_its_text() -> None:
    for case in ("2.1.37-api_err400", "2.1.120-api_err529", "2.1.325-api_err400", "2.1.325-api_err529"):
        result = of_case(case, "result")[0]
        assert (result["subtype"], result["is_error"]) == ("success", True)
        said = next(record for record in of_case(case, "assistant") if record.get("error"))
        assert said["message"]["model"] == "<synthetic>"
        assert said["message"]["content"][0]["text"] == result["result"] != ""


@pytest.mark.rules("S004-092", "S004-094", "S004-095")
def test_usage_is_of_the_query_and_cost_and_the_usage_of_models_run_on() -> None:
    """The scripted API gives the same numbers for each request; the second prompt takes two."""
    used = {"input_tokens": 11, "output_tokens": 42, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 3}
    for version in VERSIONS:
        first, second, _ = of_case(f"{version}-resume", "result")
        assert {name: first["usage"][name] for name in used} == used
        assert {name: second["usage"][name] for name in used} == {name: 2 * used[name] for name in used}
        for result in (first, second):
            for model in result["modelUsage"].values():
                names = {"inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"}
                names |= {"webSearchRequests", "costUSD", "contextWindow", "maxOutputTokens"}
                assert set(model) >= names and all(isinstance(model[name], NUMBER) for name in names)
        (name,) = first["modelUsage"]
        assert (first["modelUsage"][name]["outputTokens"], second["modelUsage"][name]["outputTokens"]) == (42, 3 * 42)
        assert second["total_cost_usd"] > first["total_cost_usd"]


ERRORS = ("error_during_execution", "error_max_turns", "error_max_budget_usd")


@pytest.mark.rules("S004-099", "S004-100", "S004-101", "S004-102")
def test_an_error_result_has_no_text_and_all_else() -> None:
    names = {"duration_ms", "duration_api_ms", "num_turns", "total_cost_usd", "usage", "modelUsage"}
    names |= {"permission_denials", "uuid", "session_id"}
    for version in VERSIONS:
        failed = [result for result in messages(version, "result") if result["subtype"] != "success"]
        assert {result["subtype"] for result in failed} <= set(ERRORS)
        assert "error_max_turns" in {result["subtype"] for result in failed}
        for result in failed:
            assert set(result) >= names and "result" not in result
            assert all(isinstance(error, str) for error in result["errors"])
            if result["subtype"].startswith("error_max"):
                assert result["is_error"] is bool(result["errors"]) is (version != "2.1.37")
    hand_made = [message for message in of_case("every-type", "result") if str(message["subtype"]).startswith("error")]
    assert len(hand_made) == 5
    assert all(set(message) >= names and "result" not in message for message in hand_made)


# --- states -------------------------------------------------------------------------------------------------


@pytest.mark.rules("S004-103", "S004-104", "S004-105", "S004-107", "S004-108", "S004-109")
def test_compaction_is_two_states_and_a_boundary() -> None:
    for version in VERSIONS:
        said = [message for message in of_case(f"{version}-compact", "system") if message["subtype"] != "init"]
        states = [message for message in said if message["subtype"] == "status"]
        assert all(is_uuid(message["uuid"]) and is_uuid(message["session_id"]) for message in said)
        assert [state["status"] for state in states if state["status"] != "requesting"] == ["compacting", None]
        (boundary,) = [message for message in said if message["subtype"] == "compact_boundary"]
        assert boundary["compact_metadata"]["trigger"] == "manual"
        assert isinstance(boundary["compact_metadata"]["pre_tokens"], int)


@pytest.mark.rules("S004-103", "S004-106")
def test_a_state_carries_the_mode_when_it_changed_except_in_the_oldest() -> None:
    for version in VERSIONS:
        states = [message for message in of_case(f"{version}-set_permission_mode", "system") if "status" in message]
        modes = [state["permissionMode"] for state in states if "permissionMode" in state]
        assert modes[:2] == ([] if version == "2.1.37" else ["acceptEdits", "plan"])
        assert set(modes) <= MODES
    assert any("permissionMode" not in state for state in messages("2.1.120", "system", "status"))


@pytest.mark.rules("S004-110")
def test_progress_of_a_tool_names_the_tool_and_its_call() -> None:
    (progress,) = messages("2.1.325", "tool_progress")
    assert all(isinstance(progress[name], str) for name in ("tool_use_id", "tool_name", "parent_tool_use_id"))
    assert progress["elapsed_time_seconds"] == 30
    assert is_uuid(progress["uuid"]) and is_uuid(progress["session_id"])
    assert not messages("2.1.37", "tool_progress") and not messages("2.1.120", "tool_progress")


@pytest.mark.rules("S004-113", "S004-114")
def test_the_end_of_a_task_is_told_with_its_file_and_summary() -> None:
    """2.1.37 tells it of background commands, the others of subagents too."""
    for version in VERSIONS:
        found = messages(version, "system", "task_notification")
        assert found
        for told in found:
            assert all(isinstance(told[name], str) for name in ("task_id", "output_file", "summary"))
            assert told["status"] in ("completed", "failed", "stopped")
            assert is_uuid(told["uuid"]) and is_uuid(told["session_id"])
        of_subagents = [told for told in of_case(f"{version}-subagent", "system") if told in found]
        assert bool(of_subagents) is (version != "2.1.37")


# --- permissions and subagents ------------------------------------------------------------------------------


@pytest.mark.rules("S004-151", "S004-152", "S004-153", "S004-154", "S004-156", "S004-157")
def test_a_permission_that_is_asked_for_has_its_tool_and_what_else_the_version_says() -> None:
    words = ("blocked_path", "decision_reason", "description", "agent_id")
    for version in VERSIONS:
        found = asked(version)
        for request in found:
            assert isinstance(request["tool_name"], str) and isinstance(request["tool_use_id"], str)
            assert isinstance(request["input"], dict)
            assert all(isinstance(request.get(name, ""), str) for name in words)
            assert all("type" in update for update in request.get("permission_suggestions", []))
        for name in ("permission_suggestions", "blocked_path"):
            assert len([request for request in found if name in request]) in range(1, len(found)), (version, name)
        assert any("description" in request for request in found) is (version != "2.1.37")
    new = asked("2.1.325")
    assert "This command requires approval" in [request.get("decision_reason") for request in new]
    for name in ("display_name", "decision_reason_type", "requires_user_interaction", "server_policy_ask_only"):
        assert any(name in request for request in new), name


@pytest.mark.rules("S004-062", "S004-083", "S004-155")
def test_what_a_subagent_says_and_asks_names_the_call_that_began_it() -> None:
    for version in VERSIONS:
        said = of_case(f"{version}-subagent", "user", "assistant")
        begun = next(
            block["id"]
            for record in said
            for block in record["message"]["content"]
            if block["type"] == "tool_use" and record["parent_tool_use_id"] is None
        )
        for kind in ("user", "assistant"):
            assert {record["parent_tool_use_id"] for record in said if record["type"] == kind} == {None, begun}
        (request,) = of_case(f"{version}-subagent", "control_request")
        assert isinstance(request["request"]["agent_id"], str)
        (other,) = of_case(f"{version}-perm_allow_bash", "control_request")
        assert "agent_id" not in other["request"]


@pytest.mark.rules("S004-061")
def test_the_main_thread_has_no_parent() -> None:
    for version in VERSIONS:
        parents = {
            given["agent"]["parent_tool_use_id"]
            for given in inputs(f"{version}-perm_allow_bash")
            if given.get("agent", {}).get("type") in ("user", "assistant")
        }
        assert parents == {None}


@pytest.mark.rules("S004-087")
def test_the_newest_version_does_not_begin_its_results_with_their_type() -> None:
    assert any(next(iter(result)) != "type" for result in messages("2.1.325", "result"))


def blocks(kind: str, block: str) -> Iterator[dict[str, Any]]:
    """The content blocks of one type that the versions were recorded to say, of each version at least one."""
    for version in VERSIONS:
        found = [
            part
            for message in messages(version, kind)
            if isinstance(message["message"]["content"], list)
            for part in message["message"]["content"]
            if part["type"] == block
        ]
        assert found, version
        yield from found


@pytest.mark.rules("S004-343", "S004-344", "S004-345")
def test_content_blocks_have_the_shapes_of_the_seed() -> None:
    for block in blocks("assistant", "text"):
        assert (set(block), type(block["text"])) == ({"type", "text"}, str)
    for block in blocks("assistant", "tool_use"):
        assert {name: type(value) for name, value in block.items()} == {
            "type": str,
            "id": str,
            "name": str,
            "input": dict,
        }
    results = list(blocks("user", "tool_result"))
    for block in results:
        assert {"type", "tool_use_id", "content"} <= set(block) <= {"type", "tool_use_id", "content", "is_error"}
        assert isinstance(block.get("is_error", False), bool)
    assert {type(block["content"]) for block in results} == {str, list}
