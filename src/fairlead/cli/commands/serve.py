"""`fairlead serve`: run the gateway."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairlead.cli.errors import UsageError
from fairlead.cli.options import environment, examples, listed

if TYPE_CHECKING:
    from fairlead.config import Config
    from fairlead.wiring import DoorInfo, GatewayInfo

Text = str | None

HIDDEN = "on: what runs here sees neither the data folder, nor the settings, nor the gateway's processes"


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "fairlead serve",
            "fairlead serve --agent demo --port 8000",
            "fairlead serve --roots ~/code,~/notes --data ~/.fairlead",
            "fairlead serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
            "fairlead serve --door mylifedb=7434,static=~/mylifedb/dist",
        )
    )(serve)


def serve(
    host: Annotated[Text, typer.Option(metavar="HOST", help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="Port to listen on (7433); 0: a free one.")] = None,
    data: Annotated[Text, typer.Option(metavar="DIR", help="The data folder.")] = None,
    agent: Annotated[
        Literal["auto", "claude", "demo"] | None,
        typer.Option(metavar="auto|claude|demo", help="Which agent runs sessions (auto)."),
    ] = None,
    roots: Annotated[
        list[str] | None, typer.Option(metavar="DIR[,DIR]", help="Folders that sessions may work in (your home).")
    ] = None,
    claude: Annotated[Text, typer.Option(metavar="PATH", help="The Claude Code executable (found in PATH).")] = None,
    claude_home: Annotated[Text, typer.Option(metavar="DIR", help="HOME of the agents' processes (yours).")] = None,
    max_agents: Annotated[
        int | None, typer.Option(metavar="N", help="Agent processes at once (by free memory).")
    ] = None,
    on_restart: Annotated[
        Literal["follow", "kill"] | None,
        typer.Option(metavar="follow|kill", help="Agents that outlived an earlier gateway (follow)."),
    ] = None,
    sandbox: Annotated[
        Literal["auto", "require", "off"] | None,
        typer.Option(metavar="auto|require|off", help="Hide the gateway from what it runs, by bubblewrap (auto)."),
    ] = None,
    durability: Annotated[
        Literal["process", "power"] | None,
        typer.Option(metavar="process|power", help="What an acknowledged event survives (process)."),
    ] = None,
    tls_cert: Annotated[Text, typer.Option(metavar="FILE", help="Certificate: serve over TLS.")] = None,
    tls_key: Annotated[Text, typer.Option(metavar="FILE", help="Private key of the certificate.")] = None,
    public_url: Annotated[Text, typer.Option(metavar="URL", help="Address of the TLS proxy in front.")] = None,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Proxy whose X-Forwarded-* is believed.")
    ] = None,
    insecure_lan: Annotated[
        bool | None, typer.Option("--insecure-lan", help="Listen on a network without TLS.")
    ] = None,
    door: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PORT[,static=DIR]",
            help="A further port for one client protocol, with a front end of yours; may be repeated.",
        ),
    ] = None,
    allow_bypass: Annotated[
        bool | None, typer.Option("--allow-bypass", help="Sessions may use the mode bypassPermissions.")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(metavar="debug|info|warning|error", help="How much is logged (info)."),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option(metavar="text|json", help="How log lines look (text)."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(envvar="FAIRLEAD_CONFIG", metavar="FILE", help="Settings file, TOML.")
    ] = None,
) -> None:
    """Start the gateway and run it until Ctrl-C.

    Every option is a setting that can also stand in the settings file or the environment; see `fairlead config show`.
    """
    from fairlead import config as settings

    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "data": data,
        "agent": agent,
        "roots": list(listed(roots)) or None,
        "claude": claude,
        "claude_home": claude_home,
        "max_agents": max_agents,
        "on_restart": on_restart,
        "sandbox": sandbox,
        "durability": durability,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "public_url": public_url,
        "trusted_proxy": list(listed(trusted_proxy)) or None,
        "insecure_lan": insecure_lan,
        "door": parse_doors(door or ()) or None,
        "allow_bypass": allow_bypass,
        "log_level": log_level,
        "log_format": log_format,
    }
    loaded = settings.load(environment(), given, config)
    _serve(loaded.config, loaded.file)


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
            raise UsageError(f"--door {text}: {name} has a door already, on port {found[name]['port']}.")
        found[name] = {"port": int(port)}
        for option in options:
            key, _, value = option.partition("=")
            if not key or not value:
                raise UsageError(
                    f"--door {text}: {option or 'nothing'} is no option: static=DIR, for example, would be one."
                )
            place = found[name] if key in ("static", "public_url", "login") else found[name].setdefault("options", {})
            place[key] = value
    return found


def _serve(config: "Config", file: Path) -> None:
    from fairlead.cli.output import hint

    hint("Starting the gateway ...")
    from fairlead.wiring import RunningGateway

    def announce(running: "GatewayInfo") -> None:
        for line in announcement(running):
            hint(line)

    async def serving() -> None:
        await RunningGateway(config, environment(), file=file).serve(announce)

    # No relative path from an agent may refer to the folder that the gateway was started in.
    os.chdir("/")
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serving())
    except OSError as error:
        raise UsageError(
            f"{error.filename or config.data} cannot be used: {error.strerror}. See: fairlead doctor"
        ) from error
    hint("Stopped.")


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _with(door: "DoorInfo") -> str:
    if not door.static:
        return ""
    readers = "those who sign in" if door.basic else "anybody who reaches it"
    return f", with the files of {door.static}, which {readers} can read"


def announcement(running: "GatewayInfo") -> list[str]:
    """Return the lines with the gateway's addresses, its agent, and the next commands to type."""
    agent = running.agent
    found = " ".join(part for part in (agent.version, f"({agent.path})" if agent.path else "") if part)
    lines = [
        f"Fairlead {running.version} serves at {running.url}",
        *(f"             and at {url}" for url in running.urls if url != running.url),
        *(f"  door     {door.name} at {door.url}{_with(door)}" for door in running.doors),
        f"  data     {running.data}",
        f"  sandbox  {running.exposed or HIDDEN}",
        f"  agent    {agent.name} {found}".rstrip(),
    ]
    if agent.problem:
        lines.append(f"           {agent.problem}")
    elif agent.name == "demo":
        lines.append("           scripted, no model behind it; install Claude Code for the real thing")
    return [
        *lines,
        "  browser  fairlead login prints a one-time link",
        "Try, in another terminal:",
        '  fairlead run "SCRIPT:tool"' if agent.name == "demo" else '  fairlead run "explain this repository"',
        "  fairlead ls",
        "Ctrl-C stops the gateway.",
    ]
