"""`fairlead login`, `fairlead token` and `fairlead user`: the credentials and the users of the gateway.

Rule: a password is never an argument, which other users of the machine could see: it is typed at a prompt or read from
stdin.
"""

import sys
from typing import Annotated, Any

import typer

from fairlead.cli.context import CommandContext, app, command, examples
from fairlead.cli.options import Scopes, checked_scopes
from fairlead.cli.output import ago
from fairlead.client.endpoint import segment
from fairlead.client.errors import Missing, UsageError

User = Annotated[str, typer.Option("--user", metavar="NAME", help="The credential's user (see fairlead user add).")]
Name = Annotated[str, typer.Argument(help="The user's name.")]

tokens = typer.Typer(name="token", help="Create, list and revoke tokens and devices.", no_args_is_help=True)
app.add_typer(tokens, epilog=examples("fairlead token add ci --scope view,chat", "fairlead token ls"))
users = typer.Typer(name="user", help="The users of this gateway.", no_args_is_help=True)
app.add_typer(users, epilog=examples("fairlead user add ann --password", "fairlead user invite"))


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
    context.print_result(link, "Open it in a browser within 10 minutes; it works once.", result=link.url)


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
    scopes = ", ".join(made.credential.scopes)
    text = f"Keep it: it is not shown again. Its id is {made.credential.id}; it may {scopes}."
    context.print_result(made, text, result=made.secret)


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


@command("fairlead token revoke 5c1e9a", name="revoke", group=tokens, aliases=("rm",))
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


def read_password(name: str) -> str:
    """Prompt for the password twice on a terminal, else read the first line of stdin."""
    if sys.stdin.isatty():
        asked: str = typer.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise UsageError("The password is missing: write it to stdin, as one line.")
    return line


@command("fairlead user add ann", "fairlead user add ann --password", name="add", group=users)
def user_add(
    context: CommandContext,
    name: Name,
    password: Annotated[bool, typer.Option("--password", help="Ask for a password to sign in with.")] = False,
    scope: Scopes = None,
) -> None:
    """Add a user. With --password the user can sign in where a name and a password are needed (claudecodeui's app).

    Without it, create a link or a token for the user: fairlead login --user NAME, fairlead token add --user NAME. A
    user who signs in with a password may view, chat and approve, or has the scopes of --scope. The scope terminal gives
    access to the whole machine, so it must be named."""
    from fairlead.auth.api.credentials import UserView

    scopes = checked_scopes(scope)
    if scopes and not password:
        raise UsageError("--scope needs --password: the scopes apply to a sign-in.")
    secret = read_password(name) if password else ""
    made = context.call("POST", "/v1/users", UserView, body={"name": name, "password": secret, **scopes})
    if made.password:
        text = f"Added {made.name}, who may {', '.join(made.scopes)}."
    else:
        text = f"Added {made.name}. Create a login link with: fairlead login --user {made.name}"
    context.print_result(made, text)


@command("fairlead user ls", "fairlead user ls --json", name="ls", group=users, aliases=("list",), color=True)
def user_ls(context: CommandContext) -> None:
    """List the users, and the scopes of those who sign in with a password."""
    from fairlead.clients.native.schemas import UserList

    context.print_table(
        ("NAME", "CREATED", "PASSWORD", "SCOPES"),
        context.call("GET", "/v1/users", UserList).users,
        lambda one: [one.name, ago(one.created), "yes" if one.password else "no", ",".join(one.scopes)],
    )


@command("fairlead user passwd ann", "fairlead user passwd ann < file", name="passwd", group=users)
def user_passwd(context: CommandContext, name: Name) -> None:
    """Set or change the password of a user. All sign-ins of that user end at once."""
    body = {"password": read_password(name)}
    done = context.call("PUT", f"/v1/users/{segment(name)}/password", dict[str, Any], body=body)
    context.print_result(done, f"{name} has a new password, and is signed out everywhere.")


@command("fairlead user rm ann", name="rm", group=users, aliases=("remove",))
def user_rm(context: CommandContext, name: Name) -> None:
    """Remove a user with all tokens and devices, and close their connections. The user's sessions stay; admins see
    them."""
    gone = context.call("DELETE", f"/v1/users/{segment(name)}", dict[str, Any])
    context.print_result(gone, f"Removed {name}.")


@command("fairlead user invite", "fairlead user invite --scope view", name="invite", group=users)
def user_invite(context: CommandContext, scope: Scopes = None) -> None:
    """Print a one-time link to create an account. It is valid for one day and for one user."""
    from fairlead.auth.api.credentials import UserInvitation

    link = context.call("POST", "/v1/invitations", UserInvitation, body=checked_scopes(scope))
    text = "The first person who opens it chooses a name and a password. It is valid for one day."
    context.print_result(link, text, result=link.url)
