"""`fairlead config show`: print every setting, its value and its source."""

import os
from typing import Annotated, Any

import typer

from fairlead.cli.context import app, examples
from fairlead.cli.options import ConfigFile, Json, NoColor
from fairlead.cli.output import hint, json_line, table

settings = typer.Typer(name="config", help="The settings.", no_args_is_help=True)
app.add_typer(settings, epilog=examples("fairlead config show"))


@settings.command(epilog=examples("fairlead config show", "fairlead config show --json | jq .name"))
def show(
    config: ConfigFile = None,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="The option --data of serve.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Print each setting with its value and its source. Secrets are not printed."""
    from fairlead import config as source

    loaded = source.load(os.environ, {"data": data}, config)
    found = [
        {
            "name": name,
            "value": without_secrets(name, getattr(loaded.config, name)),
            "source": loaded.sources.get(name, "default"),
            "env": f"{source.ENV_PREFIX}{name.upper()}",
            "about": source.describe(name),
        }
        for name in source.names()
    ]
    if json:
        for item in found:
            json_line(item)
        return
    rows = [[item["name"], format_value(item["value"]), item["source"]] for item in found]
    table(("SETTING", "VALUE", "SOURCE"), rows, no_color=no_color)
    hint(f"The settings file is {loaded.file}")


def without_secrets(name: str, value: Any) -> Any:
    """Return the value without the secrets of MCP servers: environment values, arguments, and parts of a URL."""
    from urllib.parse import urlsplit

    import msgspec

    if name != "mcp":
        return value
    servers = msgspec.to_builtins(value)
    for server in servers.values():
        if server.get("env"):
            server["env"] = dict.fromkeys(server["env"], "(hidden)")
        if server.get("url"):
            parts = urlsplit(server["url"])
            server["url"] = f"{parts.scheme}://{parts.hostname or ''}/(hidden)"
        if server.get("args"):
            server["args"] = [f"({len(server['args'])} hidden)"]
    return servers


def format_value(value: Any) -> str:
    """Format a value roughly as in a settings file."""
    import msgspec

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ", ".join(str(item) for item in value) or "-"
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode() if value else "-"
    return str(value) if value != "" else "-"
