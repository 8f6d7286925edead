"""`--yes-to RULE`: which requests a script allows by itself. The rule is read by the gateway's own policy."""

import os
from collections.abc import Callable

from fairlead.model.events import PermissionAsked
from fairlead.model.policy import Behavior, PermissionMode, parse_rule
from fairlead.sessions.policy import Fences, PolicyContext, ToolCall, decide


def accepting(texts: tuple[str, ...]) -> Callable[[PermissionAsked, str], str | None]:
    """The function that gives the rule under which a request in a folder is allowed, or None. BadRule."""
    rules = tuple(parse_rule(text, Behavior.ALLOW) for text in texts)

    def accepts(event: PermissionAsked, cwd: str) -> str | None:
        context = PolicyContext(
            cwd=cwd or "/",
            roots=(cwd or "/",),
            mode=PermissionMode.DEFAULT,
            rules=rules,
            fences=Fences(),
            resolve=os.path.realpath,
            home=os.environ.get("HOME"),
        )
        verdict = decide(ToolCall(event.tool, event.input), context)
        return verdict.rule if verdict.behavior is Behavior.ALLOW and verdict.by == "rule" else None

    return accepts
