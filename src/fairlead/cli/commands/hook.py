"""`fairlead hook`: help and the settings to copy. The agent's hooks run the module fairlead.cli.hook directly."""

import sys
from typing import Annotated

import typer

from fairlead.cli.errors import UsageError
from fairlead.cli.options import examples

ANNOUNCING_SECONDS = 10
"""Timeout of the session-start hook: if the gateway is slow, the agent starts without it."""


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "fairlead hook --print-settings",
            "fairlead hook session-start < input.json",
        )
    )(hook)


def hook(
    event: Annotated[
        str | None, typer.Argument(metavar="EVENT", help="pre-tool-use, stop, session-start and so on.")
    ] = None,
    print_settings: Annotated[
        bool, typer.Option("--print-settings", help="Print what to put into Claude Code's settings.")
    ] = False,
) -> None:
    """Answer a hook of Claude Code: its input from stdin goes to the gateway, the gateway's answer to stdout.

    Claude Code runs this by itself, in sessions that the gateway starts in a terminal. With the printed settings in
    your own settings file, sessions that you start by hand are shown by the gateway at once.
    """
    if print_settings == (event is not None):
        raise UsageError("Name an event, or say --print-settings.")
    if event is None:
        typer.echo(_settings())
        return
    from fairlead.cli.hook import run

    raise typer.Exit(run(event, sys.stdin.buffer, sys.stdout.buffer))


def _settings() -> str:
    import json

    from fairlead.agents.claude.tui.hook_server import command

    own = {"type": "command", "command": command("session-start"), "timeout": ANNOUNCING_SECONDS}
    return json.dumps({"hooks": {"SessionStart": [{"hooks": [own]}]}}, indent=2)
