"""The demo agent's own decision whether a tool may run, before it asks the host.

Rule: pure. As strict as the real CLI in the cases that the scripts use; asks in every other case.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]

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


@dataclass(slots=True)
class Grants:
    """The mode, rules and directories that the session was granted while it ran."""

    mode: str
    cwd: str
    directories: list[str] = field(default_factory=list)
    rules: list[tuple[str, str | None, str]] = field(default_factory=list)
    """(tool, rule content, behavior)"""

    def apply(self, updates: list[Record]) -> str | None:
        """Apply `updatedPermissions`; return the new mode if they change it."""
        changed = None
        for update in updates:
            match update.get("type"):
                case "setMode":
                    self.mode = changed = str(update.get("mode"))
                case "addDirectories":
                    self.directories += [str(d) for d in update.get("directories", [])]
                case "addRules":
                    behavior = str(update.get("behavior", "allow"))
                    for rule in update.get("rules", []):
                        self.rules.append((str(rule.get("toolName")), rule.get("ruleContent"), behavior))
        return changed

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
    if _ruled(grants, tool, arguments, "deny"):
        return GrantVerdict("deny", {"source": "config", "reason_type": "rule"})
    if grants.mode == "bypassPermissions":
        return GrantVerdict("allow", {"source": "config", "reason_type": "mode"})
    if _ruled(grants, tool, arguments, "allow"):
        return GrantVerdict("allow", {"source": "config", "reason_type": "subcommandResults"})
    if tool == "Bash":
        return _judge_bash(grants, arguments)
    path = str(arguments.get("file_path", ""))
    if tool == "Read" and grants.inside(path):
        return GrantVerdict("allow", {"source": "config", "reason_type": "mode"})
    if tool in ("Write", "Edit") and grants.mode == "acceptEdits" and grants.inside(path):
        return GrantVerdict("allow", {"source": "config", "reason_type": "mode"})
    return _asked(grants)


def _judge_bash(grants: Grants, arguments: Record) -> GrantVerdict:
    command = str(arguments.get("command", ""))
    word = _simple(command)
    if word in _READS:
        return GrantVerdict("allow", {"source": "config", "reason_type": "subcommandResults"})
    if word in _EDITS and grants.mode == "acceptEdits":
        return GrantVerdict("allow", {"source": "config", "reason_type": "mode"})
    if word in _EDITS:
        return _asked(grants)
    return _asked(grants, decision_reason="This command requires approval", decision_reason_type="other")


def _asked(grants: Grants, **reason: str) -> GrantVerdict:
    if grants.mode == "dontAsk":
        return GrantVerdict("deny", {"source": "config", "reason_type": "mode"})
    return GrantVerdict("ask", {}, dict(reason))


def _simple(command: str) -> str:
    """The first word of a single command; empty if the text may contain several."""
    if not command.strip() or _SHELL & set(command):
        return ""
    return command.split()[0]


def _ruled(grants: Grants, tool: str, arguments: Record, behavior: str) -> bool:
    return any(
        named == tool and kind == behavior and _matches(content, tool, arguments)
        for named, content, kind in grants.rules
    )


def _matches(content: str | None, tool: str, arguments: Record) -> bool:
    if not content:
        return True
    command = str(arguments.get("command" if tool == "Bash" else "file_path", ""))
    for ending in (":*", " *"):
        if content.endswith(ending):
            prefix = content[: -len(ending)]
            # Quotes hide their content from the shell; any other character that could join commands counts.
            plain = not _SHELL & set(_unquoted(command))
            return plain and (command == prefix or command.startswith(prefix + " "))
    return command == content


def _unquoted(command: str) -> str:
    return "".join(command.split("'")[::2])


def question(grants: Grants, tool: str, arguments: Record, verdict: GrantVerdict, hook: str | None) -> Record:
    """The fields of a `can_use_tool` request besides the ids."""
    asked: Record = {"tool_name": tool, "display_name": display_name(tool), "input": arguments}
    if tool.startswith("mcp__"):
        asked["mcp_server"] = {"name": tool.split("__")[1], "source": "sdk"}
    description = _description(tool, arguments)
    if description:
        asked["description"] = description
    if hook is not None:
        asked |= {
            "decision_reason": hook,
            "decision_reason_type": "hook",
            "decision_reason_hook_event": "PreToolUse",
            "decision_reason_hook_source": "settings",
        }
        return asked
    if tool in ALWAYS_ASKED:
        return asked
    asked["permission_suggestions"] = _suggestions(grants, tool, arguments)
    asked |= verdict.reason
    if tool == "Bash" and not verdict.reason:
        asked["blocked_path"] = os.path.normpath(os.path.join(grants.cwd, str(arguments["command"]).split()[-1]))
    elif tool != "Bash":
        asked["server_policy_ask_only"] = True
    return asked


def display_name(tool: str) -> str:
    return tool.split("__")[-1].capitalize() if tool.startswith("mcp__") else tool


def _description(tool: str, arguments: Record) -> str:
    if tool in ("Write", "Edit", "Read"):
        return os.path.basename(str(arguments.get("file_path", "")))
    return str(arguments.get("description", "")) if tool == "Bash" else ""


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
