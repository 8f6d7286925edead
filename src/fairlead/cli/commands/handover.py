"""`fairlead hand-over`: move a session to another link."""

from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.errors import UsageError
from fairlead.cli.options import SessionArg
from fairlead.model.commands import Link


@command(
    "fairlead hand-over 3f2a terminal",
    "fairlead hand-over 3f2a stdio --now",
    "fairlead hand-over 3f2a --withdraw",
    name="hand-over",
)
async def hand_over(
    context: CommandContext,
    session: SessionArg,
    link: Annotated[
        Link | None, typer.Argument(metavar="LINK", help="stdio, terminal or dial-in.", show_default=False)
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Interrupt the running turn; do not wait for its end.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Fail if something runs, and name it.")] = False,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw a hand-over that waits.")] = False,
) -> None:
    """Continue a session over another link, with its history: in a terminal, or away from it.

    While a turn or background work runs, the hand-over waits for its end.
    """
    from fairlead.clients.native.schemas import HandOverSession
    from fairlead.model.commands import Reply

    if (link is None) is not withdraw:
        raise UsageError("Name the link (stdio, terminal or dial-in), or use --withdraw.")
    if withdraw and (now or no_wait):
        raise UsageError("--withdraw cannot be combined with --now or --no-wait.")
    async with context.api() as api:
        id = await api.session(session)
        path = f"/v1/sessions/{id}/hand-over"
        if link is None:
            reply = await api.call("DELETE", path, Reply)
        else:
            body = HandOverSession(link=link, when="now" if now else "turn_end", wait=not no_wait)
            reply = await api.post(path, Reply, body)
    context.print_result(reply, _outcome_text(id, reply.data))


def _outcome_text(session: str, data: dict[str, object]) -> str:
    link, waits_for = data["link"], data.get("waits_for")
    if data["state"] == "moved":
        return f"The session continues over {link}."
    if data["state"] == "there":
        return f"The session is on {link} and stays there."
    waiting = ", ".join(map(str, waits_for)) if isinstance(waits_for, list) else "the running work"
    return f"To {link} after {waiting}. Withdraw it with: fairlead hand-over {session} --withdraw"
