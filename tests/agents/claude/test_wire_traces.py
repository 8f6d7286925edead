"""The recorded traffic of the three versions has the message shapes that the seed describes."""

from collections.abc import Iterator

import pytest

from agents.claude import wire_rules as shown
from agents.claude.golden_claude import cases, inputs
from agents.claude.wire_rules import Message, of, permissions
from fairlead.model.ids import is_uuid

VERSIONS = ("2.1.37", "2.1.120", "2.1.325")


def of_case(case: str) -> list[Message]:
    """Return the agent's messages of one case, in order."""
    return [given["agent"] for given in inputs(case) if "agent" in given]


def recorded(version: str) -> list[Message]:
    """Return the agent's messages of all cases of a version."""
    return [message for case in cases() if case.startswith(f"{version}-") for message in of_case(case)]


def each() -> Iterator[tuple[str, list[Message]]]:
    for version in VERSIONS:
        yield version, recorded(version)


def each_of(*names: str) -> Iterator[list[Message]]:
    """Yield the agent's messages of each of these cases, for each version."""
    for version in VERSIONS:
        for name in names:
            yield of_case(f"{version}-{name}")


@pytest.mark.rules("S004-068", "S004-069", "S004-071", "S004-072", "S004-073")
def test_init_contains_location_and_identity() -> None:
    for version, messages in each():
        shown.init_says_where_and_what_it_is(messages, version)


@pytest.mark.rules("S004-049", "S004-078", "S004-079", "S004-081", "S004-082")
def test_an_assistant_record_is_a_message_with_one_block_and_no_true_totals() -> None:
    for _, messages in each():
        shown.an_assistant_record_is_a_message_with_one_block_and_no_true_totals(messages)
    for messages in each_of("subagent"):
        shown.the_blocks_of_one_answer_come_in_messages_of_one_id(messages)


@pytest.mark.rules("S004-080", "S004-081")
def test_answers_have_text_thinking_and_calls_and_the_stream_has_stop_reasons() -> None:
    for _, messages in each():
        shown.answers_have_text_thinking_and_calls(messages)
    for messages in each_of("thinking"):
        shown.the_stream_has_why_an_answer_stopped(messages, "end_turn")


@pytest.mark.rules("S004-032", "S004-085")
def test_the_stream_of_a_block_comes_before_its_record_and_its_stop_after() -> None:
    for messages in each_of("thinking"):
        shown.the_stream_of_a_block_comes_before_its_record_and_its_stop_after(messages)


@pytest.mark.rules("S004-090", "S004-091", "S004-093", "S004-098")
def test_a_result_has_its_numbers_and_ids() -> None:
    for _, messages in each():
        shown.a_result_has_its_numbers_and_names(messages)


@pytest.mark.rules("S004-096")
def test_a_result_lists_denied_calls() -> None:
    for messages in each_of("perm_deny"):
        shown.a_result_lists_what_was_denied(messages)


@pytest.mark.rules("S004-036", "S004-087")
def test_a_result_is_the_last_message_for_a_prompt_in_success_and_failure() -> None:
    for messages in each_of("simple", "thinking", "perm_allow_bash", "perm_deny", "max_turns"):
        shown.a_result_is_the_last_word_on_each_prompt(messages)


@pytest.mark.rules("S004-087")
def test_an_interrupt_and_an_api_error_end_in_a_result_too() -> None:
    for case in ("2.1.37-api_err400", "2.1.120-api_err529", "2.1.325-api_err400"):
        assert of(of_case(case), "result")
    for messages in each_of("interrupt_tool"):
        stopped, after = of(messages, "result")
        assert (stopped["subtype"], after["subtype"]) == ("error_during_execution", "success")


@pytest.mark.rules("S004-088", "S004-089")
def test_the_result_of_a_success_is_the_final_text() -> None:
    for messages in each_of("simple", "perm_allow_bash"):
        shown.the_result_of_a_success_is_the_final_text(messages)


@pytest.mark.rules("S004-084", "S004-088")
def test_an_api_error_is_a_success_with_is_error_and_its_text() -> None:
    for case in ("2.1.37-api_err400", "2.1.120-api_err529", "2.1.325-api_err400", "2.1.325-api_err529"):
        shown.an_api_error_is_a_success_with_is_error_and_its_text(of_case(case))


@pytest.mark.rules("S004-092", "S004-094", "S004-095")
def test_usage_is_per_query_but_cost_and_model_usage_are_running_totals() -> None:
    for version in VERSIONS:
        first, second, resumed = of(of_case(f"{version}-resume"), "result")
        shown.usage_is_of_the_query_and_cost_and_the_usage_of_models_run_on(first, second)
        shown.after_a_resume_totals_begin_again_or_go_on(second, resumed, version)


@pytest.mark.rules("S004-099", "S004-100", "S004-101", "S004-102")
def test_an_error_result_has_no_text_but_all_other_fields() -> None:
    for version, messages in each():
        shown.an_error_result_has_no_text_and_all_else(messages, version)
    hand_made = [result for result in of(of_case("every-type"), "result") if str(result["subtype"]).startswith("error")]
    assert len(hand_made) == 5
    for result in hand_made:
        shown.an_error_has_its_fields(result)


# --- states -------------------------------------------------------------------------------------------------


@pytest.mark.rules("S004-103", "S004-104", "S004-105", "S004-107", "S004-108", "S004-109")
def test_compaction_is_two_states_and_a_boundary() -> None:
    for messages in each_of("compact"):
        shown.compaction_is_two_states_and_a_boundary(messages)


@pytest.mark.rules("S004-103", "S004-106")
def test_a_status_carries_a_changed_mode_except_in_the_oldest_version() -> None:
    for version in VERSIONS:
        messages = of_case(f"{version}-set_permission_mode")
        shown.a_state_carries_the_mode_when_it_changed_except_in_the_oldest(messages, version, "acceptEdits", "plan")
    assert any("permissionMode" not in state for state in of(recorded("2.1.120"), "system", "status"))


@pytest.mark.rules("S004-110")
def test_progress_of_a_tool_names_the_tool_and_its_call() -> None:
    (progress,) = of(recorded("2.1.325"), "tool_progress")
    assert all(isinstance(progress[name], str) for name in ("tool_use_id", "tool_name", "parent_tool_use_id"))
    assert progress["elapsed_time_seconds"] == 30
    assert is_uuid(progress["uuid"]) and is_uuid(progress["session_id"])
    assert not of(recorded("2.1.37"), "tool_progress") and not of(recorded("2.1.120"), "tool_progress")


@pytest.mark.rules("S004-113", "S004-114")
def test_a_task_notification_has_its_file_and_summary() -> None:
    """2.1.37 sends it for background commands only, the other versions for subagents too."""
    for version, messages in each():
        shown.the_end_of_a_task_has_its_file_and_summary(messages)
        of_subagents = of(of_case(f"{version}-subagent"), "system", "task_notification")
        assert bool(of_subagents) is (version != "2.1.37")


# --- permissions and subagents ------------------------------------------------------------------------------


@pytest.mark.rules("S004-151", "S004-152", "S004-153", "S004-154", "S004-156", "S004-157")
def test_a_permission_request_has_its_tool_and_the_extra_fields_of_its_version() -> None:
    for version, messages in each():
        shown.a_permission_that_is_asked_for_has_its_tool_and_what_else_the_version_says(messages, version)
    new = permissions(recorded("2.1.325"))
    assert "This command requires approval" in [request.get("decision_reason") for request in new]
    for name in ("display_name", "decision_reason_type", "requires_user_interaction", "server_policy_ask_only"):
        assert any(name in request for request in new), name


@pytest.mark.rules("S004-062", "S004-083", "S004-155")
def test_messages_and_requests_of_a_subagent_name_its_call() -> None:
    for messages in each_of("subagent"):
        shown.what_a_subagent_says_and_asks_names_the_call_that_began_it(messages)


@pytest.mark.rules("S004-061", "S004-155")
def test_the_main_thread_has_no_parent() -> None:
    for messages in each_of("perm_allow_bash"):
        shown.the_main_thread_has_no_parent(messages)


@pytest.mark.rules("S004-087")
def test_the_newest_version_does_not_start_results_with_the_type_field() -> None:
    assert any(next(iter(result)) != "type" for result in of(recorded("2.1.325"), "result"))


@pytest.mark.rules("S004-343", "S004-344", "S004-345")
def test_content_blocks_have_the_shapes_of_the_seed() -> None:
    for _, messages in each():
        shown.content_blocks_have_the_shapes_of_the_seed(messages)
