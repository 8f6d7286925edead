"""The permission policy: what happens with a tool call of an agent. Pure: text and paths in, a verdict out."""

from fairlead.sessions.policy.call import Fences, PolicyContext, ToolCall
from fairlead.sessions.policy.decide import decide
from fairlead.sessions.policy.modes import ModePolicy
from fairlead.sessions.policy.remember import RememberedRules, RememberResult, check_rule, remember
from fairlead.sessions.policy.shell import analyse
from fairlead.sessions.policy.suggest import suggest

__all__ = [
    "Fences",
    "ModePolicy",
    "PolicyContext",
    "RememberResult",
    "RememberedRules",
    "ToolCall",
    "analyse",
    "check_rule",
    "decide",
    "remember",
    "suggest",
]
