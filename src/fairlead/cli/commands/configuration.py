"""`fairlead config show`: print every setting, its value and its source."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fairlead.cli.options import Json, NoColor, environment, examples

settings = typer.Typer(name="config", help="The settings.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    settings.command("show", epilog=examples("fairlead config show", "fairlead config show --json | jq .name"))(show)
    app.add_typer(settings, epilog=examples("fairlead config show"))


def show(
    config: Annotated[
        Path | None, typer.Option(envvar="FAIRLEAD_CONFIG", metavar="FILE", help="Settings file, TOML.")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="As `serve` would get it.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Print each setting with its value and where it comes from. Secrets are never shown."""
    from fairlead import config as source
    from fairlead.cli.output import hint, json_line, table

    env = environment()
    loaded = source.load(env, {"data": data}, config)
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
    table(("SETTING", "VALUE", "SAID BY"), rows, no_color=no_color)
    hint(f"The settings file is {config or env.get('FAIRLEAD_CONFIG') or source.default_file(env)}")


def without_secrets(name: str, value: Any) -> Any:
    """Return the value without the secrets of MCP servers: environment values, arguments, and parts of a URL."""
    import msgspec

    if name != "mcp":
        return value
    servers = msgspec.to_builtins(value)
    for server in servers.values():
        if server.get("env"):
            server["env"] = dict.fromkeys(server["env"], "(hidden)")
        if server.get("url"):
            server["url"] = _host_only(server["url"])
        if server.get("args"):
            server["args"] = [f"({len(server['args'])} hidden)"]
    return servers


def _host_only(url: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}/(hidden)"


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
