"""`fairlead acp`: the command that an editor runs as its agent."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.client.errors import CommandFailed, Unreachable


@command(
    "fairlead acp",
    "fairlead acp --agent codex",
    "fairlead acp --url https://gateway.example.org:7433",
    json=False,
)
async def acp(
    context: CommandContext,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Agent of new sessions. Default: the gateway's default agent.")
    ] = None,
) -> None:
    """Connect an editor to the gateway, as an agent of the Agent Client Protocol (ACP).

    An editor starts this command and exchanges messages with it on stdin and stdout. The sessions are the gateway's:
    they go on when the editor is closed, and other clients see them and answer their requests."""
    from fairlead.cli.acp_pipe import run_pipe
    from fairlead.clients.acp import MESSAGE_BYTES, PATH

    path = f"{PATH}?{urlencode({'agent': agent})}" if agent else PATH
    try:
        await run_pipe(context.endpoint.find(), path, MESSAGE_BYTES)
    except Unreachable as error:
        # The first line has the reason and the remedy: editors show one line of an agent that could not start.
        raise CommandFailed(error.message.splitlines()[0]) from error
