"""`fairlead agents`: list the agents that sessions can run, and add one to the settings file."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.context import app, examples
from fairlead.cli.options import ConfigFile, Json, NoColor
from fairlead.cli.output import hint, json_line, table
from fairlead.client.errors import ClientError, UsageError

if TYPE_CHECKING:
    from fairlead.config import Config

agents = typer.Typer(name="agents", help="The agents that sessions can run.", invoke_without_command=True)
app.add_typer(agents, epilog=examples("fairlead agents", "fairlead agents add gemini"))


@agents.callback()
def list_agents(
    invoked: typer.Context, config: ConfigFile = None, json: Json = False, no_color: NoColor = False
) -> None:
    """List the agents that sessions can run, like `fairlead agents ls`."""
    if invoked.invoked_subcommand is None:
        _print(config, json, no_color)


def _print(config: Path | None, json: bool, no_color: bool) -> None:
    from fairlead.config import load

    found = _listed(load(os.environ, {}, config).config)
    if json:
        for item in found:
            json_line(item)
        return
    rows = [[item["name"], item["state"], item["command"]] for item in found]
    table(("AGENT", "STATE", "COMMAND"), rows, no_color=no_color)
    if any(item["state"] == "installed" for item in found):
        hint("Add an installed one with: fairlead agents add NAME")


def _listed(config: "Config") -> list[dict[str, str]]:
    from fairlead.agents.acp.presets import PRESETS

    def item(name: str, state: str, command: str) -> dict[str, str]:
        return {"name": name, "state": state, "command": command}

    listed = [
        item("claude", "ready" if shutil.which(config.claude or "claude") else "missing", config.claude or "claude"),
        item("demo", "ready", "built in"),
    ]
    for name, given in config.agents.items():
        listed.append(item(name, "ready" if shutil.which(given.command[0]) else "missing", " ".join(given.command)))
    for name, preset in PRESETS.items():
        if name not in config.agents:
            there = shutil.which(preset.command[0]) is not None
            listed.append(
                item(name, "installed", " ".join(preset.command))
                if there
                else item(name, "not installed", preset.install)
            )
    return listed


@agents.command("ls", epilog=examples("fairlead agents ls", "fairlead agents ls --json"))
def ls(config: ConfigFile = None, json: Json = False, no_color: NoColor = False) -> None:
    """List the agents that sessions can run: those in the settings, and those that are installed and can be added."""
    _print(config, json, no_color)


@agents.command(epilog=examples("fairlead agents add gemini", "fairlead agents add opencode --config ./fairlead.toml"))
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of the agents that `fairlead agents` lists.")],
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Add an agent to the settings file. The gateway must be restarted to use it."""
    from fairlead.agents.acp.presets import PRESETS
    from fairlead.config import load
    from fairlead.system.user_folders import default_file

    preset = PRESETS.get(name)
    if preset is None:
        raise UsageError(
            f"There is no preset {name!r}; there are {', '.join(PRESETS)}. Others: see the setting agents."
        )
    named = os.environ.get("FAIRLEAD_CONFIG")
    file = config or (Path(named) if named else default_file(os.environ))
    if name in load(os.environ, {}, file if file.exists() else None).config.agents:
        raise ClientError(f"The agent {name} is in the settings already: {file}")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    before = file.read_text("utf-8") if file.exists() else ""
    gap = "\n" if before and not before.endswith("\n\n") else ""
    file.write_text(f"{before}{gap}[agents.{name}]\n{_lines(preset.command, preset.env)}", "utf-8")
    if json:
        json_line({"name": name, "file": str(file)})
    hint(f"Added to {file}: restart the gateway, then use it with: fairlead run --agent {name}")
    if preset.asks:
        hint(preset.asks)
    if shutil.which(preset.command[0]) is None:
        hint(f"It is not installed yet: {preset.install}")


def _lines(command: tuple[str, ...], env: tuple[str, ...]) -> str:
    """Two TOML arrays. The strings of the presets have no characters that TOML would need to escape."""
    arrays = {"command": command, "env": env}
    return "".join(f"{key} = {list(words)}\n".replace("'", '"') for key, words in arrays.items() if words)
