"""Whether a rule speaks about a call. Refusing rules (deny, ask) reach wide, allowing ones only as far as their words.

- Families: a rule for `Edit` speaks for all editing tools and one for `Read` for all reading ones; a deny or ask
  rule for any editing tool speaks for all of them.
- Paths: a refusing rule also covers what lies in a matching folder; an allowing one matches every reading of a path.
- Shell lines: refusing path rules hold for redirections and words of a command too. An allowing rule covers neither
  words that are not known before they run nor options that its program was not allowed for (see doubts.py).
- Files that make programs run things (protected.py) are covered only by a rule that names them.
- A content whose meaning we do not know never allows, and when it refuses, a person is asked.
"""

from enum import Enum
from itertools import chain

from fairlead.model.policy import Behavior, PermissionMode, Rule, format_rule
from fairlead.sessions.permissions.policy.call import CallFacts, PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.paths import BadPath, absolute, pattern_covers, static_part, tidy
from fairlead.sessions.permissions.policy.protected import is_protected
from fairlead.sessions.permissions.policy.tools import (
    EDIT_TOOLS,
    FETCH_TOOL,
    NAMED_BY,
    PATH_TOOLS,
    READ_TOOLS,
    SHELL_TOOL,
    canonical,
)
from fairlead.sessions.permissions.shell.risks import doubt
from fairlead.sessions.permissions.shell.rule_matching import (
    ANYTHING,
    coverage,
    may_be_refused_by,
    refused_by,
    shell_pattern,
)


class RuleMatch(Enum):
    """Whether a refusing rule holds. MAYBE: only running the call would tell."""

    NO = 0
    MAYBE = 1
    YES = 2


def speaks_for(rule: Rule, tool: str) -> bool:
    """Whether the rule is about this tool at all, by its name."""
    about, refusing = canonical(rule.tool), rule.behavior is not Behavior.ALLOW
    if about == tool or (about == "Edit" and tool in EDIT_TOOLS) or (about == "Read" and tool in READ_TOOLS):
        return True
    if refusing and about in EDIT_TOOLS and tool in EDIT_TOOLS:
        return True
    if not about.startswith("mcp__"):
        return False
    server = about.removesuffix("__*")
    whole_server = refusing or server.count("__") == 1 or server != about
    return whole_server and tool.startswith(server + "__")


def refuses(rule: Rule, call: ToolCall, facts: CallFacts, context: PolicyContext) -> RuleMatch:
    """Whether a deny or ask rule holds against a call."""
    if facts.shell is not None and canonical(rule.tool) in PATH_TOOLS and rule.content is not None:
        return _path_rule_on_shell(rule, rule.content, facts, context)
    if not speaks_for(rule, facts.tool):
        return RuleMatch.NO
    if rule.content is None:
        return RuleMatch.YES
    if facts.malformed is not None:
        return RuleMatch.MAYBE
    if facts.shell is not None:
        if rule.content == ANYTHING:
            return RuleMatch.YES
        pattern = shell_pattern(rule.content)
        if refused_by(facts.shell, pattern):
            return RuleMatch.YES
        return RuleMatch.MAYBE if may_be_refused_by(facts.shell, pattern) else RuleMatch.NO
    if facts.tool in PATH_TOOLS:
        patterns = _patterns(rule.content, context, as_written=True)
        return _yes(_covers(patterns, tuple(chain(facts.written, *facts.paths))))
    if facts.tool == FETCH_TOOL and rule.content.startswith("domain:"):
        domain = rule.content.removeprefix("domain:").removeprefix("*.").lower()
        host = (facts.host or "").lower()
        return _yes(host == domain or host.endswith("." + domain))
    if facts.tool in NAMED_BY:
        return _yes(call.input.get(NAMED_BY[facts.tool]) == rule.content)
    return RuleMatch.MAYBE


def allowing(call: ToolCall, facts: CallFacts, context: PolicyContext) -> tuple[str | None, str]:
    """The allow rules that together allow a call, as text, or None; and why not."""
    rules = [r for r in context.rules if r.behavior is Behavior.ALLOW and speaks_for(r, facts.tool)]
    protected = facts.tool in EDIT_TOOLS and any(is_protected(place) for places in facts.paths for place in places)
    for rule in rules:
        everything = rule.content is None or (rule.content == ANYTHING and facts.tool == SHELL_TOOL)
        if everything and not protected:
            return format_rule(rule), ""
    if facts.shell is not None:
        contents = [rule.content for rule in rules if rule.content is not None]
        covered = coverage(facts.shell, [shell_pattern(content) for content in contents])
        missing = covered.missing or doubt(
            facts, context, covered.named, lambda places: _why_not_written(places, context, whole=covered.whole)
        )
        if missing is not None:
            return None, missing
        return ", ".join(f"{SHELL_TOOL}({contents[index]})" for index in covered.used), ""
    for rule in rules:
        if rule.content is not None and _content_allows(rule.content, call, facts, context):
            return format_rule(rule), ""
    return None, "it makes programs run things, and no rule names it" if protected else "no rule allows it"


def edits_plainly(facts: CallFacts, context: PolicyContext) -> bool:
    """Whether an edit stays inside the session's folders and away from files that make programs run things."""
    return all(_may_write(places, context) for places in facts.paths)


def _yes(holds: bool) -> RuleMatch:
    return RuleMatch.YES if holds else RuleMatch.NO


def _content_allows(content: str, call: ToolCall, facts: CallFacts, context: PolicyContext) -> bool:
    if facts.tool in PATH_TOOLS:
        places = tuple(chain(*facts.paths))
        if facts.tool in EDIT_TOOLS and any(is_protected(place) for place in places) and not is_protected(content):
            return False
        return _all_covered(content, places, context)
    if facts.tool == FETCH_TOOL and content.startswith("domain:"):
        domain, host = content.removeprefix("domain:").lower(), (facts.host or "").lower()
        return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain
    return facts.tool in NAMED_BY and call.input.get(NAMED_BY[facts.tool]) == content


def _patterns(content: str, context: PolicyContext, *, as_written: bool = False) -> tuple[str, ...]:
    """A path pattern made absolute, the links in front of its first wildcard followed; () when it leads nowhere."""
    try:
        full = absolute(content, context.cwd, context.home)
        start = static_part(full)
        rest = full[len(start) :].lstrip("/")
        found = [tidy(place) for place in context.exactly(start)]
    except BadPath:
        return ()
    if as_written:
        found.append(tidy(start))
    return tuple(f"{place.rstrip('/')}/{rest}" if rest else place for place in found)


def _covers(patterns: tuple[str, ...], places: tuple[str, ...]) -> bool:
    """Whether a refusing rule's patterns cover any of these places."""
    return any(pattern_covers(pattern, place, below=True) for pattern in patterns for place in places)


def _path_rule_on_shell(rule: Rule, content: str, facts: CallFacts, context: PolicyContext) -> RuleMatch:
    """A closed path is closed to redirections too; a word that names it is enough for reading, and asks for edits."""
    patterns = _patterns(content, context, as_written=True)
    editing = canonical(rule.tool) in EDIT_TOOLS
    if editing and any(_covers(patterns, places) for places in facts.targets):
        return RuleMatch.YES
    if any(_covers(patterns, places) for places in facts.words):
        return RuleMatch.MAYBE if editing else RuleMatch.YES
    return RuleMatch.MAYBE if facts.followed is not None and facts.followed.lost is not None else RuleMatch.NO


def _all_covered(content: str, places: tuple[str, ...], context: PolicyContext) -> bool:
    """Whether an allowing rule's pattern matches every one of these places."""
    patterns = _patterns(content, context)
    return bool(patterns) and all(
        any(pattern_covers(pattern, place, below=False) for pattern in patterns) for place in places
    )


def _may_write(places: tuple[str, ...], context: PolicyContext) -> bool:
    return context.inside(places) and not any(is_protected(place) for place in places)


def _why_not_written(places: tuple[str, ...], context: PolicyContext, *, whole: bool) -> str | None:
    """Why a line that rules allow may not write here. A rule for a program is none for files: those are edits."""
    if not _may_write(places, context):
        return "it lies outside of what this session may write, or makes programs run things"
    if whole or context.mode is PermissionMode.ACCEPT_EDITS:
        return None
    for rule in context.rules:
        writes = rule.behavior is Behavior.ALLOW and canonical(rule.tool) in ("Edit", "Write")
        if writes and (rule.content is None or _all_covered(rule.content, places, context)):
            return None
    return "a rule for a command is none for the files that its output goes to"
