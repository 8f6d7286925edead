"""The cost of a turn. The CLI's totals accumulate within a process; a turn's cost is a difference. Pure functions.

`model_usage_since_last_result` is used where it is present, else the difference to the previous result. The first
result of a process counts from 0, or from the totals of the previous process where the version carries them over.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter.state import CostBaseline
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnEnding
from fairlead.agents.claude.wire.records import ResultRecord
from fairlead.model.events import Block, ModelUsage, TokenCount, ToolCalled, TurnStatus

_FIELDS: Final = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "costUSD")

_DIGITS: Final = 10
"""Differences of floats are rounded to this many digits of a dollar: smaller amounts are rounding errors."""

_NOISE: Final = "[ede_diagnostic]"
"""Prefix of diagnostics for the CLI's developers in `errors`; they are not for users."""


def ending(
    result: ResultRecord, base: CostBaseline, cancelled: bool, error: str = "", *, carries_totals: bool = False
) -> tuple[TurnEnding, CostBaseline]:
    """Return the ending of the turn that `result` ends, and the totals from which to count the next turn.

    `error` is the kind of error of the agent's last answer; `carries_totals` is an ability of its version."""
    totals = _numbers(result.modelUsage)
    since = None if result.model_usage_since_last_result is None else _numbers(result.model_usage_since_last_result)
    total = result.total_cost_usd or 0.0
    if carries_totals and since is None and not base.models and _covers(total, totals, base):
        carried = {"cost": base.cost or base.cost_before, "api_ms": base.api_ms or base.api_before}
        base = msgspec.structs.replace(base, models=base.models_before, **carried)
    if since is not None:
        models = since
        cost = sum((model.get("costUSD", 0.0) for model in since.values()), 0.0)
    else:
        models = {name: _minus(numbers, base.models.get(name, {})) for name, numbers in totals.items()}
        cost = _less(total, base.cost)
    api_ms = result.duration_api_ms or 0.0
    # A process that continues the stored totals of the previous one reports more than it spent itself.
    goes_on = since is not None and round(total - base.cost - cost, _DIGITS) > 0
    api_base = base.api_before if goes_on and base.api_ms == 0.0 else base.api_ms
    status, reason = _status(result, cancelled, error)
    errors = tuple(error for error in result.errors or () if isinstance(error, str) and not error.startswith(_NOISE))
    if status == "failed" and not errors and result.result:
        errors = (result.result,)
    used = {name: numbers for name, numbers in models.items() if any(numbers.values())}
    ended = TurnEnding(
        status=status,
        reason=reason,
        text=result.result or "",
        cost_usd=round(cost, _DIGITS),
        duration_ms=int(result.duration_ms or 0),
        api_ms=int(_less(api_ms, api_base)),
        model_turns=int(result.num_turns or 0),
        usage={name: _usage(numbers, _window(result, name)) for name, numbers in used.items()},
        errors=errors,
        output=result.structured_output,
    )
    return ended, msgspec.structs.replace(base, cost=total, api_ms=max(api_ms, base.api_ms), models=totals)


def _covers(total: float, totals: dict[str, dict[str, float]], base: CostBaseline) -> bool:
    """Whether these totals include those of the previous process. A killed process stored none, so the next process
    starts from 0: this detects it unless its first turn used more of everything than all earlier turns."""
    return total >= base.cost_before and all(
        totals.get(name, {}).get(key, 0.0) >= value
        for name, numbers in base.models_before.items()
        for key, value in numbers.items()
    )


def attach_tokens(step: Step, first: int, usage: Any) -> None:
    """Attach the model's token count to the last of the record's own blocks among the step's events from `first` on.

    A call may have released deferred records of its subagent: their blocks are not the record's own. A `Task` call is
    skipped if there is another block: some clients show only its subagent, not the call."""
    tokens = _tokens(usage)
    if tokens is None:
        return
    own = [
        (place, event)
        for place, event in enumerate(step.events[first:], first)
        if isinstance(event, Block) and event.id.startswith(f"{step.source}/")
    ]
    visible = [found for found in own if not (isinstance(found[1], ToolCalled) and found[1].name == "Task")]
    for place, event in (visible or own)[-1:]:
        step.events[place] = msgspec.structs.replace(event, tokens=tokens)


def _tokens(usage: Any) -> TokenCount | None:
    """The token counts; None if the input or output count, which every usage has, is not a valid count."""
    if not isinstance(usage, dict):
        return None
    taken, given = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    if taken is None or given is None:
        return None
    tier = usage.get("service_tier")
    return TokenCount(
        input=taken,
        output=given,
        cache_read=_count(usage.get("cache_read_input_tokens")) or 0,
        cache_write=_count(usage.get("cache_creation_input_tokens")) or 0,
        tier=tier if isinstance(tier, str) else "",
    )


def _count(value: Any) -> int | None:
    """The value if it is a count below 2**53, else None: JavaScript clients cannot represent larger ones exactly."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def next_process(base: CostBaseline) -> CostBaseline:
    return CostBaseline(
        cost_before=base.cost or base.cost_before,
        api_before=max(base.api_ms, base.api_before),
        models_before=base.models or base.models_before,
    )


def _status(result: ResultRecord, cancelled: bool, error: str) -> tuple[TurnStatus, str]:
    if cancelled:
        return "cancelled", "interrupted"
    if result.subtype.startswith("error"):
        return "failed", result.subtype
    # API errors come as `success` with `is_error`: the subtype alone is not enough.
    return ("failed", error or "error") if result.is_error else ("completed", "")


def _numbers(models: dict[str, Any] | None) -> dict[str, dict[str, float]]:
    return {
        name: {key: numbers[key] for key in _FIELDS if _is_number(numbers.get(key))}
        for name, numbers in (models or {}).items()
        if isinstance(numbers, dict)
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _less(value: float, base: float) -> float:
    """The difference; a total below the last one has restarted from 0 (or is the 0 of a local command)."""
    return value - base if value >= base else value


def _minus(numbers: dict[str, float], base: dict[str, float]) -> dict[str, float]:
    return {key: _less(value, base.get(key, 0.0)) for key, value in numbers.items()}


def _window(result: ResultRecord, model: str) -> int:
    for models in (result.modelUsage, result.model_usage_since_last_result):
        facts = (models or {}).get(model)
        window = _count(facts.get("contextWindow")) if isinstance(facts, dict) else None
        if window:
            return window
    return 0


def _usage(numbers: dict[str, float], window: int) -> ModelUsage:
    return ModelUsage(
        input=int(numbers.get("inputTokens", 0)),
        output=int(numbers.get("outputTokens", 0)),
        cache_read=int(numbers.get("cacheReadInputTokens", 0)),
        cache_write=int(numbers.get("cacheCreationInputTokens", 0)),
        cost_usd=round(numbers.get("costUSD", 0.0), _DIGITS),
        window=window,
    )
