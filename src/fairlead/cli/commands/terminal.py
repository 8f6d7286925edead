"""`fairlead terminal`: attach your terminal to the terminal of a session's agent."""

from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.options import Data, SessionArg, Token, Url, examples, run_async


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("fairlead terminal 3f2a", "fairlead terminal 3f2a --view"))(terminal)


def terminal(
    session: SessionArg,
    view: Annotated[bool, typer.Option("--view", help="Look only: send no keys, and leave the size as it is.")] = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Bring the terminal that a session's agent lives on to your own, and type into it.

    Ctrl-] leaves; the agent goes on.
    """
    run_async(_terminal(EndpointOptions(url, token, data), session, view=view))


async def _terminal(wanted: EndpointOptions, name: str, *, view: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.tty_bridge import TtyBridge, attach

    async with Api(wanted.find) as api:
        session = await api.session(name)
        await attach(api.locate(), session, TtyBridge(), view=view)
