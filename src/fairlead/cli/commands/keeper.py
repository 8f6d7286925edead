"""`fairlead keeper run`: hold agents and terminals for the gateways of a data folder, as a service."""

import os

import typer

from fairlead.cli.context import CommandContext, app, command, examples
from fairlead.cli.output import hint

keeper = typer.Typer(name="keeper", help="The process that holds agents and terminals.", no_args_is_help=True)
app.add_typer(keeper, epilog=examples("fairlead keeper run --data ~/.fairlead"))


@command("fairlead keeper run", "fairlead keeper run --data ~/.fairlead", group=keeper, json=False, gateway=False)
def run(context: CommandContext) -> None:
    """Hold the agents and terminals of the gateways of a data folder, until it is stopped.

    A gateway starts a keeper by itself. Run one as a separate service or container where the end of the gateway's
    service or container would be the end of all processes in it. Its log is keeper.log in the data folder."""
    from fairlead.keeper.client import keeper_command
    from fairlead.system.init_process import fork_if_first

    folder = context.endpoint.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    hint(f"The keeper of {folder} runs until it is stopped.")
    fork_if_first()
    words = keeper_command(folder, foreground=True)
    # Agents run under the same user and can read its variables: it gets none but that of systemd.
    os.execve(words[0], words, {name: os.environ[name] for name in ("NOTIFY_SOCKET",) if name in os.environ})
