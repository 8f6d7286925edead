"""What `fairlead serve` prints on standard error in addition to its log: text for a person, or lines of JSON."""

import logging
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from fairlead.cli.errors import exit_code
from fairlead.cli.output import hint
from fairlead.cli.own_gateway import describe_left
from fairlead.client.errors import ClientError
from fairlead.model.errors import BadRequest

if TYPE_CHECKING:
    from fairlead.server.doors import OpenDoor
    from fairlead.wiring import GatewayInfo

HIDDEN = "on: agents, terminals and plugins see neither the data folder, nor the settings, nor the gateway's processes"

log = logging.getLogger("fairlead")


class ServeOutput(Protocol):
    def starting(self) -> None: ...
    def serving(self, running: "GatewayInfo", link: str = "") -> None:
        """`link`: signs a browser in, once."""

    def stopped(self, agents: int, terminals: int) -> None: ...
    def fail(self, error: ClientError) -> NoReturn: ...


class TypedProgram:
    """How a person types a command for this gateway: `fairlead`, or its path; with `--data` where it is needed."""

    def __init__(self, program: str, options: str = "") -> None:
        self._program = program
        self._options = options

    def __call__(self, words: str) -> str:
        return f"{self._program} {words}{self._options}"


def typed_program(data: str) -> TypedProgram:
    """Call it before the working folder changes: the program's path may be relative."""
    from fairlead.system.user_folders import default_data

    here = Path(sys.argv[0])
    found = shutil.which("fairlead")
    known = found is not None and here.name == "fairlead" and os.path.realpath(found) == os.path.realpath(here)
    program = "fairlead" if known or here.name != "fairlead" else shlex.quote(os.path.abspath(here))
    try:
        usual = str(default_data(os.environ))
    except BadRequest:
        usual = ""
    return TypedProgram(program, "" if usual == data else f" --data {shlex.quote(data)}")


class TextOutput:
    def __init__(self, typed: TypedProgram) -> None:
        self._typed = typed

    def starting(self) -> None:
        hint("Starting the gateway ...")

    def serving(self, running: "GatewayInfo", link: str = "") -> None:
        for line in announcement(running, self._typed, link):
            hint(line)

    def stopped(self, agents: int, terminals: int) -> None:
        hint(f"Stopped.{describe_left(agents, terminals)}")

    def fail(self, error: ClientError) -> NoReturn:
        raise error


class JsonOutput:
    """One line each, so that every line on standard error can be parsed."""

    def starting(self) -> None:
        """The gateway's own log begins when it has read its settings."""

    def serving(self, running: "GatewayInfo", link: str = "") -> None:
        doors = {door.name: door.url for door in running.doors}
        agent = running.agent
        extra = {"url": running.url, "urls": list(running.urls), "data": running.data, "version": running.version}
        more = {"agent": agent.name, "agent_version": agent.version, "problem": agent.problem, "doors": doors}
        log.info("serving", extra={**extra, **{name: value for name, value in more.items() if value}})

    def stopped(self, agents: int, terminals: int) -> None:
        log.info("stopped", extra={"agents": agents, "terminals": terminals})

    def fail(self, error: ClientError) -> NoReturn:
        log.error("not started", extra={"error": error.message})
        sys.exit(exit_code(error))


def _with(door: "OpenDoor") -> str:
    if not door.static:
        return ""
    readers = "users who sign in" if door.login == "basic" else "all who reach the port"
    return f", with the files of {door.static}, readable for {readers}"


def announcement(running: "GatewayInfo", typed: TypedProgram, link: str = "") -> list[str]:
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
        lines.append("           scripted, without a model; install Claude Code to run real sessions")
    prompt = 'run "SCRIPT:tool"' if agent.name == "demo" else 'run "explain this repository"'
    return [
        *lines,
        f"  browser  {link}" if link else f"  browser  {typed('login')} prints a one-time link",
        *([f"           it works once, within 10 minutes; {typed('login')} prints another"] if link else []),
        "Try, in another terminal:",
        f"  {typed(prompt)}",
        f"  {typed('ls')}",
        "Ctrl-C stops the gateway.",
    ]
