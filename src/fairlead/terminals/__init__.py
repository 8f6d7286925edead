"""Shared terminals: programs on PTYs that many watch at once. What a screen shows is computed here, so that one who
comes late, or lags, is drawn the whole of it."""

from fairlead.terminals.attachment import TerminalActions
from fairlead.terminals.launcher.programs import PROVIDERS, Provider
from fairlead.terminals.launcher.service import AGENT, ProgramLauncher
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells, shell_environment

__all__ = [
    "AGENT",
    "PROVIDERS",
    "ProgramLauncher",
    "Provider",
    "ShellSettings",
    "TerminalActions",
    "TerminalRegistry",
    "UserShells",
    "shell_environment",
]
