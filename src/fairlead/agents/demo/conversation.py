"""Reads a conversation: which script the messages that a model is sent ask for.

Rule: pure. Both stand-ins use it, so that a prompt means the same to the model API and to the demo agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.agents.demo.scripts import MARKER, Call, ToolResult, parse


def read_conversation(
    messages: Sequence[dict[str, Any]], tools: frozenset[str] = frozenset(), attempt: int = 0
) -> Call:
    """The call that a list of Messages API messages asks for.

    The last prompt decides. Texts that an agent adds by itself (reminders, the tails of an interrupt) are
    not prompts; a background task's notification is one, and is answered by a sentence about the task.
    """
    name: str | None = None
    argument = ""
    results: list[ToolResult] = []
    for message in messages:
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        told = any(b.get("type") == "tool_result" for b in blocks)
        for block in blocks:
            if block.get("type") == "tool_result":
                results.append(ToolResult(_flat(block.get("content")), bool(block.get("is_error"))))
            elif block.get("type") == "text":
                text = str(block.get("text", ""))
                if _is_prompt(text, beside_results=told):
                    name, argument = _chosen(text)
                    results = []
    return Call(name, argument, tuple(results), tools, len(messages), attempt)


_NOTIFICATION = "<task-notification>"


def _is_prompt(text: str, *, beside_results: bool) -> bool:
    if text.startswith("<system-reminder>"):
        # An agent may wrap its reminder and the prompt into one block: what follows the wrapper counts.
        return MARKER in text.rpartition("</system-reminder>")[2]
    if MARKER in text or text.startswith(_NOTIFICATION):
        return True
    return bool(text.strip()) and not beside_results and not text.startswith(("<", "["))


def _chosen(text: str) -> tuple[str | None, str]:
    if text.startswith(_NOTIFICATION):
        return "text", f"A background task ended: {_between(text, '<summary>', '</summary>')}"
    return parse(text) or (None, "")


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(b.get("text", "")) for b in content if isinstance(b, dict))
    return ""
