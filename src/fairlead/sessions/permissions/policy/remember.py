"""Rules that an "always allow" remembers: our own rules, for this session only, never the CLI's settings.

They come from the wire (a client's answer), so each is checked: path rules stay inside the roots, and an allow rule for
everything needs an admin.
"""

from collections.abc import Sequence

from fairlead.model.errors import BadRequest, OutsideRoots
from fairlead.model.policy import BadRule, Behavior, Rule, format_rule, parse_rule
from fairlead.sessions.permissions.policy.call import PolicyContext
from fairlead.sessions.permissions.policy.paths import BadPath, absolute, static_part
from fairlead.sessions.permissions.shell.rule_matching import ANYTHING, problem_with

_MOST_RULES = 64  # in one answer; the CLI suggests one or two, and a person adds few
HERE = "./**"
"""Everything in the session's folder, except the files that a rule must name (protected.py)."""


class BadUpdate(BadRequest, code="bad_update"):
    """An answer with too many rules."""


def check_remembered(rules: Sequence[str], context: PolicyContext, *, admin: bool) -> tuple[str, ...]:
    """Check the rules that an answer asks to remember and return each once. Raises the error of the first bad rule."""
    parsed = [parse_rule(text, Behavior.ALLOW) for text in rules]
    if len(parsed) > _MOST_RULES:
        raise BadUpdate(f"Permission updates must be a list of at most {_MOST_RULES}.")
    checked = (check_rule(_own_notation(rule, context), Behavior.ALLOW, context, admin=admin) for rule in parsed)
    return tuple(dict.fromkeys(format_rule(rule) for rule in checked))


def _own_notation(rule: Rule, context: PolicyContext) -> str:
    """Return the text of a rule in our notation: the CLI writes absolute paths with two slashes, we with one."""
    if context.tools.find(rule.tool).has_path and rule.content is not None and rule.content.startswith("//"):
        return f"{rule.tool}({rule.content[1:]})"
    return format_rule(rule)


def check_rule(text: str, behavior: Behavior, context: PolicyContext, *, admin: bool = False) -> Rule:
    """Parse a rule that a session may remember. Raises BadRule or OutsideRoots, with the reason, if it may not."""
    rule = parse_rule(text, behavior)
    kind = context.tools.find(rule.tool)
    if kind.effect == "shell" and rule.content is not None:
        problem = problem_with(rule.content)
        if problem is not None:
            raise BadRule(text, problem)
    if behavior is not Behavior.ALLOW or admin:
        return rule
    if kind.effect == "shell" and rule.content in (None, ANYTHING):
        raise BadRule(text, "would allow every command: name one, or let an admin set it")
    if kind.has_path:
        _check_path_rule(text, rule, context)
    return rule


def check_or_narrow(text: str, behavior: Behavior, context: PolicyContext, *, admin: bool = False) -> Rule:
    """Like `check_rule`, for clients that know only the names of tools: `Write` means the session's folder."""
    try:
        return check_rule(text, behavior, context, admin=admin)
    except BadRule as error:
        if "instead" not in error.data:
            raise
        return check_rule(error.data["instead"], behavior, context, admin=admin)


def _check_path_rule(text: str, rule: Rule, context: PolicyContext) -> None:
    if rule.content is None:
        instead = f"{rule.tool}({HERE})"
        raise BadRule(text, f"would allow paths everywhere: name a folder ({instead}), or let an admin set it", instead)
    try:
        start = static_part(absolute(rule.content, context.cwd, context.home))
        within = context.inside(context.resolve_literal(start))
    except BadPath:
        raise BadRule(text, "has a path that cannot be resolved") from None
    if not within:
        raise OutsideRoots(start, context.roots)
