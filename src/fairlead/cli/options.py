"""Options that several commands share."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer

from fairlead.cli.errors import CommandFailed, Interrupted, UsageError

T = TypeVar("T")
_GATEWAY = "Gateway"

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="FAIRLEAD_URL",
        metavar="URL",
        help="Address of the gateway. Without it: the one that serves the data folder.",
        rich_help_panel=_GATEWAY,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="FAIRLEAD_TOKEN",
        metavar="TOKEN",
        help="Token for the gateway. Without it: the one kept in the data folder.",
        rich_help_panel=_GATEWAY,
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", envvar="FAIRLEAD_DATA", metavar="DIR", help="The data folder.", rich_help_panel=_GATEWAY),
]
Scopes = Annotated[
    list[str] | None, typer.Option("--scope", metavar="SCOPE[,SCOPE]", help="view, chat, approve, terminal, admin.")
]
Json = Annotated[bool, typer.Option("--json", help="Plain JSON lines on stdout, for scripts.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours; the variable NO_COLOR says the same.")]
SessionArg = Annotated[str, typer.Argument(metavar="ID", help="A session's id, or at least 4 of its first characters.")]


def listed(texts: list[str] | None) -> tuple[str, ...]:
    """Split the values of an option that may be repeated or separated by commas."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())


def checked_scopes(scopes: list[str] | None) -> tuple[str, ...]:
    from fairlead.model.auth import SCOPES

    wanted = listed(scopes)
    for scope in wanted:
        if scope not in SCOPES:
            raise UsageError(f"There is no scope {scope[:40]!r}: {', '.join(SCOPES)}.")
    return wanted


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine; Ctrl-C ends it as an interruption."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted() from None


def confirm(question: str) -> None:
    """Ask a person to confirm. Raises UsageError without a terminal, CommandFailed on no."""
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask on: look at what is shown, then say --yes.")
    if not typer.confirm(question, default=False, err=True):
        raise CommandFailed("Nothing was changed.")


def examples(*lines: str) -> str:
    """Return a command's epilog with examples. Its first character keeps Typer from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def absolute(folder: str) -> str:
    """Return the absolute path of a local folder, as the gateway expects it."""
    return os.path.abspath(os.path.expanduser(folder))


def environment() -> dict[str, str]:
    return dict(os.environ)
