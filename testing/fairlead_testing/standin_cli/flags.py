"""The command line of the stand-in: the flags with which the gateway starts the CLI.

A flag without a meaning for a scripted agent is read and ignored, so that the gateway can start the stand-in with
exactly the arguments that it would pass to the real program. Other flags are refused, as in the real CLI.
"""

import argparse
from collections.abc import Sequence

VERSION = "2.1.325"
MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
_IGNORED = ("--effort", "--input-format", "--output-format", "--permission-prompt-tool", "--setting-sources")


class Options(argparse.Namespace):
    model: str | None
    permission_mode: str
    include_partial_messages: bool
    session_id: str | None
    resume: str | None
    resume_session_at: str | None
    fork_session: bool
    max_turns: int | None
    max_budget_usd: float | None
    add_dir: list[str]


def parse_flags(argv: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser("stand-in CLI", add_help=False, allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version=f"{VERSION} (Fairlead stand-in)")
    parser.add_argument("-p", "--print", "--verbose", action="store_true", dest="ignored")
    parser.add_argument("--include-partial-messages", action="store_true")
    parser.add_argument("--fork-session", action="store_true")
    parser.add_argument("--permission-mode", choices=MODES, default="default")
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--max-budget-usd", type=float)
    parser.add_argument("--add-dir", nargs="+", action="extend", default=[])
    for flag in ("--model", "--session-id", "--resume", "--resume-session-at"):
        parser.add_argument(flag)
    for flag in _IGNORED:
        parser.add_argument(flag, dest="ignored")
    return parser.parse_args(argv, Options())
