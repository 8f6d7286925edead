"""The command line of the demo agent: the flags with which the gateway starts the CLI.

Pure. A flag without a meaning for a scripted agent is read and ignored, so that the gateway can start the demo
agent with exactly the arguments that it would pass to the real program. Other flags are refused, as in the real CLI.
"""

import argparse
from collections.abc import Sequence
from typing import NoReturn

MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
_IGNORED = ("--effort", "--input-format", "--output-format", "--setting-sources")


class FlagError(Exception):
    """The command line is refused. Carries the message for stderr."""


class Options(argparse.Namespace):
    """The options that the demo agent was started with."""

    model: str | None
    mode: str
    asks_host: str | None
    """With `stdio`, permissions are requested over stdio; else calls that need an answer are refused."""
    partial: bool
    session_id: str | None
    resume: str | None
    resume_at: str | None
    fork: bool
    max_turns: int | None
    max_budget: float | None
    directories: list[str]
    version: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FlagError(f"error: {message}")


def parse_flags(argv: Sequence[str]) -> Options:
    """The options of a command line. Raises FlagError."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-p", "--print", "--verbose", action="store_true", dest="ignored")
    parser.add_argument("-v", "--version", action="store_true", dest="version")
    parser.add_argument("--include-partial-messages", action="store_true", dest="partial")
    parser.add_argument("--fork-session", action="store_true", dest="fork")
    parser.add_argument("--model")
    parser.add_argument("--permission-mode", choices=MODES, default="default", dest="mode")
    parser.add_argument("--permission-prompt-tool", choices=["stdio"], dest="asks_host")
    parser.add_argument("--session-id")
    parser.add_argument("--resume")
    parser.add_argument("--resume-session-at", dest="resume_at")
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--max-budget-usd", type=float, dest="max_budget")
    parser.add_argument("--add-dir", nargs="+", action="extend", default=[], dest="directories")
    for flag in _IGNORED:
        parser.add_argument(flag, dest="ignored")
    return parser.parse_args(argv, Options())
