"""Suggestions for an "always allow" button: the narrowest rules for a call that are still useful. Pure.

Every suggestion is checked first: the rules together allow this call, and a session may have them.
"""

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.policy import Behavior, Rule, format_rule
from fairlead.sessions.permissions.policy.call import CallFacts, PolicyContext, ToolCall, facts_of
from fairlead.sessions.permissions.policy.remember import check_rule
from fairlead.sessions.permissions.policy.rules import find_allowing_rules
from fairlead.sessions.permissions.shell.line import ShellAnalysis, SimpleCommand
from fairlead.sessions.permissions.shell.program_options import reader_name


def suggest(call: ToolCall, context: PolicyContext) -> list[Rule]:
    """Return the rules that "always allow" would add for this call; [] when a person should be asked every time."""
    facts = facts_of(call, context)
    if facts.malformed is not None or facts.kind.effect == "question":
        return []
    choices = _shell_choices(facts.shell.analysis) if facts.shell is not None else _other_choices(call, facts)
    for contents in choices:
        rules = _usable([Rule(Behavior.ALLOW, call.name, content) for content in contents], call, facts, context)
        if rules:
            return rules
    return []


def _usable(rules: list[Rule], call: ToolCall, facts: CallFacts, context: PolicyContext) -> list[Rule]:
    try:
        if [check_rule(format_rule(rule), Behavior.ALLOW, context) for rule in rules] != rules:
            return []
    except FairleadError:
        return []
    trial = msgspec.structs.replace(context, rules=tuple(rules))
    return rules if find_allowing_rules(call, facts, trial)[0] is not None else []


def _shell_choices(analysis: ShellAnalysis) -> list[list[str | None]]:
    """Return the choices in order: one rule for each command of the line, then one for exactly this line."""
    choices: list[list[str | None]] = []
    outer = [command for command in analysis.commands if command.within is None]
    if outer and analysis.knowable:
        choices.append(list(dict.fromkeys(_command_content(command) for command in outer)))
    choices.append([analysis.raw.strip()])
    return choices


def _command_content(command: SimpleCommand) -> str:
    """Return a prefix for a program whose safe options are known, else exactly this command."""
    listed = reader_name([word.value for word in command.words])
    return f"{listed}:*" if listed is not None else command.raw


def _other_choices(call: ToolCall, facts: CallFacts) -> list[list[str | None]]:
    if facts.kind.has_path:
        path = facts.paths[0][0]
        folder = path if facts.kind.effect == "search" else path.rpartition("/")[0]
        # A wildcard in a real name would make the rule wider than the folder.
        return [] if "*" in folder or "?" in folder else [[f"{folder}/**"]]
    if facts.host is not None:
        return [[f"domain:{facts.host}"]]
    if facts.kind.argument and isinstance(call.input.get(facts.kind.argument), str):
        return [[call.input[facts.kind.argument]]]
    return [[None]]
