"""`fairlead attach`: show a session's history, then its events live, with a line to type on."""

import sys
from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.options import Data, Json, NoColor, SessionArg, Token, Url, examples, run_async


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("fairlead attach 3f2a", "fairlead attach 3f2a --last 200"))(attach)


def attach(
    session: SessionArg,
    last: Annotated[
        int, typer.Option(min=0, max=100_000, metavar="N", help="So much of the history is shown first.")
    ] = 50,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Follow a session live; on a terminal, what you type is sent to it and what it asks is asked here.

    Ctrl-C interrupts a running turn, a second one (or the first, when nothing runs) leaves; Ctrl-D leaves too.
    """
    run_async(_attach(EndpointOptions(url, token, data), session, last, json=json, no_color=no_color))


async def _attach(wanted: EndpointOptions, name: str, last: int, *, json: bool, no_color: bool) -> None:
    from fairlead.cli.chat_loop import ChatLoop, RunOptions
    from fairlead.cli.client import Api, read_line
    from fairlead.cli.output import Printer, console, hint
    from fairlead.cli.render import EventRenderer
    from fairlead.model import events as ev

    async with Api(wanted.find) as api:
        session = await api.session(name)
        view = await api.view(session)
        terminal = not json and sys.stdin.isatty() and sys.stdout.isatty()
        manner = RunOptions(json=json, ask=terminal, chat=terminal, wait=True, cwd=view.summary.cwd)
        talk = ChatLoop(api, view, Printer(console(no_color=no_color)), EventRenderer(), manner)
        raws = await api.history(session, last)
        lines = [read_line(raw, view.log_id) for raw in raws]
        for line in lines:
            talk.show(line)
        shown = {getattr(line.event, "request", None) for line in lines}
        for waiting in view.pending:
            event = ev.decode(bytes(waiting.event))
            if getattr(event, "request", None) not in shown:
                talk.pending(event)
        if terminal:
            hint("— what you type is sent to the session; Ctrl-D leaves it")
        # From the last event shown, not from the head: the deltas of a block in progress are sent again.
        await talk.attach(lines[-1].seq if lines else view.head, view.log_id)
