"""`fairlead attach`: show a session's history, then its events live, with a line to type on."""

import sys
from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import SessionArg
from fairlead.cli.output import hint


@command("fairlead attach 3f2a", "fairlead attach 3f2a --last 200", color=True)
async def attach(
    context: CommandContext,
    session: SessionArg,
    last: Annotated[
        int, typer.Option(min=0, max=100_000, metavar="N", help="Number of past events to show first.")
    ] = 50,
) -> None:
    """Follow a session live. On a terminal, your input goes to the session, and you answer its requests here.

    Ctrl-C interrupts a running turn. A second Ctrl-C leaves, and so does the first one if no turn runs. Ctrl-D leaves.
    """
    from fairlead.cli.chat_loop import ChatLoop, RunOptions
    from fairlead.cli.client import read_line
    from fairlead.cli.render import EventRenderer
    from fairlead.model import events as ev

    async with context.api() as api:
        view = await api.view(await api.session(session))
        terminal = not context.json and sys.stdin.isatty() and sys.stdout.isatty()
        options = RunOptions(json=context.json, ask=terminal, chat=terminal, wait=True, cwd=view.summary.cwd)
        chat = ChatLoop(api, view, context.printer(), EventRenderer(), options)
        lines = [read_line(raw, view.log_id) for raw in await api.history(view.summary.session, last)]
        for line in lines:
            chat.show(line)
        shown = {getattr(line.event, "request", None) for line in lines}
        for waiting in view.pending:
            event = ev.decode(bytes(waiting.event))
            if getattr(event, "request", None) not in shown:
                chat.show_pending(event)
        if terminal:
            hint("— your input goes to the session; Ctrl-D leaves it")
        # From the last event shown, not from the head: the deltas of a block in progress are sent again.
        await chat.attach(lines[-1].seq if lines else view.head, view.log_id)
