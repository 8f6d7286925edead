"""`fairlead trust`: show what a folder's own settings would do, and trust them."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import Missing, UsageError
from fairlead.cli.options import Data, Json, NoColor, Token, Url, absolute, confirm, examples, run_async

if TYPE_CHECKING:
    from fairlead.sessions.api.folders import FolderReport


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "fairlead trust ~/code/app",
            "fairlead trust --list",
            "fairlead trust ~/code/app --remove",
        )
    )(trust)


def trust(
    folder: Annotated[str | None, typer.Argument(metavar="DIR", help="The project's folder.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Which folders are trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust this folder no more.")] = False,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Trust a project's own settings, after showing its hooks, MCP servers, environment and allow rules.

    Until a folder is trusted, its sessions run with your settings only. A changed file asks again.
    """
    if show == (folder is not None):
        raise UsageError("Name a folder, or say --list.")
    run_async(_trust(EndpointOptions(url, token, data), folder, yes=yes, remove=remove, json=json, no_color=no_color))


async def _trust(
    wanted: EndpointOptions, folder: str | None, *, yes: bool, remove: bool, json: bool, no_color: bool
) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line, print_text
    from fairlead.clients.native.schemas import TrustBody, TrustList, UntrustedBody
    from fairlead.sessions.api.folders import FolderReport, TrustedFolder

    async with Api(wanted.find) as api:
        if folder is None:
            for known in (await api.get("/v1/trust", TrustList)).folders:
                json_line(known) if json else print_text(known.path)
            return
        path = absolute(folder) if api.local else folder
        if remove:
            gone = await api.call("DELETE", "/v1/trust", UntrustedBody, query={"path": path})
            if not gone.removed:
                raise Missing(f"{path} was not trusted. See which are with: fairlead trust --list")
            hint(f"{path} is trusted no more.")
            return
        report = await api.get("/v1/trust", FolderReport, path=path)
        if json:
            json_line(report)
        else:
            _show(report, no_color=no_color)
        if report.trusted:
            hint(f"{report.path} is trusted already.")
            return
        if not yes:
            confirm(f"Trust {report.path}?")
        done = await api.post("/v1/trust", TrustedFolder, TrustBody(path=path, digest=report.digest))
        hint(f"{done.path} is trusted as it is now.")


def _show(report: "FolderReport", *, no_color: bool) -> None:
    from fairlead.cli.output import print_text
    from fairlead.cli.sanitize import visible

    def part(title: str, lines: list[str]) -> None:
        print_text(f"{title}: {'none' if not lines else ''}".rstrip(), style="bold", no_color=no_color)
        for line in lines:
            print_text(f"  {visible(line)}", no_color=no_color)

    print_text(f"{report.path}", style="bold", no_color=no_color)
    part("Files", list(report.files))
    part("Hooks (commands that run by themselves)", [_flat(hook) for hook in report.hooks])
    part("MCP servers (programs that the agent starts)", [_flat(server) for server in report.mcp_servers])
    part("Environment", list(report.environment))
    part("Allow rules", list(report.permissions))
    if report.other:
        part("Other settings", list(report.other))


def _flat(value: object) -> str:
    return msgspec.json.encode(value).decode()
