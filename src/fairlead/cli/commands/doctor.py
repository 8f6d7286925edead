"""`fairlead doctor`: check the set-up and explain how to correct it. A check changes nothing."""

import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from fairlead import config as settings
from fairlead.cli.context import CommandContext, command, run_async
from fairlead.cli.errors import ExitCode
from fairlead.cli.options import ConfigFile
from fairlead.cli.output import console, hint, json_line
from fairlead.cli.sanitize import clean
from fairlead.client.endpoint import EndpointOptions, read_server_file
from fairlead.client.errors import ClientError

if TYPE_CHECKING:
    from fairlead.system.sandbox import Sandbox


@command("fairlead doctor", "fairlead doctor --json", "fairlead doctor --scripts", color=True)
def doctor(
    context: CommandContext,
    scripts: Annotated[bool, typer.Option("--scripts", help="List the demo agent's scripts instead.")] = False,
    config: ConfigFile = None,
) -> None:
    """Check the set-up: Claude Code and its links, the sandbox, the data folder, the port.

    Each line is ok, warn or bad, and explains what to do. The exit code is 1 if a line is bad."""
    if scripts:
        _print_scripts(context)
        return
    from rich.text import Text

    findings = run_async(examine(context.endpoint, config, os.environ))
    target = console(no_color=context.no_color)
    styles = {"ok": "green", "warn": "yellow", "bad": "red"}
    for finding in findings:
        if context.json:
            json_line(finding)
            continue
        line = Text(f"{finding.level:<5}", style=styles[finding.level])
        line.append(f"{finding.what}: ", style="bold")
        line.append(clean(finding.found))
        target.print(line)
        if finding.todo:
            target.print(Text(f"     -> {clean(finding.todo)}"))
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _print_scripts(context: CommandContext) -> None:
    from fairlead.agents.scripts import catalogue

    scripts = [{"name": name, "argument": argument, "about": about} for name, argument, about in catalogue()]
    context.print_table(
        ("PROMPT", "WHAT IT SHOWS"),
        scripts,
        lambda script: [f"SCRIPT:{script['name']} {script['argument']}".rstrip(), script["about"]],
    )
    if not context.json:
        hint('Try one with: fairlead run "SCRIPT:tool" --agent demo')


# --- the checks ---------------------------------------------------------------------------------------------


class Finding(msgspec.Struct, frozen=True):
    level: Literal["ok", "warn", "bad"]
    what: str
    found: str
    todo: str = ""


async def examine(endpoint: EndpointOptions, file: Path | None, env: Mapping[str, str]) -> list[Finding]:
    """Run all checks, in the order in which a person would ask."""
    version = ".".join(map(str, sys.version_info[:3]))
    findings = [Finding("ok", "python", f"{version} ({sys.executable})")]
    try:
        config = settings.load(env, {"data": endpoint.data}, file).config
    except settings.BadSetting as error:
        return [*findings, Finding("bad", "settings", error.message, "Correct it, then run this again.")]
    findings.append(Finding("ok", "settings", "readable"))
    finding, sandbox = _sandbox(config, env, file)
    findings.append(finding)
    findings += [finding async for finding in _agents(config, env, sandbox)]
    findings += [_sqlite(), *_data(Path(config.data)), *_roots(config.roots)]
    findings += [finding async for finding in _gateway(endpoint, config, env)]
    return findings


def _sandbox(config: settings.Config, env: Mapping[str, str], file: Path | None) -> "tuple[Finding, Sandbox | None]":
    from fairlead.model.errors import BadRequest
    from fairlead.wiring.agents import choose_sandbox

    try:
        chosen = choose_sandbox(config, env, file)
    except BadRequest as error:
        return Finding("bad", "sandbox", "required, but not available", error.message), None
    if not chosen.exposed:
        return Finding("ok", "sandbox", "agents, terminals and plugins do not see the gateway"), chosen.sandbox
    todo = "Install bubblewrap and allow user namespaces." if config.sandbox == "auto" else "Set sandbox to auto."
    return Finding("warn", "sandbox", chosen.exposed, todo), None


async def _agents(config: settings.Config, env: Mapping[str, str], sandbox: "Sandbox | None") -> AsyncIterator[Finding]:
    from fairlead.system.clock import SystemClock
    from fairlead.wiring.agents import agent_kinds

    # Querying the demo agent creates its home folder; the doctor must leave nothing behind.
    with tempfile.TemporaryDirectory(prefix="fairlead-doctor-") as scratch:
        kinds = agent_kinds(msgspec.structs.replace(config, data=scratch), env, SystemClock(), sandbox=sandbox)
        claude = await kinds["claude"].info()
        demo = await kinds["demo"].info()
        others = [await kinds[name].info() for name in config.agents]
    if claude.problem:
        level: Literal["warn", "bad"] = "bad" if config.agent == "claude" else "warn"
        yield Finding(level, "claude", "cannot be used", claude.problem)
    else:
        yield Finding("ok", "claude", f"{claude.version} at {claude.path}")
        for way, about in claude.ways.items():
            yield Finding("ok", f"claude by {way}", about)
    if demo.problem:
        yield Finding("bad", "demo agent", "cannot be used", demo.problem)
    else:
        yield Finding("ok", "demo agent", "ready; see its scripts with: fairlead doctor --scripts")
    for other in others:
        if other.problem:
            yield Finding("bad" if config.agent == other.name else "warn", other.name, "cannot be used", other.problem)
        else:
            yield Finding("ok", other.name, f"speaks ACP, at {other.path}")
    chosen = config.agent if config.agent != "auto" else "demo" if claude.problem else "claude"
    yield Finding("ok", "sessions run", chosen)


def _sqlite() -> Finding:
    import sqlite3

    from fairlead.stores.sqlite.search import has_fts5

    if has_fts5():
        return Finding("ok", "sqlite", f"{sqlite3.sqlite_version} with full-text search")
    found = f"{sqlite3.sqlite_version} without FTS5: search is slow"
    return Finding("warn", "sqlite", found, "Use a Python whose SQLite has FTS5.")


def _data(folder: Path) -> Iterator[Finding]:
    from fairlead.monitoring.disk import check_disk

    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield Finding("bad", "data folder", f"{place} is not a folder", "Choose another folder with --data.")
        return
    if not os.access(place, os.W_OK | os.X_OK):
        todo = "Change its owner, or choose another folder with --data."
        yield Finding("bad", "data folder", f"{folder} cannot be written", todo)
        return
    yield Finding("ok", "data folder", f"{folder}{'' if place == folder else ' (created at the first start)'}")
    if place == folder and folder.stat().st_mode & 0o077:
        yield Finding("warn", "data folder", "other users can read it", f"Run: chmod 700 {folder}")
    disk = check_disk(place)
    yield Finding(disk.level, "disk", disk.found, disk.todo)


def _roots(roots: tuple[str, ...]) -> Iterator[Finding]:
    for root in roots:
        if os.path.isdir(root):
            yield Finding("ok", "sessions may work in", root)
        else:
            yield Finding("bad", "sessions may work in", f"{root} is not a folder", "Correct the setting roots.")


async def _gateway(
    endpoint: EndpointOptions, config: settings.Config, env: Mapping[str, str]
) -> AsyncIterator[Finding]:
    from fairlead.cli.client import Api
    from fairlead.monitoring.api import HealthReport

    known = endpoint.url or read_server_file(Path(config.data))
    if known is None:
        yield _port(config.host, config.port)
        yield Finding("ok", "gateway", "no gateway runs on this data folder", "Start it with: fairlead serve")
        return
    try:
        async with Api(lambda: endpoint.find(env)) as api:
            health = await api.get("/health", dict[str, Any])
            me = await api.get("/v1/me", dict[str, Any])
            admin = "admin" in me.get("scopes", [])
            checks = (await api.get("/v1/gateway/health", HealthReport)).checks if admin else ()
    except ClientError as error:
        yield Finding("bad", "gateway", error.message.splitlines()[0], "Start it with: fairlead serve")
        return
    where = endpoint.url or getattr(known, "url", "")
    yield Finding("ok", "gateway", f"{where} answers, version {health.get('version', 'unknown')}")
    yield Finding("ok", "token", f"accepted: {me.get('name', '')} ({', '.join(me.get('scopes', []))})")
    for check in checks:
        yield Finding(check.level, f"gateway's {check.name}", check.found, check.todo)


def _port(host: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        todo = "Stop the program that uses it, or choose another port with --port."
        return Finding("bad", "port", f"{host}:{port} cannot be used ({error.strerror})", todo)
    return Finding("ok", "port", f"{host}:{port} is free" if port else "a free port is used")
