"""`fairlead login` and `fairlead token`: credentials for the gateway."""

from typing import Annotated

import typer

from fairlead.cli.context import CommandContext, app, command, examples
from fairlead.cli.endpoint import segment
from fairlead.cli.errors import Missing
from fairlead.cli.options import Scopes, checked_scopes
from fairlead.cli.output import ago, print_text

User = Annotated[str, typer.Option("--user", metavar="NAME", help="The credential's user (see fairlead user add).")]

tokens = typer.Typer(name="token", help="Create, list and revoke tokens and devices.", no_args_is_help=True)
app.add_typer(tokens, epilog=examples("fairlead token add ci --scope view,chat", "fairlead token ls"))


@command("fairlead login", 'fairlead login --name "phone" --scope view,approve')
def login(
    context: CommandContext,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the device in lists.")] = "",
    scope: Scopes = None,
    user: User = "",
) -> None:
    """Print a link that signs a browser in. It works once, within 10 minutes."""
    from fairlead.clients.native.schemas import LoginLink

    body = {"name": name, "user": user, **checked_scopes(scope)}
    link = context.call("POST", "/v1/login-codes", LoginLink, body=body)
    if not context.json:
        print_text(link.url)
    context.print_result(link, "Open it in a browser within 10 minutes; it works once.")


@command("fairlead token add ci --scope view,chat", "fairlead token add laptop --user ann", name="add", group=tokens)
def token_add(
    context: CommandContext,
    name: Annotated[str, typer.Argument(help="The purpose of the token.")],
    scope: Scopes = None,
    user: User = "",
) -> None:
    """Create a token and print it; it is not shown again. Without --scope it may view, chat and approve."""
    from fairlead.auth.api.credentials import NewCredential

    body = {"name": name, "user": user, **checked_scopes(scope)}
    made = context.call("POST", "/v1/tokens", NewCredential, body=body)
    if not context.json:
        print_text(made.secret)
    scopes = ", ".join(made.credential.scopes)
    context.print_result(made, f"Keep it: it is not shown again. Its id is {made.credential.id}; it may {scopes}.")


@command("fairlead token ls", "fairlead token ls --json", name="ls", group=tokens, color=True)
def token_ls(context: CommandContext) -> None:
    """List tokens and signed-in devices, without their secrets."""
    from fairlead.auth.api.credentials import CredentialView
    from fairlead.clients.native.schemas import Devices, TokenList

    def row(one: CredentialView) -> list[str]:
        times = [ago(one.created), ago(one.last_used)]
        state = "revoked" if one.revoked else "good"
        return [one.id, one.kind, one.name, one.user, ",".join(one.scopes), *times, state]

    tokens = context.call("GET", "/v1/tokens", TokenList).tokens
    devices = context.call("GET", "/v1/devices", Devices).devices
    head = ("ID", "KIND", "NAME", "USER", "SCOPES", "CREATED", "USED", "STATE")
    context.print_table(head, [*tokens, *devices], row)


@command("fairlead token revoke 5c1e9a", name="revoke", group=tokens)
def token_revoke(
    context: CommandContext,
    credential: Annotated[str, typer.Argument(metavar="ID", help="Id of a token or device (fairlead token ls).")],
) -> None:
    """Revoke a token or a device; its connections are closed."""
    from fairlead.auth.api.credentials import CredentialView

    for kind in ("tokens", "devices"):
        try:
            gone = context.call("DELETE", f"/v1/{kind}/{segment(credential)}", CredentialView)
        except Missing:
            continue
        context.print_result(gone, f"Revoked the {gone.kind} {gone.name or gone.id}.")
        return
    raise Missing(f"No token or device has the id {credential[:80]}. List them with: fairlead token ls")
