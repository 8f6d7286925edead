"""Matching of rules and calls. Refusing rules (deny, ask) match widely, allow rules only exactly as written.

- Families: a rule for `Edit` covers all editing tools and one for `Read` all reading tools; a deny or ask rule for any
  editing tool covers all of them.
- Paths: a refusing rule also covers everything inside a matching folder; an allow rule must match every reading of a
  path.
- Shell lines: refusing path rules apply to redirections and words of a command too. An allow rule covers neither
  words that are known only at run time nor options beyond the usual ones of its program (see shell/risks.py).
- Files that make programs run commands (protected.py) are covered only by a rule that names them.
- An allow rule whose content has no known meaning allows nothing; for such a refusing rule, a person is asked.
"""

from enum import Enum

from fairlead.model.policy import Behavior, PermissionMode, Rule, format_rule
from fairlead.model.tools import ToolCatalogue
from fairlead.sessions.permissions.policy.call import CallFacts, PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.paths import BadPath, absolute, pattern_covers, static_part, tidy
from fairlead.sessions.permissions.shell.resolution import ResolvedLine
from fairlead.sessions.permissions.shell.risks import line_risk
from fairlead.sessions.permissions.shell.rule_matching import ANYTHING, coverage, may_refuse, refused_by, shell_pattern

EDIT_FAMILY, READ_FAMILY = "Edit", "Read"


class RuleMatch(Enum):
    """Whether a refusing rule matches. MAYBE: known only at run time."""

    NO = 0
    MAYBE = 1
    YES = 2


def applies_to(rule: Rule, tool: str, tools: ToolCatalogue) -> bool:
    """Return whether the rule applies to this tool, by its name."""
    about, refusing = tools.canonical(rule.tool), rule.behavior is not Behavior.ALLOW
    kind = tools.find(tool)
    if about == tool or (about == READ_FAMILY and kind.reads):
        return True
    if kind.effect == "edit" and (about == EDIT_FAMILY or (refusing and tools.find(about).effect == "edit")):
        return True
    if not about.startswith("mcp__"):
        return False
    server = about.removesuffix("__*")
    whole_server = refusing or server.count("__") == 1 or server != about
    return whole_server and tool.startswith(server + "__")


def refuses(rule: Rule, call: ToolCall, facts: CallFacts, context: PolicyContext) -> RuleMatch:
    """Return whether a deny or ask rule matches a call."""
    if facts.shell is not None and context.tools.find(rule.tool).has_path and rule.content is not None:
        return _path_rule_on_shell(rule, rule.content, facts.shell, context)
    if not applies_to(rule, facts.tool, context.tools):
        return RuleMatch.NO
    if rule.content is None:
        return RuleMatch.YES
    if facts.malformed is not None:
        return RuleMatch.MAYBE
    if facts.shell is not None:
        if rule.content == ANYTHING:
            return RuleMatch.YES
        pattern = shell_pattern(rule.content)
        if refused_by(facts.shell.analysis, pattern):
            return RuleMatch.YES
        return RuleMatch.MAYBE if may_refuse(facts.shell.analysis, pattern) else RuleMatch.NO
    if facts.kind.has_path:
        patterns = _patterns(rule.content, context, as_written=True)
        return _yes(_covers(patterns, (*facts.written, *facts.places)))
    if facts.host is not None and rule.content.startswith("domain:"):
        domain = rule.content.removeprefix("domain:").removeprefix("*.").lower()
        host = facts.host.lower()
        return _yes(host == domain or host.endswith("." + domain))
    if facts.kind.argument and facts.host is None:
        return _yes(call.input.get(facts.kind.argument) == rule.content)
    return RuleMatch.MAYBE


def find_allowing_rules(call: ToolCall, facts: CallFacts, context: PolicyContext) -> tuple[str | None, str]:
    """Return the allow rules that together allow a call, as text, or None; and the reason for None."""
    rules = [r for r in context.rules if r.behavior is Behavior.ALLOW and applies_to(r, facts.tool, context.tools)]
    protected = facts.kind.effect == "edit" and any(context.is_protected(place) for place in facts.places)
    for rule in rules:
        everything = rule.content is None or (rule.content == ANYTHING and facts.kind.effect == "shell")
        if everything and not protected:
            return format_rule(rule), ""
    if facts.shell is not None:
        contents = [rule.content for rule in rules if rule.content is not None]
        covered = coverage(facts.shell.analysis, [shell_pattern(content) for content in contents])
        missing = covered.missing or line_risk(
            facts.shell, context, covered.named, lambda places: _why_not_written(places, context, whole=covered.whole)
        )
        if missing is not None:
            return None, missing
        return ", ".join(f"{facts.tool}({contents[index]})" for index in covered.used), ""
    for rule in rules:
        if rule.content is not None and _content_allows(rule.content, call, facts, context):
            return format_rule(rule), ""
    return None, "it makes programs run things, and no rule names it" if protected else "no rule allows it"


def _yes(holds: bool) -> RuleMatch:
    return RuleMatch.YES if holds else RuleMatch.NO


def _content_allows(content: str, call: ToolCall, facts: CallFacts, context: PolicyContext) -> bool:
    if facts.kind.has_path:
        protected = facts.kind.effect == "edit" and any(context.is_protected(place) for place in facts.places)
        return (not protected or context.is_protected(content)) and _all_covered(content, facts.places, context)
    if facts.host is not None and content.startswith("domain:"):
        domain, host = content.removeprefix("domain:").lower(), facts.host.lower()
        return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain
    compared = facts.kind.argument if facts.host is None else ""
    return bool(compared) and call.input.get(compared) == content


def _patterns(content: str, context: PolicyContext, *, as_written: bool = False) -> tuple[str, ...]:
    """Return a path pattern in absolute form, with the links before its first wildcard resolved; () if it has no valid
    path."""
    try:
        full = absolute(content, context.cwd, context.home)
        start = static_part(full)
        rest = full[len(start) :].lstrip("/")
        found = [tidy(place) for place in context.resolve_literal(start)]
    except BadPath:
        return ()
    if as_written:
        found.append(tidy(start))
    return tuple(f"{place.rstrip('/')}/{rest}" if rest else place for place in found)


def _covers(patterns: tuple[str, ...], places: tuple[str, ...]) -> bool:
    """Return whether a refusing rule's patterns cover any of these places."""
    return any(pattern_covers(pattern, place, below=True) for pattern in patterns for place in places)


def _path_rule_on_shell(rule: Rule, content: str, line: ResolvedLine, context: PolicyContext) -> RuleMatch:
    """Match a refusing path rule with a shell line.

    A redirection into the path matches a rule for edits. A word that names the path matches a rule for reading, and may
    match one for edits.
    """
    patterns = _patterns(content, context, as_written=True)
    editing = context.tools.find(rule.tool).effect == "edit"
    targets = zip(line.analysis.redirections, line.targets, strict=True)
    if editing and any(_covers(patterns, target.places) for redirection, target in targets if redirection.writes):
        return RuleMatch.YES
    if any(_covers(patterns, argument.places) for argument in line.arguments()):
        return RuleMatch.MAYBE if editing else RuleMatch.YES
    return RuleMatch.NO if line.incomplete is None else RuleMatch.MAYBE


def _all_covered(content: str, places: tuple[str, ...], context: PolicyContext) -> bool:
    """Return whether an allow rule's pattern matches every one of these places."""
    patterns = _patterns(content, context)
    return bool(patterns) and all(
        any(pattern_covers(pattern, place, below=False) for pattern in patterns) for place in places
    )


def may_write(places: tuple[str, ...], context: PolicyContext) -> bool:
    """Return whether places are inside the session's folders and are not files that make programs run commands."""
    return context.inside(places) and not any(context.is_protected(place) for place in places)


def _why_not_written(places: tuple[str, ...], context: PolicyContext, *, whole: bool) -> str | None:
    """Explain why a line that rules allow may not write here; None if it may.

    A rule for a program does not cover files that the line writes: those count as edits.
    """
    if not may_write(places, context):
        return "it lies outside of what this session may write, or makes programs run things"
    if whole or context.mode is PermissionMode.ACCEPT_EDITS:
        return None
    for rule in context.rules:
        writer = context.tools.canonical(rule.tool) == EDIT_FAMILY or context.tools.find(rule.tool).edit.whole
        writes = rule.behavior is Behavior.ALLOW and writer
        if writes and (rule.content is None or _all_covered(rule.content, places, context)):
            return None
    return "a rule for a command does not cover the files that its output goes to"
