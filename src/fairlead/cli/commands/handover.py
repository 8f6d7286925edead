"""`fairlead hand-over`: move a session to another link."""

from typing import Annotated, Literal

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import UsageError
from fairlead.cli.options import Data, Json, SessionArg, Token, Url, examples, run_async
from fairlead.model.commands import Link


def register(app: typer.Typer) -> None:
    app.command(
        "hand-over",
        epilog=examples(
            "fairlead hand-over 3f2a terminal",
            "fairlead hand-over 3f2a stdio --now",
            "fairlead hand-over 3f2a --withdraw",
        ),
    )(hand_over)


def hand_over(
    session: SessionArg,
    link: Annotated[
        Link | None, typer.Argument(metavar="LINK", help="stdio, terminal or dial-in.", show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Interrupt what runs, instead of waiting for its end.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Refuse while something runs, saying what.")] = False,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw a hand-over that waits.")] = False,
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Let a session go on over another link, with its history: in a terminal, or away from it.

    While a turn or background work runs, the hand-over waits for its end.
    """
    if (link is None) is not withdraw:
        raise UsageError("Say where to: stdio, terminal or dial-in; or --withdraw.")
    if withdraw and (now or no_wait):
        raise UsageError("--withdraw goes alone.")
    when: Literal["turn_end", "now"] = "now" if now else "turn_end"
    run_async(_hand_over(EndpointOptions(url, token, data), session, link, when, wait=not no_wait, json=json))


async def _hand_over(
    wanted: EndpointOptions, name: str, link: Link | None, when: Literal["turn_end", "now"], *, wait: bool, json: bool
) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line
    from fairlead.clients.native.schemas import HandOverSession
    from fairlead.model.commands import Reply

    async with Api(wanted.find) as api:
        session = await api.session(name)
        path = f"/v1/sessions/{session}/hand-over"
        if link is None:
            reply = await api.call("DELETE", path, Reply)
        else:
            reply = await api.post(path, Reply, HandOverSession(link=link, when=when, wait=wait))
        if json:
            json_line(reply)
        else:
            hint(_outcome_text(session, reply.data))


def _outcome_text(session: str, data: dict[str, object]) -> str:
    link, waits_for = data["link"], data.get("waits_for")
    if data["state"] == "moved":
        return f"The session goes on over {link}."
    if data["state"] == "there":
        return f"The session is on {link} and stays there."
    waiting = ", ".join(map(str, waits_for)) if isinstance(waits_for, list) else "what runs"
    return f"To {link} after {waiting}. Take it back with: fairlead hand-over {session} --withdraw"
