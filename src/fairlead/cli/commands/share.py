"""`fairlead share`: share a session with other users, or stop sharing it."""

from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.errors import UsageError
from fairlead.cli.options import SessionArg


@command("fairlead share 3f2a ann", "fairlead share 3f2a --everybody", "fairlead share 3f2a ann --remove")
async def share(
    context: CommandContext,
    session: SessionArg,
    user: Annotated[str, typer.Argument(help="The user to share it with.", show_default=False)] = "",
    everybody: Annotated[bool, typer.Option("--everybody", help="Share it with all users.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Stop sharing it.")] = False,
) -> None:
    """Let another user, or all users, see and steer one of your sessions.

    A session belongs to the user who created it. Other users do not see it unless it is shared; admins see all.
    """
    from fairlead.clients.native.schemas import ShareBody
    from fairlead.model.commands import Reply

    if bool(user) is everybody:
        raise UsageError("Name a user, or use --everybody.")
    async with context.api() as api:
        path = f"/v1/sessions/{await api.session(session)}/share"
        reply = await api.post(path, Reply, ShareBody(user=user, everybody=everybody, remove=remove))
    shared = f"The session is {'not ' if remove else ''}shared with {'everybody' if everybody else user}."
    context.print_result(reply, shared)
