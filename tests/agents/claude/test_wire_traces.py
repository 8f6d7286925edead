"""What the recorded traffic of the three versions shows of the wire itself: the shapes that the seed describes."""

from collections.abc import Iterator
from typing import Any

import pytest

from agents.claude.golden_claude import cases, inputs
from fairlead.model.ids import is_uuid

VERSIONS = ("2.1.37", "2.1.120", "2.1.325")
NUMBER = (int, float)


def messages(version: str, kind: str, subtype: str | None = None) -> list[dict[str, Any]]:
    found = [
        given["agent"]
        for case in cases()
        if case.startswith(f"{version}-")
        for given in inputs(case)
        if given.get("agent", {}).get("type") == kind
    ]
    return found if subtype is None else [message for message in found if message.get("subtype") == subtype]


def each(kind: str, subtype: str | None = None) -> Iterator[dict[str, Any]]:
    for version in VERSIONS:
        found = messages(version, kind, subtype)
        assert found, version
        yield from found


@pytest.mark.rules("S004-068", "S004-069", "S004-072")
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
        for init in messages(version, "system", "init"):
            assert all(isinstance(init[name], str) for name in names)
            assert init["claude_code_version"] == version
            assert all(isinstance(tool, str) for tool in init["tools"]) and init["tools"]
            assert isinstance(init["slash_commands"], list)
            assert isinstance(init["mcp_servers"], list)


def test_the_session_id_is_a_uuid() -> None:
    assert all(is_uuid(init["session_id"]) for init in each("system", "init"))


@pytest.mark.rules("S004-078", "S004-081", "S004-082")
def test_an_assistant_record_is_a_message_with_one_block_and_no_true_totals() -> None:
    usage = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    for record in each("assistant"):
        message = record["message"]
        assert (message["type"], message["role"]) == ("message", "assistant")
        assert isinstance(message["id"], str) and isinstance(message["model"], str)
        assert len(message["content"]) == 1
        assert all(isinstance(message["usage"][name], int) for name in usage)
        assert "parent_tool_use_id" in record or "parentUuid" in record
        if message["model"] != "<synthetic>":
            assert (message["stop_reason"], message["usage"]["output_tokens"]) == (None, 1)
        else:
            assert message["stop_reason"] in ("stop_sequence", "end_turn")


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
