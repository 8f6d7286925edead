"""The permission policy: the verdict on a tool call of an agent. Pure: text and paths in, a verdict out."""

from fairlead.sessions.permissions.policy.call import Fences, PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.decide import decide
from fairlead.sessions.permissions.policy.modes import ModePolicy
from fairlead.sessions.permissions.policy.remember import RememberedRules, RememberResult, check_rule, remember
from fairlead.sessions.permissions.policy.suggest import suggest
from fairlead.sessions.permissions.shell.parser import analyse

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
