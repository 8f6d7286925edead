"""The types of the permission policy: rules, modes, verdicts. The decisions are in `sessions.permissions.policy`.

A rule is written `Tool` or `Tool(content)`: `Bash(git status:*)`, `Read(./src/**)`, `WebFetch(domain:example.org)`,
`mcp__server__tool`, `mcp__server` (all tools of that server). The meaning of the content depends on the tool.
"""

import re
from enum import StrEnum
from typing import Literal

import msgspec

from fairlead.model.errors import BadMode, BadRequest


class Behavior(StrEnum):
    """The treatment of a tool call: it runs, it is denied, or a person is asked."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class PermissionMode(StrEnum):
    """The permission modes of all CLI versions; the modes that an agent knows differ by version."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS_PERMISSIONS = "bypassPermissions"
    PLAN = "plan"
    DELEGATE = "delegate"
    DONT_ASK = "dontAsk"
    AUTO = "auto"


RuleSource = Literal["settings", "session"]
"""The source of a rule: the gateway's own settings (an admin), or an answer given within the session."""

VerdictBy = Literal["rule", "mode", "fence", "default"]


class BadRule(BadRequest, code="bad_rule"):
    """A rule that cannot be parsed, or may not be remembered. `data["rule"]` is the faulty text, `data["instead"]` the
    narrower rule that a session may use instead, if there is one."""

    def __init__(self, text: str, problem: str, instead: str = "") -> None:
        narrower = {"instead": instead} if instead else {}
        super().__init__(f"The rule {text[:200]!r} {problem}.", rule=text[:200], problem=problem, **narrower)


class Rule(msgspec.Struct, frozen=True):
    """One rule: the treatment of those calls of `tool` that `content` describes (None: all its calls)."""

    behavior: Behavior
    tool: str
    content: str | None = None
    source: RuleSource = "session"


class Verdict(msgspec.Struct, frozen=True):
    """The policy's decision on one tool call, and the reason. `rule` is the text of the rule that applied."""

    behavior: Behavior
    reason: str
    rule: str | None = None
    by: VerdictBy = "default"

    @property
    def forbids(self) -> bool:
        """Whether a rule or the fence denies the call, not only the mode."""
        return self.behavior is Behavior.DENY and self.by in ("rule", "fence")


# The trailing star is for `mcp__server__*`, which means the same as `mcp__server`.
_TOOL = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.:-]*|mcp__[A-Za-z0-9_.:-]+__\*)")

_EXAMPLE = "write it as Tool or Tool(content), for example Bash(git status:*)"


def parse_rule(text: str, behavior: Behavior, source: RuleSource = "session") -> Rule:
    """Parse `Tool` or `Tool(content)`. Raises BadRule, which describes the fault in the text."""
    stripped = text.strip()
    name, bracket, rest = stripped.partition("(")
    if _TOOL.fullmatch(name) is None:
        raise BadRule(text, f"does not begin with the name of a tool: {_EXAMPLE}")
    if not bracket:
        return Rule(behavior, name, None, source)
    if not rest.endswith(")"):
        raise BadRule(text, f"has no closing bracket at its end: {_EXAMPLE}")
    content = rest[:-1]
    if not content.strip():
        raise BadRule(text, f"has nothing between its brackets: {_EXAMPLE}")
    if "\0" in content:
        raise BadRule(text, "contains a NUL character")
    return Rule(behavior, name, content, source)


def format_rule(rule: Rule) -> str:
    """The notation of a rule; `parse_rule` is the inverse."""
    return rule.tool if rule.content is None else f"{rule.tool}({rule.content})"


def parse_mode(word: str) -> PermissionMode:
    """The mode of that name. Raises BadMode, which names the valid ones."""
    try:
        return PermissionMode(word)
    except ValueError:
        raise BadMode(word, tuple(PermissionMode)) from None
