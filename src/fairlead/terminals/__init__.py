"""Shared terminals: programs on PTYs that many watch at once. What a screen shows is computed here, so that one who
comes late, or lags, is drawn the whole of it."""

from fairlead.terminals.joining import TerminalActions
from fairlead.terminals.registry import TerminalRegistry

__all__ = ["TerminalActions", "TerminalRegistry"]
