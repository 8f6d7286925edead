"""`fairlead mcp`: the gateway as an MCP server on stdin and stdout, for agents that start such servers."""

import os
import sys
from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import split_list
from fairlead.client.errors import UsageError

DENIED = (
    "The agents of this gateway may not do this with other sessions: the setting agent_access of the gateway allows it "
    "(view, or send)."
)


@command("fairlead mcp", "fairlead mcp --allow send", "claude mcp add fairlead -- fairlead mcp", json=False)
async def mcp(
    context: CommandContext,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="WHAT", help="send: also start sessions and send messages."),
    ] = None,
) -> None:
    """Serve the sessions to an agent over MCP, on stdin and stdout.

    The agent can list, search and read sessions. With --allow send it can also start sessions and send messages, which
    are marked as an agent's. It can never answer permissions."""
    allowed = split_list(allow)
    for name in allowed:
        if name != "send":
            raise UsageError(f"--allow {name[:40]!r} does not exist. There is only: --allow send")
    from fairlead.cli.mcp_client import McpClient
    from fairlead.cli.mcp_pipe import McpPipe, lines_of
    from fairlead.cli.session_process import session_endpoint

    # Inside a session of the gateway its own token comes before all others, so that the gateway knows the session.
    own = session_endpoint(os.environ)

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    async with McpClient((lambda: own) if own is not None else context.endpoint.find, send="send" in allowed) as client:
        await McpPipe(client.post, write, DENIED if own is not None else "").run(lines_of(sys.stdin.buffer))
