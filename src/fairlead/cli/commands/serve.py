"""`fairlead serve`: run the gateway."""

import asyncio
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import typer

from fairlead import config as settings
from fairlead.cli.context import app, examples
from fairlead.cli.errors import from_error
from fairlead.cli.options import ConfigFile, split_list
from fairlead.client.errors import UsageError
from fairlead.model.auth import OWNER
from fairlead.model.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.wiring import GatewayInfo

OPTIONS: Final = {
    "host": ("HOST", "Address to listen on (127.0.0.1)."),
    "port": ("PORT", "Port to listen on (7433); 0: a free one."),
    "data": ("DIR", "The data folder."),
    "store": ("URL", "Where sessions are stored: sqlite, or nats://HOST,HOST,HOST/CELL for several gateways (sqlite)."),
    "store_creds": ("FILE", "Credentials for the NATS servers."),
    "node": ("NAME", "The name of this gateway in a cell (the machine's)."),
    "cluster_key": ("FILE", "The key of the cell."),
    "shared": ("DIR", "Folder that is the same on every gateway that names it; may be repeated."),
    "agent": ("NAME", "The agent of new sessions: claude, demo or one of the setting agents (auto)."),
    "roots": ("DIR[,DIR]", "Folders that sessions may work in (your home)."),
    "claude": ("PATH", "The Claude Code executable (found in PATH)."),
    "claude_home": ("DIR", "HOME of the agents' processes (yours)."),
    "max_agents": ("N", "Maximum number of agent processes (by free memory)."),
    "on_restart": ("", "What to do with agents of an earlier gateway (follow)."),
    "keeper": ("", "Hold agents and terminals in a separate process, so that they survive a restart (on)."),
    "on_stop": ("", "What to do with agents and terminals when the gateway stops (detach)."),
    "sandbox": ("", "Hide the gateway from the programs that it runs, with bubblewrap (auto)."),
    "durability": ("", "What an acknowledged event survives (process)."),
    "migrate": ("", "What to do with a data folder of an earlier version (backup)."),
    "tls_cert": ("FILE", "Certificate: serve over TLS."),
    "tls_key": ("FILE", "Private key of the certificate."),
    "public_url": ("URL", "Address of the TLS proxy in front."),
    "trusted_proxy": ("ADDRESS", "Proxy whose X-Forwarded-* headers are used."),
    "insecure_lan": ("", "Listen on a network without TLS."),
    "door": ("NAME=PORT[,static=DIR]", "A port for one client protocol, with its front end; may be repeated."),
    "allow_bypass": ("", "Sessions may use the mode bypassPermissions."),
    "log_level": ("", "The lowest level that is logged (info)."),
    "log_format": ("", "The format of log lines (text)."),
}
"""The settings that are options: metavar and help. Their types are those of the settings."""


def _option(name: str) -> inspect.Parameter:
    metavar, about = OPTIONS[name]
    kind: Any = settings.type_of(name)
    word = name.replace("_", "-")
    # A setting that is on by default needs an option that turns it off.
    flag = f"--{word}/--no-{word}" if settings.default_of(name) is True else f"--{word}"
    if get_origin(kind) is Literal:
        metavar = "|".join(get_args(kind))
    elif get_origin(kind) in (tuple, dict):
        kind = list[str]
    option = typer.Option(None, flag, metavar=metavar or None, help=about)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


@app.command(
    epilog=examples(
        "fairlead serve",
        "fairlead serve --agent demo --port 8000",
        "fairlead serve --roots ~/code,~/notes --data ~/.fairlead",
        "fairlead serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
        "fairlead serve --store nats://n1,n2,n3/main --cluster-key ~/cell.key --node paris",
        "fairlead serve --door mylifedb=7434,static=~/mylifedb/dist",
    )
)
def serve(config: ConfigFile, **given: Any) -> None:
    """Start the gateway and run it until Ctrl-C.

    Every option is a setting that can also be in the settings file or the environment; see `fairlead config show`."""
    try:
        loaded = load_settings(given, config)
    except FairleadError as error:
        if "json" in (given["log_format"], os.environ.get("FAIRLEAD_LOG_FORMAT")):
            from fairlead.cli.serve_output import JsonOutput
            from fairlead.server.logging import configure_logging

            configure_logging("json")
            JsonOutput().fail(from_error(error))
        raise
    _serve(loaded.config, loaded.file)


def load_settings(given: Mapping[str, Any], config: Path | None) -> settings.Loaded:
    """Load the settings with the options of `serve`. Raises BadSetting, UsageError."""
    options = dict(given)
    for name in ("roots", "trusted_proxy", "shared"):
        options[name] = list(split_list(given[name])) or None
    options["door"] = parse_doors(given["door"] or ()) or None
    return settings.load(os.environ, options, config)


# Typer reads the options from the signature.
serve.__dict__["__signature__"] = inspect.Signature(
    [
        *map(_option, OPTIONS),
        inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigFile),
    ]
)


def parse_doors(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse `NAME=PORT[,static=DIR][,public_url=URL][,login=basic|token][,OPTION=VALUE]` into the form of the settings
    file."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        first, *options = text.split(",")
        name, _, port = first.partition("=")
        if not name or not port.isascii() or not port.isdigit() or len(port) > 5:
            raise UsageError(f"--door {text}: NAME=PORT is expected, such as mylifedb=7434.")
        if name in found:
            raise UsageError(f"--door {text}: {name} already has a door, on port {found[name]['port']}.")
        found[name] = {"port": int(port)}
        for option in options:
            key, _, value = option.partition("=")
            if not key or not value:
                raise UsageError(f"--door {text}: {option!r} is not an option; static=DIR, for example, is one.")
            place = found[name] if key in ("static", "public_url", "login") else found[name].setdefault("options", {})
            place[key] = value
    return found


def _serve(config: settings.Config, file: Path) -> None:
    from fairlead.cli.serve_output import JsonOutput, TextOutput, typed_program
    from fairlead.system.init_process import fork_if_first
    from fairlead.wiring import RunningGateway

    output = JsonOutput() if config.log_format == "json" else TextOutput(typed_program(config.data))
    output.starting()
    fork_if_first()
    # No relative path from an agent may refer to the folder that the gateway was started in.
    os.chdir("/")
    gateway = RunningGateway(config, dict(os.environ), file=file)

    async def announce_with_link(running: "GatewayInfo") -> None:
        made = await gateway.core.credentials.codes.create("browser", OWNER, ("admin",))
        output.serving(running, f"{running.url}/#login={made.code}")

    def announce(running: "GatewayInfo") -> None:
        if config.log_format != "json" and sys.stderr.isatty():
            # Only for a person: a link in a log could be used by others who read it.
            gateway.core.registry.tasks.spawn(announce_with_link(running))
        else:
            output.serving(running)

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(gateway.serve(announce))
    except OSError as error:
        output.fail(
            UsageError(f"{error.filename or config.data} cannot be used: {error.strerror}. See: fairlead doctor")
        )
    except FairleadError as error:
        output.fail(from_error(error))
    output.stopped(*gateway.operation.left)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
