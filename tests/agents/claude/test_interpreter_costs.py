"""The cost of a turn: differences of running totals, or the numbers that the CLI reports for the turn."""

from typing import Any

import pytest

from fairlead.agents.claude.interpreter.costs import ending, next_process
from fairlead.agents.claude.interpreter.state import CostBaseline
from fairlead.agents.claude.wire.records import ResultRecord


def used(inputs: float, cost: float) -> dict[str, Any]:
    return {
        "inputTokens": inputs,
        "outputTokens": 2 * inputs,
        "cacheReadInputTokens": 1,
        "cacheCreationInputTokens": 0,
        "costUSD": cost,
        "contextWindow": 200_000,
    }


def result(total: float, models: dict[str, Any] | None = None, **fields: Any) -> ResultRecord:
    return ResultRecord(**{"subtype": "success", "total_cost_usd": total, "modelUsage": models, **fields})


@pytest.mark.rules("S004-092")
def test_within_a_process_the_difference_counts() -> None:
    first, base = ending(result(0.5, {"a": used(10, 0.5)}, duration_api_ms=100), CostBaseline(), False)
    both = {"a": used(25, 0.6), "b": used(4, 0.2)}
    second, _ = ending(result(0.8, both, duration_api_ms=250, duration_ms=400), base, False)
    assert (first.cost_usd, first.api_ms) == (0.5, 100)
    assert (second.cost_usd, second.api_ms, second.duration_ms) == (0.3, 150, 400)
    assert (second.usage["a"].input, second.usage["a"].cost_usd, second.usage["b"].input) == (15, 0.1, 4)


def test_a_new_process_counts_from_nothing() -> None:
    _, base = ending(result(0.5, {"a": used(10, 0.5)}, duration_api_ms=100), CostBaseline(), False)
    again, _ = ending(result(0.5, {"a": used(10, 0.5)}, duration_api_ms=90), next_process(base), False)
    assert (again.cost_usd, again.usage["a"].input, again.api_ms) == (0.5, 10, 90)


def test_first_turn_after_a_resume_excludes_totals_carried_over() -> None:
    """Seen on 2.1.280 and 2.1.300: the totals of the session continue, and no result has the turn's own numbers."""
    _, base = ending(result(0.5, {"a": used(10, 0.5)}, duration_api_ms=100), CostBaseline(), False, carries_totals=True)
    both = {"a": used(13, 0.6), "b": used(2, 0.1)}
    carried = result(0.7, both, duration_api_ms=140)
    first, after = ending(carried, next_process(base), False, carries_totals=True)
    assert (first.cost_usd, first.usage["a"].input, first.usage["b"].input, first.api_ms) == (0.2, 3, 2, 40)
    second, _ = ending(result(0.8, {**both, "b": used(5, 0.2)}, duration_api_ms=150), after, False, carries_totals=True)
    assert (second.cost_usd, second.usage["b"].input, second.api_ms) == (0.1, 3, 10)
    # Two processes later; the process between them reported no costs.
    third, _ = ending(carried, next_process(next_process(base)), False, carries_totals=True)
    assert third.cost_usd == 0.2


def test_a_lower_total_after_a_killed_process_counts_in_full() -> None:
    _, base = ending(result(0.5, {"a": used(10, 0.5)}), CostBaseline(), False, carries_totals=True)
    smaller = result(0.7, {"a": used(9, 0.7)})
    first, _ = ending(smaller, next_process(base), False, carries_totals=True)
    assert (first.cost_usd, first.usage["a"].input) == (0.7, 9)


def test_per_turn_usage_reported_by_the_cli_is_used() -> None:
    since = {"a": used(3, 0.125)}
    ended, base = ending(result(9.0, {"a": used(900, 9.0)}, model_usage_since_last_result=since), CostBaseline(), False)
    assert (ended.cost_usd, ended.usage["a"].input) == (0.125, 3)
    assert base.cost == 9.0


def test_api_time_of_stored_totals_is_not_counted_again() -> None:
    _, base = ending(
        result(1.0, {}, duration_api_ms=600, model_usage_since_last_result={"a": used(1, 1.0)}), CostBaseline(), False
    )
    going_on = result(1.25, {}, duration_api_ms=700, model_usage_since_last_result={"a": used(1, 0.25)})
    assert ending(going_on, next_process(base), False)[0].api_ms == 100
    restarted = result(0.25, {}, duration_api_ms=80, model_usage_since_last_result={"a": used(1, 0.25)})
    assert ending(restarted, next_process(base), False)[0].api_ms == 80


def test_a_zero_from_a_local_command_does_not_reset_the_count() -> None:
    _, base = ending(result(0.5, {}, duration_api_ms=130), CostBaseline(), False)
    local, base = ending(result(0.5, {}, duration_api_ms=0), base, False)
    after, _ = ending(result(0.7, {}, duration_api_ms=330), base, False)
    assert (local.cost_usd, local.api_ms, after.cost_usd, after.api_ms) == (0, 0, 0.2, 200)


def test_a_total_below_the_last_one_restarts_the_count() -> None:
    _, base = ending(result(0.5), CostBaseline(), False)
    lower, base = ending(result(0.2), base, False)
    assert (lower.cost_usd, ending(result(0.3), base, False)[0].cost_usd) == (0.2, 0.1)


def test_malformed_numbers_are_left_out() -> None:
    models = {"a": {"inputTokens": "many", "outputTokens": True, "costUSD": None}, "b": 7, "c": used(1, 0.0)}
    assert set(ending(result(0, models), CostBaseline(), False)[0].usage) == {"c"}


@pytest.mark.parametrize(
    ("fields", "cancelled", "error", "expected"),
    [
        ({}, False, "", ("completed", "")),
        ({"is_error": True}, False, "", ("failed", "error")),
        ({"is_error": True}, False, "rate_limit", ("failed", "rate_limit")),
        ({"subtype": "error_max_turns", "is_error": False}, False, "", ("failed", "error_max_turns")),
        ({"subtype": "error_during_execution", "is_error": True}, True, "", ("cancelled", "interrupted")),
        ({}, True, "", ("cancelled", "interrupted")),
    ],
)
def test_status_and_reason_of_a_turn_end(
    fields: dict[str, Any], cancelled: bool, error: str, expected: tuple[str, str]
) -> None:
    ended, _ = ending(result(0, **fields), CostBaseline(), cancelled, error)
    assert (ended.status, ended.reason) == expected


def test_diagnostics_for_cli_developers_are_not_shown() -> None:
    errors = ["[ede_diagnostic] result_type=user", "Reached the limit", 7]
    assert ending(result(0, subtype="error_x", errors=errors), CostBaseline(), False)[0].errors == (
        "Reached the limit",
    )


def test_the_text_of_a_failure_is_its_error() -> None:
    assert ending(result(0, is_error=True, result="API Error: 529"), CostBaseline(), False)[0].errors == (
        "API Error: 529",
    )
