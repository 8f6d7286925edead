"""`fairlead service`: run the gateway and its keeper as systemd user services."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairlead import config as settings
from fairlead.cli import systemd_units as units
from fairlead.cli.context import app, examples, run_async
from fairlead.cli.options import Json, NoColor
from fairlead.cli.output import hint, json_line, print_text, table
from fairlead.client.endpoint import EndpointOptions, read_server_file
from fairlead.client.errors import ClientError, CommandFailed, UsageError

if TYPE_CHECKING:
    from fairlead.cli.systemctl import Systemctl, UnitState
    from fairlead.sessions.api.operation import GatewayState

START_S: Final = 30.0
"""Time for the gateway to answer after its unit was started."""
_PROGRAM: Final = ("-P", "-m", "fairlead.cli")
"""-P: a module in the folder of the service must not be imported instead of ours."""

service = typer.Typer(name="service", help="The gateway as a service of systemd.", no_args_is_help=True)
app.add_typer(
    service,
    epilog=examples("fairlead service install -- --port 8000", "fairlead service status", "fairlead service uninstall"),
)


@service.command(
    epilog=examples(
        "fairlead service install",
        "fairlead service install -- --port 8000 --roots ~/code",
        "fairlead service install --dry-run",
    )
)
def install(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- OPTIONS", help="Options of `fairlead serve`.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the units.")] = False,
) -> None:
    """Install the gateway and its keeper as systemd user services, and start them.

    Options after -- are those of `fairlead serve`. The service also gets the FAIRLEAD_ variables of settings and the
    PATH of this shell. Install again to change the options: running turns go on."""
    given = list(arguments or ())
    config = _settings_of(given)
    texts = _texts(given, config)
    if dry_run:
        for name, text in texts.items():
            print_text(f"# {_folder() / name}\n{text}")
        return
    from fairlead.cli.systemctl import Systemctl

    systemctl = Systemctl()
    server = read_server_file(Path(config.data))
    if server is not None and server.pid != systemctl.state(units.GATEWAY).pid:
        raise CommandFailed(
            f"A gateway that is no service runs on {config.data} already (process {server.pid}). Stop it first: its "
            "agents go on. Use: fairlead stop"
        )
    _write(texts)
    systemctl.call("daemon-reload")
    systemctl.call("enable", units.GATEWAY)
    # It starts the keeper too, and never restarts one that runs.
    systemctl.call("restart", units.GATEWAY)
    _wait_started(systemctl, config.data)
    hint("Watch its log with: journalctl --user --follow --unit fairlead")
    hint("To run it also while you are not logged in: loginctl enable-linger")


def _settings_of(arguments: Sequence[str]) -> settings.Config:
    """Return the settings that `fairlead serve` has with these arguments. Raises what it raises for wrong ones."""
    from fairlead.cli.commands.serve import load_settings

    if any(not character.isprintable() for word in arguments for character in word):
        raise UsageError("An option of a service cannot have line breaks or control characters.")
    commands: Any = typer.main.get_command(app)
    given = commands.commands["serve"].make_context("fairlead serve", list(arguments)).params
    return load_settings(given, given.pop("config")).config


def _texts(arguments: Sequence[str], config: settings.Config) -> dict[str, str]:
    """Return the text of each unit, by its name."""
    program = (sys.executable, *_PROGRAM)
    # The environment or a file may name the folder as well; both units must have the same one.
    data = () if config.data in arguments else ("--data", config.data)
    command = [*program, "serve", *arguments, *data]
    gateway = units.gateway_unit(
        command, data=config.data, folder=os.getcwd(), environment=_environment(os.environ), keeper=config.keeper
    )
    if not config.keeper:
        return {units.GATEWAY: gateway}
    return {units.KEEPER: units.keeper_unit([*program, "keeper", "run", "--data", config.data]), units.GATEWAY: gateway}


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the service. systemd has a PATH without the folders where agents are installed."""
    names = [f"{settings.ENV_PREFIX}{name.upper()}" for name in settings.names()]
    found = {name: env[name] for name in ("PATH", "FAIRLEAD_CONFIG", *names) if env.get(name)}
    for name, value in found.items():
        if not value.isprintable():
            raise UsageError(f"{name} has line breaks or control characters: a service cannot get it as a variable.")
    return found


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "systemd" / "user"


def _write(texts: Mapping[str, str]) -> None:
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name in (units.KEEPER, units.GATEWAY):
        (folder / name).unlink(missing_ok=True)
    for name, text in texts.items():
        # Only for its owner: a variable of a setting may be secret.
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        hint(f"Wrote {folder / name}")


def _wait_started(systemctl: "Systemctl", data: str) -> None:
    """Wait until the gateway answers. Raises CommandFailed if it ends instead, or does not answer in time."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        state = systemctl.state(units.GATEWAY)
        server = read_server_file(Path(data))
        if server is not None and server.pid == state.pid:
            hint(f"The gateway serves at {server.url}")
            return
        if state.active.startswith(("failed", "inactive")):
            break
        time.sleep(0.1)
    raise CommandFailed("The gateway does not start. See: journalctl --user --unit fairlead")


@service.command(epilog=examples("fairlead service status", "fairlead service status --json"))
def status(json: Json = False, no_color: NoColor = False) -> None:
    """Show the two services, and whether the gateway answers. The exit code is 1 if it does not."""
    from fairlead.cli.systemctl import Systemctl

    systemctl = Systemctl()
    found = [systemctl.state(name) for name in (units.GATEWAY, units.KEEPER)]
    data = _installed_data()
    if json:
        for unit in found:
            json_line(unit)
    else:
        table(("UNIT", "STATE", "PROCESS", "STARTS"), [_row(unit) for unit in found], no_color=no_color)
    if not data:
        raise CommandFailed("The service is not installed. Install it with: fairlead service install")
    state = run_async(_state_of(EndpointOptions(data=data)))
    if json:
        json_line({"data": data, "gateway": state})
    else:
        agents = f"agents {state.agents}, terminals {state.terminals}, sessions at work {len(state.working)}"
        hint(f"The gateway on {data}: {state.state}, {agents}")


def _row(unit: "UnitState") -> list[str]:
    if not unit.installed:
        return [unit.unit, "not installed", "-", "-"]
    starts = "at login" if unit.enabled else "with the gateway" if unit.unit == units.KEEPER else "not by itself"
    return [unit.unit, unit.active, str(unit.pid or "-"), starts]


async def _state_of(endpoint: EndpointOptions) -> "GatewayState":
    from fairlead.cli.client import Api
    from fairlead.sessions.api.operation import GatewayState

    try:
        async with Api(endpoint.find) as api:
            return await api.get("/v1/gateway", GatewayState)
    except ClientError as error:
        raise CommandFailed(f"The gateway does not answer. {error.message}") from None


def _installed_data() -> str:
    """Return the data folder of the installed service; empty if it is not installed."""
    try:
        return units.data_of((_folder() / units.GATEWAY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""


@service.command(epilog=examples("fairlead service uninstall"))
def uninstall() -> None:
    """Stop the gateway with its agents and terminals, and remove the services. The data folder stays."""
    from fairlead.cli.own_gateway import end_gateway
    from fairlead.cli.systemctl import Systemctl

    systemctl = Systemctl()
    data = _installed_data()
    if not data:
        hint("The service is not installed.")
        return
    server = read_server_file(Path(data))
    if server is not None and server.pid == systemctl.state(units.GATEWAY).pid:
        run_async(end_gateway(EndpointOptions(data=data), agents=True))
    present = [name for name in (units.GATEWAY, units.KEEPER) if (_folder() / name).exists()]
    systemctl.call("disable", "--now", *present)
    for name in present:
        (_folder() / name).unlink()
        hint(f"Removed {_folder() / name}")
    systemctl.call("daemon-reload")
