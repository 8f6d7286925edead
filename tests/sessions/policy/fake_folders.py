"""A made-up context for verdicts: none of its paths exist, so no link leads elsewhere."""

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.agents.acp.tools import OWN_FILES as ACP_FILES
from fairlead.agents.claude.tools import OWN_FILES, TOOLS
from fairlead.model.policy import Behavior, PermissionMode, Rule, Verdict, parse_rule
from fairlead.sessions.permissions.policy.call import Fences, PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.decide import decide

DATA = "/home/me/.local/share/fairlead"
AGENT_FILES = OWN_FILES | ACP_FILES
FENCES = Fences((DATA,), (8765,), frozenset({"gate.example"}))


def rules(behavior: Behavior, texts: Sequence[str]) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, behavior) for text in texts)


def place(
    *,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    ask: Sequence[str] = (),
    mode: PermissionMode = PermissionMode.DEFAULT,
    cwd: str = "/srv/project",
    roots: tuple[str, ...] = ("/srv/project",),
    fences: Fences = FENCES,
    resolve: Callable[[str], str] = lambda path: path,
    home: str | None = "/home/me",
    entries: Callable[[str], Sequence[str]] = lambda folder: (),
) -> PolicyContext:
    """A context with these rules; the gateway's data lies in the home and its port is 8765."""
    given_rules = (*rules(Behavior.ALLOW, allow), *rules(Behavior.DENY, deny), *rules(Behavior.ASK, ask))
    return PolicyContext(cwd, roots, mode, given_rules, fences, resolve, home, entries, TOOLS, AGENT_FILES)


def judge(name: str, given: Any, **where: Any) -> Verdict:
    """The verdict on a tool call."""
    return decide(ToolCall(name, given), place(**where))


def judge_line(command: Any, **where: Any) -> Verdict:
    """The verdict on a shell line."""
    return judge("Bash", {"command": command}, **where)
