"""The tokens of a turn, from the answer to its prompt. Pure."""

from typing import Any

from fairlead.agents.acp.wire import as_dict, as_dicts, as_text
from fairlead.model.events import ModelUsage


def of_answer(result: Any, model: str, window: int) -> dict[str, ModelUsage]:
    """Tokens by model: the unstable `usage` of ACP (opencode), or Gemini CLI's `_meta.quota`."""
    answer = as_dict(result)
    quota = as_dict(as_dict(answer.get("_meta")).get("quota"))
    listed = as_dicts(quota.get("model_usage"))
    if listed:
        return {
            as_text(item.get("model")) or model: _tokens(as_dict(item.get("token_count")), window) for item in listed
        }
    used = as_dict(answer.get("usage"))
    return {model: _tokens(used, window)} if used else {}


def _tokens(given: dict[str, Any], window: int) -> ModelUsage:
    return ModelUsage(
        input=number(given.get("inputTokens") or given.get("input_tokens")),
        output=number(given.get("outputTokens") or given.get("output_tokens")),
        cache_read=number(given.get("cachedReadTokens")),
        cache_write=number(given.get("cachedWriteTokens")),
        window=window,
    )


def number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
