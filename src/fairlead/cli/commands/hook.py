"""`fairlead hook`: help and the settings to copy. The agent's hooks run the module fairlead.cli.hook directly."""

import json
import sys
from typing import Annotated

import typer

from fairlead.cli.context import app, examples
from fairlead.client.errors import UsageError

ANNOUNCING_SECONDS = 10
"""Timeout of the session-start hook: if the gateway is slow, the agent starts without it."""


@app.command(epilog=examples("fairlead hook --print-settings", "fairlead hook session-start < input.json"))
def hook(
    event: Annotated[
        str | None, typer.Argument(metavar="EVENT", help="pre-tool-use, stop, session-start and so on.")
    ] = None,
    print_settings: Annotated[
        bool, typer.Option("--print-settings", help="Print the hook for Claude Code's settings file.")
    ] = False,
) -> None:
    """Answer a hook of Claude Code: stdin goes to the gateway, its answer to stdout.

    Claude Code runs this command in sessions that the gateway starts in a terminal. If your own settings file contains
    the printed settings, the gateway also shows the sessions that you start by hand, at once."""
    if print_settings == (event is not None):
        raise UsageError("Name an event, or use --print-settings.")
    if event is not None:
        from fairlead.cli.hook import run

        raise typer.Exit(run(event, sys.stdin.buffer, sys.stdout.buffer))
    from fairlead.agents.claude.tui.hook_server import command

    own = {"type": "command", "command": command("session-start"), "timeout": ANNOUNCING_SECONDS}
    typer.echo(json.dumps({"hooks": {"SessionStart": [{"hooks": [own]}]}}, indent=2))
