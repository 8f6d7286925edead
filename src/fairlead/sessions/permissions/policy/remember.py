"""Rules that an "always allow" remembers: our own rules, for this session only, never the CLI's settings.

Updates come from the wire (a client's answer, or the CLI's own suggestions that a client sends back), so each is
checked: the destination is always the session, modes obey the mode policy, directories and path rules stay inside the
roots, and an allow rule for everything needs an admin. Refused parts are reported, the rest is kept.
"""

from typing import Any, Literal

import msgspec

from fairlead.model.errors import BadRequest, FairleadError, OutsideRoots
from fairlead.model.policy import BadRule, Behavior, PermissionMode, Rule, format_rule, parse_rule
from fairlead.sessions.permissions.policy.call import PolicyContext
from fairlead.sessions.permissions.policy.modes import ModePolicy
from fairlead.sessions.permissions.policy.paths import BadPath, absolute, static_part
from fairlead.sessions.permissions.policy.tools import PATH_TOOLS, SHELL_TOOL, canonical
from fairlead.sessions.permissions.shell.rule_matching import ANYTHING, problem_with

_MAX_UPDATES = 64  # the CLI suggests one or two; a person adds few
HERE = "./**"
"""Everything in the session's folder, except the files that a rule must name (protected.py)."""


class BadUpdate(BadRequest):
    """An invalid permission update."""

    code = "bad_update"


class RememberedRules(msgspec.Struct, frozen=True):
    """The remembered settings of a session: its own rules, the directories added to it, and its mode."""

    rules: tuple[Rule, ...] = ()
    directories: tuple[str, ...] = ()
    mode: PermissionMode = PermissionMode.DEFAULT


class RememberResult(msgspec.Struct, frozen=True):
    """The memory after some updates, and an error for each part that was refused."""

    memory: RememberedRules
    refused: tuple[FairleadError, ...] = ()


class _WireRule(msgspec.Struct, frozen=True):
    """A rule in a permission update of the wire."""

    toolName: str
    ruleContent: str | None = None

    @property
    def text(self) -> str:
        return self.toolName if self.ruleContent is None else f"{self.toolName}({self.ruleContent})"


class _Update(msgspec.Struct, frozen=True):
    """A PermissionUpdate of the wire. Its destination is not decoded: it is always the session."""

    type: Literal["addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"]
    rules: tuple[_WireRule, ...] = ()
    behavior: Behavior = Behavior.ALLOW
    directories: tuple[str, ...] = ()
    mode: str = ""


def remember(
    updates: Any, memory: RememberedRules, context: PolicyContext, modes: ModePolicy, *, admin: bool = False
) -> RememberResult:
    """Apply permission updates from the wire to the remembered rules of the session. Never raises."""
    if not isinstance(updates, list | tuple) or len(updates) > _MAX_UPDATES:
        problem = f"Permission updates must be a list of at most {_MAX_UPDATES}."
        return RememberResult(memory, (BadUpdate(problem),))
    refused: list[FairleadError] = []
    for raw in updates:
        try:
            update = msgspec.convert(raw, _Update)
        except msgspec.ValidationError as error:
            refused.append(BadUpdate(f"This is not a permission update: {error}."))
            continue
        memory = _apply(update, memory, context, modes, admin, refused)
    return RememberResult(memory, tuple(refused))


def _apply(
    update: _Update,
    memory: RememberedRules,
    context: PolicyContext,
    modes: ModePolicy,
    admin: bool,
    refused: list[FairleadError],
) -> RememberedRules:
    rules = memory.rules
    match update.type:
        case "setMode":
            try:
                return msgspec.structs.replace(memory, mode=modes.check(update.mode))
            except FairleadError as error:
                refused.append(error)
                return memory
        case "addDirectories":
            added = _directories(update.directories, context, refused)
            return msgspec.structs.replace(memory, directories=tuple(dict.fromkeys((*memory.directories, *added))))
        case "removeDirectories":
            gone = {*update.directories, *_directories(update.directories, context, [])}
            return msgspec.structs.replace(memory, directories=tuple(d for d in memory.directories if d not in gone))
        case "removeRules":
            texts = {_rule_text(wire) for wire in update.rules}
            kept = (r for r in rules if r.behavior is not update.behavior or format_rule(r) not in texts)
            return msgspec.structs.replace(memory, rules=tuple(kept))
        case "replaceRules":
            rules = tuple(rule for rule in rules if rule.behavior is not update.behavior)
        case "addRules":
            pass
    new = _rules(update, context, admin, refused)
    return msgspec.structs.replace(memory, rules=tuple(dict.fromkeys((*rules, *new))))


def _rules(update: _Update, context: PolicyContext, admin: bool, refused: list[FairleadError]) -> list[Rule]:
    out: list[Rule] = []
    for wire in update.rules:
        try:
            out.append(check_rule(_rule_text(wire), update.behavior, context, admin=admin))
        except FairleadError as error:
            refused.append(error)
    return out


def _rule_text(wire: _WireRule) -> str:
    """Return a rule of the wire in our notation: the CLI writes absolute paths with two slashes, we with one."""
    if canonical(wire.toolName) in PATH_TOOLS and (wire.ruleContent or "").startswith("//"):
        return f"{wire.toolName}({(wire.ruleContent or '')[1:]})"
    return wire.text


def check_rule(text: str, behavior: Behavior, context: PolicyContext, *, admin: bool = False) -> Rule:
    """Parse a rule that a session may remember. Raises BadRule or OutsideRoots, with the reason, if it may not."""
    rule = parse_rule(text, behavior)
    tool = canonical(rule.tool)
    if tool == SHELL_TOOL and rule.content is not None:
        problem = problem_with(rule.content)
        if problem is not None:
            raise BadRule(text, problem)
    if behavior is not Behavior.ALLOW or admin:
        return rule
    if tool == SHELL_TOOL and rule.content in (None, ANYTHING):
        raise BadRule(text, "would allow every command: name one, or let an admin set it")
    if tool in PATH_TOOLS:
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


def _directories(given: tuple[str, ...], context: PolicyContext, refused: list[FairleadError]) -> list[str]:
    """Return the real places of the directories that are inside the roots."""
    out: list[str] = []
    for directory in given:
        try:
            places = context.resolve_literal(directory)
        except BadPath:
            places = ()
        if places and context.inside(places):
            out.extend(places)
        else:
            refused.append(OutsideRoots(directory[:200], context.roots))
    return out
