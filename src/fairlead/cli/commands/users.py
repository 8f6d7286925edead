"""`fairlead user`: the users of the gateway and their passwords.

Rule: a password is never an argument, which other users of the machine could see: it is typed at a prompt or read from
stdin.
"""

import sys
from typing import Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import UsageError
from fairlead.cli.options import Data, Json, NoColor, Scopes, Token, Url, checked_scopes, examples, run_async

Name = Annotated[str, typer.Argument(help="The user's name.")]

users = typer.Typer(name="user", help="The people who use this gateway.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    users.command("add", epilog=examples("fairlead user add ann", "fairlead user add ann --password"))(user_add)
    users.command("list", epilog=examples("fairlead user list", "fairlead user list --json"))(user_list)
    users.command("passwd", epilog=examples("fairlead user passwd ann", "fairlead user passwd ann < file"))(user_passwd)
    users.command("remove", epilog=examples("fairlead user remove ann"))(user_remove)
    users.command("invite", epilog=examples("fairlead user invite", "fairlead user invite --scope view"))(user_invite)
    app.add_typer(users, epilog=examples("fairlead user add ann --password", "fairlead user invite"))


def read_password(name: str) -> str:
    """Prompt for the password twice on a terminal, else read the first line of stdin."""
    if sys.stdin.isatty():
        asked: str = typer.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise UsageError("There is no password on stdin: give it there, as one line.")
    return line


def user_add(
    name: Name,
    password: Annotated[bool, typer.Option("--password", help="Ask for a password to sign in with.")] = False,
    scope: Scopes = None,
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Add a user. With --password they can sign in where names and passwords are asked for (claudecodeui's app).

    Without it, give them a link or a token: fairlead login --user NAME, fairlead token add --user NAME. Who signs in
    may view, chat and approve, or what --scope says: a terminal is the whole machine, and has to be named."""
    scopes = checked_scopes(scope)
    if scopes and not password:
        raise UsageError("--scope is for who signs in: say --password too.")
    secret = read_password(name) if password else ""
    run_async(_user_add(EndpointOptions(url, token, data), name, secret, scopes, json=json))


async def _user_add(wanted: EndpointOptions, name: str, password: str, scopes: tuple[str, ...], *, json: bool) -> None:
    from fairlead.auth.api.credentials import UserView
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line

    body = {"name": name, "password": password, **({"scopes": scopes} if scopes else {})}
    async with Api(wanted.find) as api:
        made = await api.post("/v1/users", UserView, body)
    if json:
        json_line(made)
    elif made.password:
        hint(f"Added {made.name}, who may {', '.join(made.scopes)}.")
    else:
        hint(f"Added {made.name}. A login link for them: fairlead login --user {made.name}")


def user_list(
    json: Json = False, no_color: NoColor = False, url: Url = None, token: Token = None, data: Data = None
) -> None:
    """List the users, and what those may who sign in with a password."""
    run_async(_user_list(EndpointOptions(url, token, data), json=json, no_color=no_color))


async def _user_list(wanted: EndpointOptions, *, json: bool, no_color: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import ago, json_line, table
    from fairlead.clients.native.schemas import UserList

    async with Api(wanted.find) as api:
        known = (await api.get("/v1/users", UserList)).users
    if json:
        for one in known:
            json_line(one)
        return
    rows = [[one.name, ago(one.created), "yes" if one.password else "no", ",".join(one.scopes)] for one in known]
    table(("NAME", "MADE", "PASSWORD", "SCOPES"), rows, no_color=no_color)


def user_passwd(name: Name, url: Url = None, token: Token = None, data: Data = None) -> None:
    """Set or change the password of a user. All sign-ins of that user end at once."""
    run_async(_user_passwd(EndpointOptions(url, token, data), name, read_password(name)))


async def _user_passwd(wanted: EndpointOptions, name: str, password: str) -> None:
    from fairlead.auth.api.credentials import UserView
    from fairlead.cli.client import Api, segment
    from fairlead.cli.output import hint

    async with Api(wanted.find) as api:
        await api.call("PUT", f"/v1/users/{segment(name)}/password", UserView, body={"password": password})
    hint(f"{name} has a new password, and is signed out everywhere.")


def user_remove(name: Name, url: Url = None, token: Token = None, data: Data = None) -> None:
    """Remove a user, with all tokens and devices of theirs; their connections are closed. Their sessions
    stay, and are the admins'."""
    run_async(_user_remove(EndpointOptions(url, token, data), name))


async def _user_remove(wanted: EndpointOptions, name: str) -> None:
    from fairlead.cli.client import Api, segment
    from fairlead.cli.output import hint
    from fairlead.clients.native.schemas import RemovedUser

    async with Api(wanted.find) as api:
        await api.call("DELETE", f"/v1/users/{segment(name)}", RemovedUser)
    hint(f"Removed {name}.")


def user_invite(
    scope: Scopes = None, json: Json = False, url: Url = None, token: Token = None, data: Data = None
) -> None:
    """Print a one-time link to create an account. It is valid for one day and for one user."""
    run_async(_user_invite(EndpointOptions(url, token, data), checked_scopes(scope), json=json))


async def _user_invite(wanted: EndpointOptions, scopes: tuple[str, ...], *, json: bool) -> None:
    from fairlead.auth.api.accounts import UserInvitation
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line, print_text

    async with Api(wanted.find) as api:
        link = await api.post("/v1/invitations", UserInvitation, {"scopes": scopes} if scopes else {})
    if json:
        json_line(link)
        return
    print_text(link.url)
    hint("Whoever opens it first chooses a name and a password. It is good for a day.")
