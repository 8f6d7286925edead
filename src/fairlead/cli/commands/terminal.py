"""`fairlead terminal`: attach your terminal to the terminal of a session's agent."""

from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import SessionArg


@command("fairlead terminal 3f2a", "fairlead terminal 3f2a --view", json=False)
async def terminal(
    context: CommandContext,
    session: SessionArg,
    view: Annotated[bool, typer.Option("--view", help="Only watch: send no keys, and do not change the size.")] = False,
) -> None:
    """Show the terminal of a session's agent in your own terminal, and type into it.

    Ctrl-] leaves; the agent continues.
    """
    from fairlead.cli.tty_bridge import TtyBridge, attach

    async with context.api() as api:
        await attach(api.locate(), await api.session(session), TtyBridge(), view=view)
