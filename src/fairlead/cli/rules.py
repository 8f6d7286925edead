"""Permission rules in the client, evaluated by the gateway's own policy: `--yes-to RULE`, and the offer of "always"."""

import os
from collections.abc import Callable

from fairlead.agents.acp.tools import OWN_FILES as ACP_FILES
from fairlead.agents.claude.tools import OWN_FILES, TOOLS
from fairlead.model.events import Event, PermissionRequested
from fairlead.model.policy import Behavior, PermissionMode, Rule, format_rule, parse_rule
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.call import Fences, PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.decide import decide
from fairlead.sessions.permissions.policy.suggest import suggest


def accepting(texts: tuple[str, ...]) -> Callable[[PermissionRequested, str], bool]:
    """Return a function that checks whether these rules cover a request in a folder. Raises BadRule."""
    rules = tuple(parse_rule(text, Behavior.ALLOW) for text in texts)

    def accepts(event: PermissionRequested, cwd: str) -> bool:
        verdict = decide(ToolCall(event.tool, event.input), _context(cwd, rules))
        return event.certain and verdict.behavior is Behavior.ALLOW and verdict.by == "rule"

    return accepts


def always(event: Event, cwd: str) -> tuple[str, ...]:
    """Return the rules that an "always" would remember: the narrowest useful ones, else the agent's suggestions."""
    if not isinstance(event, PermissionRequested):
        return ()
    found = suggest(ToolCall(event.tool, event.input), _context(cwd, ()))
    return tuple(format_rule(rule) for rule in found) or event.suggestions


def _context(cwd: str, rules: tuple[Rule, ...]) -> PolicyContext:
    return PolicyContext(
        cwd=cwd or "/",
        roots=(cwd or "/",),
        mode=PermissionMode.DEFAULT,
        rules=rules,
        fences=Fences(),
        resolve=disk.resolve,
        home=os.environ.get("HOME"),
        entries=disk.entries,
        tools=TOOLS,
        agent_files=OWN_FILES | ACP_FILES,
    )
