"""`fairlead send`: send a message to a session, without waiting for the answer."""

from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.errors import UsageError
from fairlead.cli.options import SessionArg


@command(
    'fairlead send 3f2a "and now the docs"',
    'fairlead send 3f2a "stop at the first failure" --steer',
    'fairlead send 3f2a "once only" --id 7b0c9a52-2f6e-4c55-9d5e-0f6f0f9f1c11',
)
async def send(
    context: CommandContext,
    session: SessionArg,
    text: Annotated[str, typer.Argument(help="The message.")],
    steer: Annotated[bool, typer.Option("--steer", help="Send it into the running turn, not after it.")] = False,
    message: Annotated[
        str | None, typer.Option("--id", metavar="UUID", help="Id of the message: sent twice, it counts once.")
    ] = None,
) -> None:
    """Send a message; it waits for its turn while the agent works."""
    from fairlead.clients.native.schemas import PostMessage
    from fairlead.model.commands import Reply

    if not text.strip():
        raise UsageError("The message is empty.")
    async with context.api() as api:
        id = await api.session(session)
        body = PostMessage(text=text, id=message.lower() if message else None, steer=steer)
        reply = await api.post(f"/v1/sessions/{id}/messages", Reply, body)
    verb = "Sent before" if reply.repeated else "Sent"
    context.print_result(reply, f"{verb} as {reply.message}. Show the session with: fairlead attach {id}")
