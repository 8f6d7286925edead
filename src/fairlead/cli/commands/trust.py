"""`fairlead trust`: show what a folder's own settings would do, and trust them."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.options import Yes, absolute, confirm
from fairlead.cli.output import hint, json_line, print_text
from fairlead.cli.sanitize import visible
from fairlead.client.errors import Missing, UsageError

if TYPE_CHECKING:
    from fairlead.sessions.api.folders import FolderReport


@command("fairlead trust ~/code/app", "fairlead trust --list", "fairlead trust ~/code/app --remove", color=True)
async def trust(
    context: CommandContext,
    folder: Annotated[str | None, typer.Argument(metavar="DIR", help="The project's folder.")] = None,
    yes: Yes = False,
    show: Annotated[bool, typer.Option("--list", help="List the trusted folders.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting this folder.")] = False,
) -> None:
    """Show what a project's own settings would do, then trust them.

    The command shows the hooks, MCP servers, environment and allow rules. Sessions in a folder that is not trusted run
    with your settings only. Fairlead asks again if a file changes."""
    from fairlead.clients.native.schemas import TrustBody, TrustList, UntrustedBody
    from fairlead.sessions.api.folders import FolderReport, TrustedFolder

    if show == (folder is not None):
        raise UsageError("Name a folder, or use --list.")
    async with context.api() as api:
        if folder is None:
            for known in (await api.get("/v1/trust", TrustList)).folders:
                json_line(known) if context.json else print_text(known.path)
            return
        path = absolute(folder) if api.local else folder
        if remove:
            gone = await api.call("DELETE", "/v1/trust", UntrustedBody, query={"path": path})
            if not gone.removed:
                raise Missing(f"{path} was not trusted. List the trusted folders with: fairlead trust --list")
            hint(f"{path} is not trusted any more.")
            return
        report = await api.get("/v1/trust", FolderReport, path=path)
        if context.json:
            json_line(report)
        else:
            _show(report, context.no_color)
        if report.trusted:
            hint(f"{report.path} is already trusted.")
            return
        if not yes:
            confirm(f"Trust {report.path}?")
        done = await api.post("/v1/trust", TrustedFolder, TrustBody(path=path, digest=report.digest))
        hint(f"{done.path} is trusted in its present form.")


def _show(report: "FolderReport", no_color: bool) -> None:
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
