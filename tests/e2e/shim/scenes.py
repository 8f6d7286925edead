"""The conversation of a program with Claude Code, once directly and once through the shim, and what may differ."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2e.shim.caller import Caller, Line

SCRIPTS = (
    "text hello",
    "think",
    "long 40",
    "tool",
    "bash echo one two",
    "write made.txt",
    "read made.txt",
    "edit made.txt",
    "parallel",
    "twice",
    "todo",
    "glob",
    "question",
    "plan",
    "error 400",
    "error_once",
    "burst 50",
    "structured",
    "subagent tool",
)
"""Every script of the model that ends by itself and in the same order in each run."""

_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?:msg|toolu|req|call)_(?=[0-9A-Za-z]*[0-9])[0-9A-Za-z]{6,}|\ba[0-9a-f]{6,16}\b|\b[0-9a-f]{17}\b"
)
_NUMBERS = re.compile(r"(duration_ms: |total_tokens: |/plans/)[a-z0-9-]+")
_TIMES = re.compile(r"(?i)(_ms|ms|timestamp|time|elapsed|ttft|_at|tokens|duration|cost|usd)$")
_PARTS = frozenset({"usage", "modelUsage", "rate_limit_info", "pid", "run_id", "messaging_socket_path"})
"""What differs from run to run: times and counts, and costs, which follow from them."""


class Normalizer:
    """Replaces every id by the order of its first appearance, and leaves out times."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def value(self, value: Any) -> Any:
        match value:
            case dict():
                kept = {key: item for key, item in value.items() if key not in _PARTS and not _TIMES.search(key)}
                return {self._text(key): self.value(item) for key, item in kept.items()}
            case list():
                return [self.value(item) for item in value]
            case str():
                return self._text(value)
            case _:
                return value

    def _text(self, text: str) -> str:
        named = _ID.sub(lambda found: self._ids.setdefault(found[0], f"id{len(self._ids)}"), text)
        return _NUMBERS.sub(r"\1N", named)


def normalized(lines: Sequence[Line]) -> list[Any]:
    """The lines in three parts, because the CLI does not order them among each other: the stream of the model, the
    control messages, and the rest, where a subagent works beside the main thread."""
    normalizer = Normalizer()
    parts: dict[str, list[Any]] = {"rest": [], "stream": [], "control": []}
    delegated = False
    for line in lines:
        if line["type"] == "stream_event":
            # The answer after a subagent quotes its id and its duration, cut anywhere.
            parts["stream"].append(_without_text(line) if delegated else line)
        else:
            delegated = delegated or '"name": "Task"' in json.dumps(line) or '"name": "Agent"' in json.dumps(line)
            parts["control" if line["type"].startswith("control_") else "rest"].append(line)
    parts["rest"].sort(key=lambda line: line.get("parent_tool_use_id") is not None)
    return [normalizer.value(part) for part in parts.values()]


def _without_text(line: Line) -> Line:
    event = line["event"]
    return {**line, "event": {**event, "delta": {"type": event["delta"].get("type")}}} if "delta" in event else line


async def converse(caller: Caller, cwd: Path) -> list[Line]:
    """Play every script. Each tool is allowed, each question answered; the lines that the program got are returned."""
    await caller.request("r1", "initialize", hooks={"PreToolUse": [{"matcher": None, "hookCallbackIds": ["mine"]}]})
    await caller.until("control_response")
    for script in SCRIPTS:
        await caller.prompt(f"SCRIPT:{script}".replace("made.txt", str(cwd / "made.txt")))
        await _answer_until_the_result(caller)
    await caller.request("r2", "set_permission_mode", mode="acceptEdits")
    await caller.until("control_response")
    await caller.prompt("SCRIPT:slow 400")
    await caller.until(lambda line: line["type"] == "stream_event" and "tick" in str(line))
    await caller.request("r3", "interrupt")
    await _answer_until_the_result(caller)
    return caller.lines


async def _answer_until_the_result(caller: Caller) -> None:
    while True:
        line = await caller.until(lambda line: line["type"] in ("result", "control_request"))
        if line["type"] == "result":
            return
        if line["request"]["subtype"] == "hook_callback":
            await caller.respond(line, {})
        elif line["request"].get("tool_name") == "AskUserQuestion":
            question = line["request"]["input"]["questions"][0]
            answers = {question["question"]: question["options"][0]["label"]}
            given = {**line["request"]["input"], "answers": answers}
            await caller.respond(line, {"behavior": "allow", "updatedInput": given})
        else:
            await caller.allow(line)
