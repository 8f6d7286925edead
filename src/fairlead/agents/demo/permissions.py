"""The demo agent's own decision whether a tool may run, before it asks the host.

No I/O. As strict as the real CLI in the cases that the scripts use; asks in every other case.
"""

import os.path
from dataclasses import dataclass, field

from fairlead.agents.demo.records import Record

ALWAYS_ASKED = frozenset({"AskUserQuestion", "ExitPlanMode"})
_NEVER_ASKED = frozenset({"Agent", "Task", "TodoWrite", "StructuredOutput", "Glob"})
_READS = frozenset({"echo", "ls", "pwd", "cat", "head", "tail", "wc", "date", "whoami", "true"})
_EDITS = frozenset({"mkdir", "touch", "rm", "rmdir", "mv", "cp"})
# A command with any of these may contain a second one: it is never allowed by its first word alone.
_SHELL = frozenset(";|&$`<>(){}\n\\")


@dataclass(frozen=True, slots=True)
class GrantVerdict:
    """allow, ask or deny; `meta` goes into the tool result, `reason` into the question."""

    behavior: str
    meta: Record = field(default_factory=dict)
    reason: Record = field(default_factory=dict)


_BY_MODE = {"source": "config", "reason_type": "mode"}


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


def judge(grants: Grants, tool: str, arguments: Record) -> GrantVerdict:
    """The verdict on one call, without asking a hook or a person."""
    if tool in ALWAYS_ASKED:
        return GrantVerdict("ask")
    if tool in _NEVER_ASKED:
        return GrantVerdict("allow", {"source": "config"})
    if grants.mode == "bypassPermissions":
        return GrantVerdict("allow", _BY_MODE)
    edits = grants.mode == "acceptEdits"
    if tool == "Bash":
        word = _simple(str(arguments.get("command", "")))
        if word in _READS:
            return GrantVerdict("allow", {"source": "config", "reason_type": "subcommandResults"})
        if word in _EDITS:
            return GrantVerdict("allow", _BY_MODE) if edits else _asked(grants)
        return _asked(grants, decision_reason="This command requires approval", decision_reason_type="other")
    if (tool == "Read" or (tool in ("Write", "Edit") and edits)) and grants.inside(str(arguments.get("file_path", ""))):
        return GrantVerdict("allow", _BY_MODE)
    return _asked(grants)


def _asked(grants: Grants, **reason: str) -> GrantVerdict:
    if grants.mode == "dontAsk":
        return GrantVerdict("deny", _BY_MODE)
    return GrantVerdict("ask", {}, dict(reason))


def _simple(command: str) -> str:
    """The first word of a single command; empty if the text may contain several."""
    if not command.strip() or _SHELL & set(command):
        return ""
    return command.split()[0]


def question(grants: Grants, tool: str, arguments: Record, verdict: GrantVerdict, hook: str | None) -> Record:
    """The fields of a `can_use_tool` request besides the ids."""
    is_mcp = tool.startswith("mcp__")
    name = tool.split("__")[-1].capitalize() if is_mcp else tool
    asked: Record = {"tool_name": tool, "display_name": name, "input": arguments}
    if is_mcp:
        asked["mcp_server"] = {"name": tool.split("__")[1], "source": "sdk"}
    if tool in ("Write", "Edit", "Read"):
        asked["description"] = os.path.basename(str(arguments.get("file_path", "")))
    elif tool == "Bash" and arguments.get("description"):
        asked["description"] = str(arguments["description"])
    if hook is not None:
        return asked | {
            "decision_reason": hook,
            "decision_reason_type": "hook",
            "decision_reason_hook_event": "PreToolUse",
            "decision_reason_hook_source": "settings",
        }
    if tool in ALWAYS_ASKED:
        return asked
    asked["permission_suggestions"] = _suggestions(grants, tool, arguments)
    asked |= verdict.reason
    if tool == "Bash" and not verdict.reason:
        asked["blocked_path"] = os.path.normpath(os.path.join(grants.cwd, str(arguments["command"]).split()[-1]))
    elif tool != "Bash":
        asked["server_policy_ask_only"] = True
    return asked


_ACCEPT_EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


def _suggestions(grants: Grants, tool: str, arguments: Record) -> list[Record]:
    if tool in ("Write", "Edit"):
        return [_ACCEPT_EDITS]
    rule: Record = {"toolName": tool}
    if tool == "Bash":
        rule["ruleContent"] = str(arguments.get("command", ""))
    add = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"}
    if tool == "Bash" and _simple(str(arguments.get("command", ""))) in _EDITS:
        more = {"type": "addDirectories", "directories": [grants.cwd], "destination": "session"}
        return [add, more, _ACCEPT_EDITS]
    return [add]
