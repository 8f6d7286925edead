"""`fairlead send`: send a message to a session, without waiting for the answer."""

from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import UsageError
from fairlead.cli.options import Data, Json, SessionArg, Token, Url, examples, run_async


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'fairlead send 3f2a "and now the docs"',
            'fairlead send 3f2a "stop at the first failure" --steer',
            'fairlead send 3f2a "once only" --id 7b0c9a52-2f6e-4c55-9d5e-0f6f0f9f1c11',
        )
    )(send)


def send(
    session: SessionArg,
    text: Annotated[str, typer.Argument(help="What to say.")],
    steer: Annotated[bool, typer.Option("--steer", help="Into the running turn, not after it.")] = False,
    message: Annotated[
        str | None, typer.Option("--id", metavar="UUID", help="Id of the message: sent twice, it counts once.")
    ] = None,
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Send a message; it waits for its turn while the agent works."""
    if not text.strip():
        raise UsageError("The message is empty.")
    run_async(_send(EndpointOptions(url, token, data), session, text, steer=steer, message=message, json=json))


async def _send(wanted: EndpointOptions, name: str, text: str, *, steer: bool, message: str | None, json: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line
    from fairlead.clients.native.schemas import PostMessage
    from fairlead.model.commands import Reply

    async with Api(wanted.find) as api:
        session = await api.session(name)
        body = PostMessage(text=text, id=message.lower() if message else None, steer=steer)
        reply = await api.post(f"/v1/sessions/{session}/messages", Reply, body)
        if json:
            json_line(reply)
        else:
            verb = "Sent before" if reply.repeated else "Sent"
            hint(f"{verb} as {reply.message}. See it with: fairlead attach {session}")
