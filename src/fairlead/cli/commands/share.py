"""`fairlead share`: share a session with other users, or stop sharing it."""

from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import UsageError
from fairlead.cli.options import Data, Json, SessionArg, Token, Url, examples, run_async


def register(app: typer.Typer) -> None:
    app.command(
        "share",
        epilog=examples(
            "fairlead share 3f2a ann", "fairlead share 3f2a --everybody", "fairlead share 3f2a ann --remove"
        ),
    )(share)


def share(
    session: SessionArg,
    user: Annotated[str, typer.Argument(help="The user to share it with.", show_default=False)] = "",
    everybody: Annotated[bool, typer.Option("--everybody", help="Share it with all users.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Share it no more.")] = False,
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Let another user, or everybody, see and steer a session of yours.

    A session belongs to the user who made it; others do not see it unless it is shared. Admins see all sessions.
    """
    if bool(user) is everybody:
        raise UsageError("Say with whom: a user, or --everybody.")
    run_async(_share(EndpointOptions(url, token, data), session, user, everybody=everybody, remove=remove, json=json))


async def _share(wanted: EndpointOptions, name: str, user: str, *, everybody: bool, remove: bool, json: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line
    from fairlead.clients.native.schemas import ShareBody
    from fairlead.model.commands import Reply

    async with Api(wanted.find) as api:
        session = await api.session(name)
        body = ShareBody(user=user, everybody=everybody, remove=remove)
        reply = await api.post(f"/v1/sessions/{session}/share", Reply, body)
    if json:
        json_line(reply)
        return
    hint(f"The session is {'not ' if remove else ''}shared with {'everybody' if everybody else user}.")
