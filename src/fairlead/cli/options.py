"""Option and argument types that several commands share, and helpers to read them."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairlead.client.errors import CommandFailed, UsageError

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="FAIRLEAD_URL",
        metavar="URL",
        help="Address of the gateway. Default: the gateway that serves the data folder.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="FAIRLEAD_TOKEN",
        metavar="TOKEN",
        help="Token for the gateway. Default: the token in the data folder.",
    ),
]
Data = Annotated[str | None, typer.Option("--data", envvar="FAIRLEAD_DATA", metavar="DIR", help="The data folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines on stdout, for scripts.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colours, like the variable NO_COLOR.")]

ConfigFile = Annotated[
    Path | None, typer.Option("--config", envvar="FAIRLEAD_CONFIG", metavar="FILE", help="Settings file, TOML.")
]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="SCOPE[,SCOPE]", help="view, chat, approve, terminal, metrics, admin."),
]


def complete_session(invoked: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Sessions for the shell's completion, newest first, with their titles. Without a gateway there are none."""
    from fairlead.cli.client import session_ids

    return session_ids(invoked.params, incomplete)


_SESSION = "A session's id, or at least 4 of its first characters; - is the session used last."
SessionArg = Annotated[str, typer.Argument(metavar="ID", help=_SESSION, autocompletion=complete_session)]
SessionArgs = Annotated[list[str], typer.Argument(metavar="ID", help=_SESSION, autocompletion=complete_session)]
SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="ID", help=_SESSION, autocompletion=complete_session)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def split_list(texts: list[str] | None) -> tuple[str, ...]:
    """Split the values of an option that may be repeated or separated by commas."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())


def checked_scopes(scopes: list[str] | None) -> dict[str, tuple[str, ...]]:
    """Return the field `scopes` of a request; without scopes the gateway uses its default."""
    from fairlead.model.auth import SCOPES

    wanted = split_list(scopes)
    for scope in wanted:
        if scope not in SCOPES:
            raise UsageError(f"{scope[:40]!r} is not a scope. The scopes are {', '.join(SCOPES)}.")
    return {"scopes": wanted} if wanted else {}


def confirm(question: str) -> None:
    """Ask a person to confirm. Raises UsageError without a terminal, CommandFailed on no."""
    if not sys.stdin.isatty():
        raise UsageError("Fairlead cannot ask without a terminal: check the output above, then use --yes.")
    if not typer.confirm(question, default=False, err=True):
        raise CommandFailed("Nothing was changed.")


def absolute(folder: str) -> str:
    """Return the absolute path of a local folder, as the gateway expects it."""
    return os.path.abspath(os.path.expanduser(folder))
