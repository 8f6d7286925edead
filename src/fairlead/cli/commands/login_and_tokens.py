"""`fairlead login` and `fairlead token`: credentials for the gateway."""

from typing import Annotated

import typer

from fairlead.cli.commands import users
from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import Missing
from fairlead.cli.options import Data, Json, NoColor, Scopes, Token, Url, checked_scopes, examples, run_async

User = Annotated[str, typer.Option("--user", metavar="NAME", help="For this user (see fairlead user add).")]

tokens = typer.Typer(name="token", help="Make, list and revoke tokens and devices.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("fairlead login", 'fairlead login --name "phone" --scope view,approve'))(login)
    tokens.command(
        "add", epilog=examples("fairlead token add ci --scope view,chat", "fairlead token add laptop --user ann")
    )(token_add)
    tokens.command("ls", epilog=examples("fairlead token ls", "fairlead token ls --json"))(token_ls)
    tokens.command("revoke", epilog=examples("fairlead token revoke 5c1e9a"))(token_revoke)
    app.add_typer(tokens, epilog=examples("fairlead token add ci --scope view,chat", "fairlead token ls"))
    users.register(app)


def login(
    name: Annotated[str, typer.Option(metavar="NAME", help="What the device is called in lists.")] = "",
    scope: Scopes = None,
    user: User = "",
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Print a one-time link that signs a browser in. It is good for 10 minutes, and for one browser."""
    run_async(_login(EndpointOptions(url, token, data), name, checked_scopes(scope), user, json=json))


async def _login(wanted: EndpointOptions, name: str, scopes: tuple[str, ...], user: str, *, json: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line, print_text
    from fairlead.clients.native.schemas import LoginLink

    body = {"name": name, "user": user, **({"scopes": scopes} if scopes else {})}
    async with Api(wanted.find) as api:
        link = await api.post("/v1/login-codes", LoginLink, body)
    if json:
        json_line(link)
        return
    print_text(link.url)
    hint("Open it in a browser within 10 minutes; it works once.")


def token_add(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Scopes = None,
    user: User = "",
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Make a token and print it, this once. Without --scope it may view, chat and approve."""
    run_async(_token_add(EndpointOptions(url, token, data), name, checked_scopes(scope), user, json=json))


async def _token_add(wanted: EndpointOptions, name: str, scopes: tuple[str, ...], user: str, *, json: bool) -> None:
    from fairlead.auth.api.credentials import NewCredential
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line, print_text

    body = {"name": name, "user": user, **({"scopes": scopes} if scopes else {})}
    async with Api(wanted.find) as api:
        made = await api.post("/v1/tokens", NewCredential, body)
    if json:
        json_line(made)
        return
    print_text(made.secret)
    hint(f"Keep it: it is not shown again. Its id is {made.credential.id}; it may {', '.join(made.credential.scopes)}.")


def token_ls(
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """List tokens and the devices that signed in; never their secrets."""
    run_async(_token_ls(EndpointOptions(url, token, data), json=json, no_color=no_color))


async def _token_ls(wanted: EndpointOptions, *, json: bool, no_color: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import ago, json_line, table
    from fairlead.clients.native.schemas import Devices, TokenList

    async with Api(wanted.find) as api:
        known = (*(await api.get("/v1/tokens", TokenList)).tokens, *(await api.get("/v1/devices", Devices)).devices)
    if json:
        for one in known:
            json_line(one)
        return
    rows = [
        [
            one.id,
            one.kind,
            one.name,
            one.user,
            ",".join(one.scopes),
            ago(one.created),
            ago(one.last_used),
            "revoked" if one.revoked else "good",
        ]
        for one in known
    ]
    table(("ID", "KIND", "NAME", "USER", "SCOPES", "MADE", "USED", "STATE"), rows, no_color=no_color)


def token_revoke(
    credential: Annotated[str, typer.Argument(metavar="ID", help="Id of a token or device (fairlead token ls).")],
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Revoke a token or a device; its connections are closed."""
    run_async(_token_revoke(EndpointOptions(url, token, data), credential, json=json))


async def _token_revoke(wanted: EndpointOptions, credential: str, *, json: bool) -> None:
    from fairlead.auth.api.credentials import CredentialView
    from fairlead.cli.client import Api, segment
    from fairlead.cli.output import hint, json_line

    async with Api(wanted.find) as api:
        try:
            gone = await api.call("DELETE", f"/v1/tokens/{segment(credential)}", CredentialView)
        except Missing:
            try:
                gone = await api.call("DELETE", f"/v1/devices/{segment(credential)}", CredentialView)
            except Missing:
                raise Missing(f"There is no token or device {credential[:80]}. See: fairlead token ls") from None
    if json:
        json_line(gone)
    else:
        hint(f"Revoked the {gone.kind} {gone.name or gone.id}.")
