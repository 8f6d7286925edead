"""What the scripted model of ACP agents answers: the scripts, and the tools of each agent. Pure.

A prompt `SCRIPT:<name> [argument]` selects the answer. A script that calls a tool names the tool and its inputs as the
agent does that sent the request; the tools in the request say which agent that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairlead.agents.scripts import ApiError, Call, ScriptText, SlowText, ToolResult, ToolUse, parse

ARGUMENT = "$ARGUMENT"
"""Stands for the script's argument in the texts of a tool's input."""

FREE_TEXT = ""
"""The name of the one input of a tool that takes a text instead of named inputs."""

GREETING = "Hello from the scripted model."
TEXT_WRITTEN = "hello\nworld\n"
TITLE = "A scripted session"

AcpBlock = ScriptText | SlowText | ToolUse | ApiError


@dataclass(frozen=True, slots=True)
class Said:
    """One message or one tool result of the conversation that an agent sends."""

    role: Literal["user", "model", "tool"]
    text: str


# agent -> script -> the call
TOOLS: dict[str, dict[str, ToolUse]] = {
    "gemini": {
        "shell": ToolUse("run_shell_command", {"command": ARGUMENT, "description": "run the command"}),
        "write": ToolUse("write_file", {"file_path": ARGUMENT, "content": TEXT_WRITTEN}),
        "read": ToolUse("read_file", {"file_path": ARGUMENT}),
        "edit": ToolUse(
            "replace",
            {
                "file_path": ARGUMENT,
                "instruction": "say goodbye",
                "old_string": "hello",
                "new_string": "goodbye",
            },
        ),
        "plan": ToolUse(
            "write_todos",
            {
                "todos": [
                    {"description": "Look around", "status": "completed"},
                    {"description": "Write it down", "status": "in_progress"},
                ]
            },
        ),
    },
    "opencode": {
        "shell": ToolUse("bash", {"command": ARGUMENT}),
        "write": ToolUse("write", {"filePath": ARGUMENT, "content": TEXT_WRITTEN}),
        "read": ToolUse("read", {"filePath": ARGUMENT}),
        "edit": ToolUse("edit", {"filePath": ARGUMENT, "oldString": "hello", "newString": "goodbye"}),
        "plan": ToolUse(
            "todowrite",
            {
                "todos": [
                    {"content": "Look around", "status": "completed", "priority": "high", "id": "1"},
                    {"content": "Write it down", "status": "in_progress", "priority": "low", "id": "2"},
                ]
            },
        ),
    },
    # Codex runs commands in a sandbox without asking; it asks for those that the model wants to run outside of it.
    "codex": {
        "shell": ToolUse(
            "exec_command",
            {"cmd": ARGUMENT, "sandbox_permissions": "require_escalated", "justification": "May I run the command?"},
        ),
        "write": ToolUse(
            "apply_patch", {FREE_TEXT: f"*** Begin Patch\n*** Add File: {ARGUMENT}\n+hello\n+world\n*** End Patch\n"}
        ),
        "read": ToolUse("exec_command", {"cmd": f"cat {ARGUMENT}"}),
        "edit": ToolUse(
            "apply_patch",
            {FREE_TEXT: f"*** Begin Patch\n*** Update File: {ARGUMENT}\n@@\n-hello\n+goodbye\n*** End Patch\n"},
        ),
        "plan": ToolUse(
            "update_plan",
            {
                "plan": [
                    {"step": "Look around", "status": "completed"},
                    {"step": "Write it down", "status": "in_progress"},
                ]
            },
        ),
    },
}


def read_prompt(conversation: Sequence[Said], tools: frozenset[str]) -> Call:
    """The script that the last prompt with a marker selects, and the results of the tools since then."""
    name: str | None = None
    argument = ""
    results: list[ToolResult] = []
    for said in conversation:
        if said.role == "tool":
            results.append(ToolResult(said.text))
        elif said.role == "user" and (chosen := parse(said.text)):
            name, argument = chosen
            results = []
    return Call(name, argument, tuple(results), tools, len(conversation))


def respond(call: Call) -> list[AcpBlock]:
    """The model's answer to one request of the turn."""
    if not call.tools:
        # Agents ask so for a title of the session.
        return [ScriptText(TITLE, chunks=1)]
    match call.name:
        case "edit" if call.step == 1:
            return [_tool("edit", call)]
        case _ if call.results:
            return [ScriptText("Done.", chunks=1)]
        case "text":
            return [ScriptText(f"{GREETING} {call.argument}".strip())]
        case "slow":
            return [SlowText("tick ", int(call.argument or 100), 0.05)]
        case "think":
            thought = ScriptText("**Weighing it** Let me think about this carefully.", 6, "thinking")
            return [thought, ScriptText("I thought about it.")]
        case "fail":
            return [ApiError(int(call.argument or 400), "scripted_error", "the scripted model refuses this")]
        case "edit":
            return [_tool("read", call)]
        case "shell" | "write" | "read" | "plan":
            return [_tool(call.name, call)]
    return [ScriptText(f"There is no script named {call.name!r}.")]


def agent_of(tools: frozenset[str]) -> str | None:
    """The agent that offers these tools to the model."""
    return next((agent for agent, calls in TOOLS.items() if calls["shell"].name in tools), None)


def _tool(script: str, call: Call) -> ToolUse | ScriptText:
    agent = agent_of(call.tools)
    known = TOOLS[agent].get(script) if agent else None
    if known is None or known.name not in call.tools:
        return ScriptText(f"This agent has no tool for {script!r}.")
    return ToolUse(known.name, _filled(known.input, call.argument))


def _filled(value: Any, argument: str) -> Any:
    """A tool's input with the argument in its place."""
    if isinstance(value, str):
        return value.replace(ARGUMENT, argument)
    if isinstance(value, dict):
        return {key: _filled(inner, argument) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, argument) for inner in value]
    return value
