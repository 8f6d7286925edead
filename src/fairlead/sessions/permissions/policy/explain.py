"""Explanation of a call for the person who decides: its commands, the files it changes, the rules that would allow it.

Pure: the caller passes the current text of a file.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.policy import BadRule, Behavior, Rule, format_rule
from fairlead.model.queries import CommandPart, FileChange, RuleScope
from fairlead.model.tools import EditArguments, Tool
from fairlead.sessions.permissions.policy.call import PolicyContext, ToolCall, facts_of
from fairlead.sessions.permissions.policy.paths import BadPath, absolute, tidy
from fairlead.sessions.permissions.policy.remember import check_rule
from fairlead.sessions.permissions.policy.rules import EDIT_FAMILY, READ_FAMILY, find_allowing_rules
from fairlead.sessions.permissions.policy.suggest import suggest
from fairlead.sessions.permissions.shell.rule_matching import ANYTHING, shell_pattern


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a call.

    `edited`: the file that would change, as written, and its real place if that is in the session's folders.
    """

    commands: tuple[CommandPart, ...] = ()
    writes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    host: str = ""
    edited: tuple[str, str | None] | None = None


def lay_out(call: ToolCall, context: PolicyContext) -> Layout:
    facts = facts_of(call, context)
    if facts.malformed is not None:
        return Layout(doubts=(facts.malformed,))
    if facts.shell is not None:
        line = facts.shell.analysis
        return Layout(
            commands=tuple(CommandPart(text=one.raw, hidden=one.within is not None) for one in line.commands),
            writes=tuple(one.target.raw for one in line.redirections if one.writes),
            doubts=tuple(dict.fromkeys(problem.text for problem in line.problems)),
        )
    if facts.kind.effect == "edit":
        places = facts.paths[0]
        return Layout(edited=(facts.written[0], places[0] if len(places) == 1 and context.inside(places) else None))
    return Layout(host=facts.host or "")


def file_change(tool: Tool, given: Mapping[str, Any], path: str, text: str | None, *, outside: bool) -> FileChange:
    """Return the change to a file. `text` is its current text: empty if it does not exist yet, None if not known."""
    if tool.edit.whole:
        after = _text(given.get(tool.edit.whole))
        return FileChange(
            path=path, before=text or "", after=after, whole=text is not None, new=text == "", outside=outside
        )
    edits = _edits(tool.edit, given)
    whole = None if text is None else _applied(text, edits)
    if text is not None and whole is not None:
        return FileChange(path=path, before=text, after=whole, whole=True, outside=outside)
    before, after = "\n".join(old for old, _, _ in edits), "\n".join(new for _, new, _ in edits)
    return FileChange(path=path, before=before, after=after, outside=outside)


def _edits(how: EditArguments, given: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    several = given.get(how.several) if how.several else [given]
    return [
        (_text(one.get(how.old)), _text(one.get(how.new)), one.get(how.everywhere) is True)
        for one in (several if isinstance(several, list) else [])
        if isinstance(one, Mapping)
    ]


def _applied(text: str, edits: Sequence[tuple[str, str, bool]]) -> str | None:
    """Apply the edits. None when an edit does not match: the tool would fail, and its input is shown instead."""
    for old, new, everywhere in edits:
        if not old:
            if text:
                return None
            text = new
        elif old not in text:
            return None
        else:
            text = text.replace(old, new) if everywhere else text.replace(old, new, 1)
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def suggested(call: ToolCall, context: PolicyContext) -> tuple[RuleScope, ...]:
    """Return the suggested rules with their scope. Together they are enough: `suggest` has checked that."""
    rules = suggest(call, context)
    return tuple(RuleScope(rule=format_rule(rule), covers=covers(rule, context), enough=True) for rule in rules)


def rule_scope(text: str, call: ToolCall, context: PolicyContext, *, admin: bool) -> RuleScope:
    """Describe a rule that a person wrote: its scope, whether it may be saved, whether it is enough for this call."""
    try:
        rule = check_rule(text, Behavior.ALLOW, context, admin=admin)
    except FairleadError as error:
        problem = str(error.data["problem"]) if isinstance(error, BadRule) else error.message
        return RuleScope(rule=text[:500], covers="", problem=problem)
    facts = facts_of(call, context)
    trial = msgspec.structs.replace(context, rules=(*context.rules, rule))
    enough = facts.malformed is None and find_allowing_rules(call, facts, trial)[0] is not None
    return RuleScope(rule=format_rule(rule), covers=covers(rule, context), enough=enough)


# The words for the calls that a rule covers; they must agree with the matching in `rules` and `rule_matching`.


def covers(rule: Rule, context: PolicyContext) -> str:
    """Describe the calls that an allow rule covers."""
    tool, kind = context.tools.canonical(rule.tool), context.tools.find(rule.tool)
    if kind.effect == "shell":
        return _commands(rule.content)
    if kind.has_path:
        return f"{_doing(tool, kind)} {_places(rule.content, context)}"
    if rule.content is None:
        return _every(tool)
    if kind.effect == "fetch" and kind.argument and rule.content.startswith("domain:"):
        domain = rule.content.removeprefix("domain:")
        below = domain.startswith("*.")
        return f"Fetching any page of {'names below ' + domain[2:] if below else domain}"
    if kind.argument and kind.effect != "fetch":
        return f"Every call of {tool} that is for {rule.content}"
    return f"Nothing: what {rule.content} means to {tool} is not known here"


def _commands(content: str | None) -> str:
    if content is None or content == ANYTHING:
        return "Every shell command, whatever it does"
    pattern = shell_pattern(content)
    if pattern.prefix:
        return f"Every command that begins with the words “{content.removesuffix(':*')}”, whatever follows them"
    if any(word.open_end for word in pattern.words):
        return f"Every command of the form “{content}”, where * is the rest of a word"
    return f"The command “{content}”, exactly as it is"


def _doing(tool: str, kind: Tool) -> str:
    families = {EDIT_FAMILY: "Changing, by any editing tool,", READ_FAMILY: "Reading, by any reading tool,"}
    return families.get(tool) or f"{'Changing' if kind.effect == 'edit' else 'Reading'} by {tool}"


def _places(content: str | None, context: PolicyContext) -> str:
    if content is None:
        return "every file anywhere"
    try:
        path = tidy(absolute(content, context.cwd, context.home))
    except BadPath:
        return "nothing: this path leads nowhere"
    if path.endswith("/**"):
        return f"everything below {path.removesuffix('/**')}"
    return f"every file that matches {path}" if "*" in path or "?" in path else path


def _every(tool: str) -> str:
    if tool.startswith("mcp__"):
        server, one_tool, name = tool.removesuffix("__*").removeprefix("mcp__").partition("__")
        every = f"call of {name}, a tool" if one_tool else "tool"
        return f"Every {every} of the MCP server {server}"
    return f"Every call of {tool}, whatever it is given"
