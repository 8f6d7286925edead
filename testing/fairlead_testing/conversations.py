"""The script that a conversation with a model selects, as the model's API receives it. Pure.

A prompt has the same meaning for the scripted model, for the stand-in of the CLI and for the demo agent.
"""

from collections.abc import Sequence
from typing import Any

from fairlead.agents.claude.interpreter.user_text import tag
from fairlead.agents.scripts import MARKER, Call, ToolResult, parse

_NOTIFICATION = "<task-notification>"
STEERED = "The user sent a new message while you were working:"
_CUT_OFF = "Your response above was cut off"


def read_conversation(
    messages: Sequence[dict[str, Any]], tools: frozenset[str] = frozenset(), attempt: int = 0
) -> Call:
    """The call that a list of Messages API messages selects.

    The last prompt decides. Texts that an agent adds (reminders, the messages after an interrupt) are not prompts. A
    message sent into a running turn is a prompt; so is a background task's notification, which is answered with a
    sentence about the task. An agent's request to continue after a cut stream counts as a retry.
    """
    name: str | None = None
    argument = ""
    results: list[ToolResult] = []
    for message in messages:
        if message.get("role") not in ("user", "system"):
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        has_results = any(b.get("type") == "tool_result" for b in blocks)
        for block in blocks:
            if block.get("type") == "tool_result":
                output, _, added = _flat(block.get("content")).partition("<system-reminder>")
                results.append(ToolResult(output.rstrip(), bool(block.get("is_error"))))
                if STEERED in added and MARKER in added:  # older CLIs put a sent message here
                    name, argument = _chosen(added)
                    results = []
            elif block.get("type") == "text":
                text = str(block.get("text", ""))
                if text.startswith(_CUT_OFF):
                    attempt += 1
                elif _is_prompt(text, with_results=has_results or message["role"] == "system"):
                    name, argument = _chosen(text)
                    results = []
    return Call(name, argument, tuple(results), tools, len(messages), attempt)


def _is_prompt(text: str, *, with_results: bool) -> bool:
    if STEERED in text or _NOTIFICATION in text:
        return MARKER in text or _NOTIFICATION in text
    if text.startswith("<system-reminder>"):
        # An agent may put its reminder and the prompt into one block: the text after the reminder counts.
        return MARKER in text.rpartition("</system-reminder>")[2]
    if MARKER in text:
        return True
    return bool(text.strip()) and not with_results and not text.lstrip().startswith(("<", "["))


def _chosen(text: str) -> tuple[str | None, str]:
    if _NOTIFICATION in text:
        return "text", f"A background task ended: {tag(text, 'summary')}"
    return parse(text) or (None, "")


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(b.get("text", "")) for b in content if isinstance(b, dict))
    return ""
