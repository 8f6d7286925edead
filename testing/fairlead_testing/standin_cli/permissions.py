"""Decides whether a call may run: by the host's hook, the agent's own rules, or the person behind the host.

As strict as the real CLI in the cases that the scripts use; asks in every other case.
"""

import os.path
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fairlead.agents.claude.launch import ALWAYS_ASKED
from fairlead.agents.demo.tools import ToolFailed
from fairlead_testing.model_messages import Record
from fairlead_testing.standin_cli.wire import HostFailed, HostGone

if TYPE_CHECKING:
    from fairlead_testing.standin_cli.session import StandinSession

_NEVER_ASKED = frozenset({"Agent", "Task", "TodoWrite", "StructuredOutput", "Glob"})
_READS = frozenset({"echo", "ls", "pwd", "cat", "head", "tail", "wc", "date", "whoami", "true"})
_EDITS = frozenset({"mkdir", "touch", "rm", "rmdir", "mv", "cp"})
# A command with any of these may contain a second one: it is never allowed by its first word alone.
_SHELL = frozenset(";|&$`<>(){}\n\\")

Behavior = Literal["allow", "ask", "deny"]


class Stopped(Exception):
    """The host refuses the call and ends the run."""


@dataclass(slots=True)
class Grants:
    """The mode and the directories that the session was granted."""

    mode: str
    cwd: str
    directories: list[str] = field(default_factory=list)

    def inside(self, path: str) -> bool:
        """Whether this file is in the session's directory or in one that was added."""
        full = os.path.normpath(os.path.join(self.cwd, path))
        roots = [os.path.normpath(os.path.join(self.cwd, d)) for d in (self.cwd, *self.directories)]
        return any(full == root or full.startswith(root + os.sep) for root in roots)

    def judge(self, tool: str, arguments: Record) -> Behavior:
        """The agent's own decision on one call."""
        if tool in ALWAYS_ASKED:
            return "ask"
        if tool in _NEVER_ASKED or self.mode == "bypassPermissions" or self._is_harmless(tool, arguments):
            return "allow"
        return "deny" if self.mode == "dontAsk" else "ask"

    def _is_harmless(self, tool: str, arguments: Record) -> bool:
        edits = self.mode == "acceptEdits"
        if tool == "Bash":
            command = str(arguments.get("command", ""))
            word = "" if _SHELL & set(command) else (command.split() or [""])[0]
            return word in _READS or (word in _EDITS and edits)
        reads_or_may_edit = tool == "Read" or (tool in ("Write", "Edit") and edits)
        return reads_or_may_edit and self.inside(str(arguments.get("file_path", "")))


async def pass_or_refuse(session: "StandinSession", call: Record, arguments: Record, agent_id: str | None) -> Record:
    """Return the input to run the call with. Raises ToolFailed or Stopped if it may not run."""
    name = call["name"]
    decided = await _call_hooks(session, call, arguments)
    if "deny" in decided:
        raise ToolFailed(f"PreToolUse:{name} hook error: {decided['deny']}")
    verdict = session.grants.judge(name, arguments)
    if "ask" in decided:
        verdict = "ask"
    elif "allow" in decided and name not in ALWAYS_ASKED and verdict != "deny":
        verdict = "allow"
    if verdict == "deny":
        refused = f"Permission to use {name} was not granted."
        session.emit_system("permission_denied", tool_name=name, tool_use_id=call["id"], message=refused)
        raise ToolFailed(refused)
    if verdict == "allow":
        return arguments
    return await _ask(session, call, arguments, agent_id, decided.get("ask"))


async def _call_hooks(session: "StandinSession", call: Record, arguments: Record) -> dict[str, str]:
    """The decisions of the host's hooks, each with its reason. An error of the host counts as no decision, as in the
    CLI, unless the host asked for a block."""
    about = {"tool_name": call["name"], "tool_input": arguments, "tool_use_id": call["id"]}
    given = {**about, "cwd": session.cwd, "permission_mode": session.grants.mode, "hook_event_name": "PreToolUse"}
    decided: dict[str, str] = {}
    for hook in session.hooks:
        for callback in hook.get("hookCallbackIds", []):
            try:
                answer = await session.wire.ask(
                    "hook_callback", callback_id=callback, input=given, tool_use_id=call["id"]
                )
            except HostGone:
                raise ToolFailed("The host went away before its hook decided about this call.") from None
            except HostFailed:
                if hook.get("onFailure") == "block":
                    decided["deny"] = "the host failed to answer its hook"
                continue
            output = answer.get("hookSpecificOutput")
            if isinstance(output, dict) and output.get("permissionDecision"):
                decided[output["permissionDecision"]] = str(output.get("permissionDecisionReason") or "")
    return decided


async def _ask(
    session: "StandinSession", call: Record, arguments: Record, agent_id: str | None, reason: str | None
) -> Record:
    request: Record = {"tool_name": call["name"], "input": arguments, "tool_use_id": call["id"]}
    request["description"] = str(arguments.get("description") or os.path.basename(str(arguments.get("file_path", ""))))
    request["decision_reason"] = reason
    if agent_id is not None:
        request["agent_id"] = agent_id
    try:
        answer = await session.wire.ask("can_use_tool", **request)
    except HostFailed as error:
        raise ToolFailed(f"Tool permission request failed: {error}") from None
    if answer.get("behavior") != "allow":
        if answer.get("interrupt"):
            raise Stopped
        raise ToolFailed(str(answer.get("message") or "Permission was denied."))
    updated = answer.get("updatedInput")
    return updated if isinstance(updated, dict) else arguments
