"""The demo agent's accounts: tokens and cost per model, per turn and since the last result.

Pure. The numbers have no meaning (the model is scripted), but they add up, and a gateway can check that.
"""

from typing import Any, Self

# What one scripted model call costs, in tokens.
CALL = {"input_tokens": 11, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 3}
OUTPUT_TOKENS = 42
STARTED = {**CALL, "output_tokens": 1}
"""The usage that a message starts with, and that its assistant records carry on the wire."""
FINISHED = {**CALL, "output_tokens": OUTPUT_TOKENS}
TOKENS_PER_CALL = sum(FINISHED.values())

# Dollars per token; the value has no meaning, but the sums add up.
_COST = (
    CALL["input_tokens"] * 4e-6
    + OUTPUT_TOKENS * 20e-6
    + CALL["cache_creation_input_tokens"] * 5e-6
    + CALL["cache_read_input_tokens"] * 0.4e-6
)


def full_usage(calls: int) -> dict[str, Any]:
    """The usage of this number of model calls, as results and transcripts contain it."""
    return {name: tokens * calls for name, tokens in FINISHED.items()} | {"service_tier": "standard"}


def model_usage(calls: dict[str, int]) -> dict[str, Any]:
    """The `modelUsage` object of a result."""
    return {
        model: {
            "inputTokens": FINISHED["input_tokens"] * n,
            "outputTokens": OUTPUT_TOKENS * n,
            "cacheReadInputTokens": CALL["cache_read_input_tokens"] * n,
            "cacheCreationInputTokens": CALL["cache_creation_input_tokens"] * n,
            "webSearchRequests": 0,
            "costUSD": cost(n),
            "contextWindow": 1000000,
        }
        for model, n in calls.items()
        if n
    }


def cost(calls: int) -> float:
    return calls * _COST


class TokenUsage:
    """Counts model calls; a resumed session starts from the counts in its transcript."""

    def __init__(self, before: dict[str, int] | None = None) -> None:
        self.calls: dict[str, int] = dict(before or {})
        self._reported: dict[str, int] = dict(self.calls)

    def count(self, model: str) -> None:
        self.calls[model] = self.calls.get(model, 0) + 1

    @property
    def total_cost(self) -> float:
        return cost(sum(self.calls.values()))

    def since_last_result(self) -> dict[str, int]:
        """Calls since the last call of this method, including those of subagents."""
        new = {model: n - self._reported.get(model, 0) for model, n in self.calls.items()}
        self._reported = dict(self.calls)
        return new

    def as_cost_state(self) -> dict[str, Any]:
        """The content of the transcript's `cost-state` line, for a resume."""
        return {"totalCostUSD": self.total_cost, "modelUsage": model_usage(self.calls)}

    @classmethod
    def from_cost_state(cls, line: dict[str, Any]) -> Self:
        usage = line.get("modelUsage") or {}
        return cls({m: int(u.get("outputTokens", 0)) // OUTPUT_TOKENS for m, u in usage.items()})
