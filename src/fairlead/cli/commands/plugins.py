"""`fairlead plugins`: list plugins and their health, enable or disable one."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.context import CommandContext, app, command, examples, with_context
from fairlead.cli.options import Yes, confirm
from fairlead.cli.output import hint, print_text
from fairlead.cli.sanitize import visible
from fairlead.client.endpoint import segment
from fairlead.client.errors import CommandFailed, Missing

if TYPE_CHECKING:
    from fairlead.plugins.api import PluginView

Name = Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name (fairlead plugins).")]

plugins = typer.Typer(name="plugins", help="List, enable and disable plugins.", invoke_without_command=True)
app.add_typer(plugins, epilog=examples("fairlead plugins", "fairlead plugins enable board"))


def listing(context: CommandContext, invocation: typer.Context) -> None:
    """List the plugins of the folder, like `fairlead plugins ls`."""
    if invocation.invoked_subcommand is None:
        ls(context)


plugins.callback()(with_context(listing, color=True))


@command("fairlead plugins ls", "fairlead plugins ls --json", group=plugins, color=True)
def ls(context: CommandContext) -> None:
    """List the plugins of the folder: their state, port and health."""
    health = {None: "", True: "good", False: "no answer"}

    def row(one: "PluginView") -> list[str]:
        process = [str(one.port or ""), str(one.pid or ""), health[one.healthy], str(one.restarts)]
        return [one.name, one.state, *process, one.display_name]

    known = _known(context)
    context.print_table(("NAME", "STATE", "PORT", "PID", "HEALTH", "RESTARTS", "TITLE"), known, row)
    for one in known:
        if one.problem and not context.json:
            hint(f"{one.name}: {one.problem}")


@command("fairlead plugins enable board", group=plugins)
def enable(context: CommandContext, name: Name, yes: Yes = False) -> None:
    """Show what a plugin would run, then enable it. A changed plugin must be enabled again."""
    from fairlead.clients.native.plugins import EnableBody
    from fairlead.plugins.api import PluginView

    found = next((one for one in _known(context) if one.name == name), None)
    if found is None:
        raise Missing(f"No plugin has the name {name[:80]}. List them with: fairlead plugins")
    if not found.digest:
        raise CommandFailed(f"{name} cannot be enabled: {found.problem}")
    if not context.json:
        _show(found)
    if not yes:
        confirm(f"Enable {name}?")
    done = context.call("POST", f"/v1/plugins/{segment(name)}", PluginView, body=EnableBody(found.digest))
    context.print_result(done, f"{name} is enabled in its present form. Check its state with: fairlead plugins")


@command("fairlead plugins disable board", group=plugins)
def disable(context: CommandContext, name: Name) -> None:
    """Stop a plugin's server, and disable the plugin."""
    from fairlead.plugins.api import PluginView

    done = context.call("DELETE", f"/v1/plugins/{segment(name)}", PluginView)
    context.print_result(done, f"{name} is disabled.")


def _known(context: CommandContext) -> "tuple[PluginView, ...]":
    from fairlead.clients.native.plugins import PluginList

    return context.call("GET", "/v1/plugins", PluginList).plugins


def _show(view: "PluginView") -> None:
    print_text(visible(f"{view.display_name} {view.version}".rstrip()), style="bold")
    if view.description:
        print_text(f"  {visible(view.description)}")
    print_text(f"  folder: {visible(view.folder)}")
    print_text(f"  page:   {visible(view.entry)}")
    server = " ".join(view.server)
    print_text(f"  runs:   {visible(server) if server else 'nothing'}")
