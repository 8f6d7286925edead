"""`fairlead plugins`: list plugins and their health, enable or disable one."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import CommandFailed, Missing
from fairlead.cli.options import Data, Json, NoColor, Token, Url, confirm, examples, run_async

if TYPE_CHECKING:
    from fairlead.plugins.api import PluginView

Name = Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name (fairlead plugins).")]

plugins = typer.Typer(name="plugins", help="List plugins, let them run, or stop them.", invoke_without_command=True)


def register(app: typer.Typer) -> None:
    plugins.callback()(listing)
    plugins.command("enable", epilog=examples("fairlead plugins enable board"))(enable)
    plugins.command("disable", epilog=examples("fairlead plugins disable board"))(disable)
    app.add_typer(plugins, epilog=examples("fairlead plugins", "fairlead plugins enable board"))


def listing(
    context: typer.Context,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """List the plugins of the folder: their state, port and health."""
    if context.invoked_subcommand is None:
        run_async(_list(EndpointOptions(url, token, data), json=json, no_color=no_color))


async def _list(wanted: EndpointOptions, *, json: bool, no_color: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import hint, json_line, table
    from fairlead.clients.native.plugins import PluginList

    async with Api(wanted.find) as api:
        known = (await api.get("/v1/plugins", PluginList)).plugins
    if json:
        for one in known:
            json_line(one)
        return
    rows = [
        [
            one.name,
            one.state,
            str(one.port or ""),
            str(one.pid or ""),
            _health(one),
            str(one.restarts),
            one.display_name,
        ]
        for one in known
    ]
    table(("NAME", "STATE", "PORT", "PID", "HEALTH", "RESTARTS", "TITLE"), rows, no_color=no_color)
    for one in known:
        if one.problem:
            hint(f"{one.name}: {one.problem}")


def enable(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Let a plugin run, after showing what that would be. One that has changed asks again."""
    run_async(_enable(EndpointOptions(url, token, data), name, yes=yes, json=json))


async def _enable(wanted: EndpointOptions, name: str, *, yes: bool, json: bool) -> None:
    from fairlead.cli.client import Api, segment
    from fairlead.cli.output import hint, json_line
    from fairlead.clients.native.plugins import EnableBody, PluginList
    from fairlead.plugins.api import PluginView

    async with Api(wanted.find) as api:
        known = {one.name: one for one in (await api.get("/v1/plugins", PluginList)).plugins}
        if name not in known:
            raise Missing(f"There is no plugin {name[:80]}. See which there are with: fairlead plugins")
        shown = known[name]
        if not shown.digest:
            raise CommandFailed(f"{name} cannot be enabled: {shown.problem}")
        if not json:
            _show(shown)
        if not yes:
            confirm(f"Enable {name}?")
        done = await api.post(f"/v1/plugins/{segment(name)}", PluginView, EnableBody(shown.digest))
        json_line(done) if json else hint(f"{name} is enabled as it is now. See how it does with: fairlead plugins")


def disable(name: Name, json: Json = False, url: Url = None, token: Token = None, data: Data = None) -> None:
    """End a plugin's server, and let it run no more."""
    run_async(_disable(EndpointOptions(url, token, data), name, json=json))


async def _disable(wanted: EndpointOptions, name: str, *, json: bool) -> None:
    from fairlead.cli.client import Api, segment
    from fairlead.cli.output import hint, json_line
    from fairlead.plugins.api import PluginView

    async with Api(wanted.find) as api:
        done = await api.call("DELETE", f"/v1/plugins/{segment(name)}", PluginView)
    json_line(done) if json else hint(f"{name} is disabled.")


def _show(view: "PluginView") -> None:
    from fairlead.cli.output import print_text
    from fairlead.cli.sanitize import visible

    print_text(visible(f"{view.display_name} {view.version}".rstrip()), style="bold")
    if view.description:
        print_text(f"  {visible(view.description)}")
    print_text(f"  folder: {visible(view.folder)}")
    print_text(f"  page:   {visible(view.entry)}")
    server = " ".join(view.server)
    print_text(f"  runs:   {visible(server) if server else 'nothing'}")


def _health(view: "PluginView") -> str:
    return {None: "", True: "good", False: "no answer"}[view.healthy]
