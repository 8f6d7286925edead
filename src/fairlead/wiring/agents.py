"""The agents: their kinds, their sandbox, and the files that they keep themselves."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from fairlead.agents.acp.kind import AcpKind, AcpSettings
from fairlead.agents.acp.tools import OWN_FILES as ACP_FILES
from fairlead.agents.claude import trust
from fairlead.agents.claude.kind import ClaudeKind, ClaudeSettings
from fairlead.agents.claude.transcripts.source import ClaudeTranscripts, default_homes, settings_files
from fairlead.agents.demo.kind import DemoKind
from fairlead.agents.links import DialInTokens
from fairlead.config import Config, default_file
from fairlead.model.agents import AgentInfo, AgentKind
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.folders import FolderReport
from fairlead.system.clock import Clock, SystemClock
from fairlead.system.sandbox import Sandbox, find_program, problem_of, sandbox_of
from fairlead.terminals.api import Terminals
from fairlead.uploads.service import FOLDER as UPLOADS
from fairlead.wiring.settings import plugins_folder

AGENT_BYTES = 250 << 20
"""Memory of one agent process (measured: 200 MB alone, 105 to 200 MB each at 24)."""
MOST_AGENTS = 64


class WiredKind(AgentKind, Protocol):
    """An agent kind with the handlers of the service calls that its routes make."""

    def handlers(self) -> ServiceHandlers: ...


def agent_kinds(
    config: Config,
    env: Mapping[str, str],
    clock: SystemClock,
    tokens: DialInTokens | None = None,
    url: str = "",
    terminals: Terminals | None = None,
    sandbox: Sandbox | None = None,
) -> dict[str, WiredKind]:
    """Return every agent kind by name. With `tokens` and our own address in `url`, agents can dial in there."""
    settings = ClaudeSettings(
        host=env,
        executable=config.claude,
        home=config.claude_home,
        pass_env=config.pass_env,
        spill=str(Path(config.data) / "oversize"),
        gateway=url.replace("http", "ws", 1),
        certificate=os.path.realpath(config.tls_cert) if config.tls_cert else "",
        sandbox=sandbox,
    )
    home = str(Path(config.data) / "demo-home")
    demo = msgspec.structs.replace(settings, home=home, sandbox=sandbox and sandbox.showing(writable=(home,)))
    built_in: dict[str, WiredKind] = {
        "claude": ClaudeKind(settings, clock, tokens, terminals),
        "demo": DemoKind(demo, clock),
    }
    for name, given in config.agents.items():
        if name in built_in or name == "auto":
            raise BadRequest(f"Setting agents.{name}: that name is taken. Choose another, for example my-{name}.")
        acp = AcpSettings(
            name=name,
            command=given.command,
            host=env,
            pass_env=(*config.pass_env, *given.env),
            spill=settings.spill,
            sandbox=sandbox,
        )
        built_in[name] = AcpKind(acp, clock)
    return built_in


def own_files(kinds: Mapping[str, AgentKind]) -> frozenset[str]:
    """Return the names of the files that configure agents, also of ACP agents that are not in the settings."""
    return ACP_FILES.union(*(kind.own_files for kind in kinds.values()))


async def choose_agent(config: Config, kinds: Mapping[str, AgentKind]) -> AgentInfo:
    """Return the default agent of sessions: `auto` takes Claude Code if it is installed, else the demo."""
    if config.agent != "auto":
        if config.agent not in kinds:
            raise BadRequest(f"Setting agent: there is no agent {config.agent!r}; there are {', '.join(kinds)}.")
        return await kinds[config.agent].info()
    found = await kinds["claude"].info()
    return found if not found.problem else await kinds["demo"].info()


def agents_by_memory() -> int:
    """Return the number of agents that fit into the memory that is free now, at least two."""
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 8
    return max(2, min(MOST_AGENTS, pages // AGENT_BYTES))


class ChosenSandbox(msgspec.Struct, frozen=True):
    """The sandbox, if any. `exposed`: what an agent can reach without one."""

    sandbox: Sandbox | None
    exposed: str = ""


def choose_sandbox(config: Config, env: Mapping[str, str], file: Path | None = None) -> ChosenSandbox:
    """Return the sandbox that the settings and this machine allow. Raises BadRequest if a required one cannot work."""
    if config.sandbox == "off":
        return ChosenSandbox(None, exposure("it is off"))
    made = sandbox_of(
        find_program(),
        folders=(config.data, plugins_folder(config), default_file(env).parent),
        files=(*((file,) if file else ()), *((config.tls_key,) if config.tls_key else ())),
    )
    problem = problem_of(made)
    if not problem:
        return ChosenSandbox(made)
    if config.sandbox == "require":
        raise BadRequest(
            f"Setting sandbox: it is required, and {problem}. Install bubblewrap and allow user namespaces."
        )
    return ChosenSandbox(None, exposure(problem))


def exposure(problem: str) -> str:
    return (
        f"none ({problem}): agents, terminals and plugins can read the data folder with its admin token, the settings "
        "and the gateway's memory"
    )


def agents_sandbox(config: Config, env: Mapping[str, str], sandbox: Sandbox | None) -> Sandbox | None:
    """Return the sandbox of agents. In hidden folders it shows attached files, our certificate, and the agents' HOME if
    it is there."""
    if sandbox is None:
        return None
    homes = (config.claude_home, env.get("CLAUDE_CONFIG_DIR", ""))
    return sandbox.showing(
        readable=(str(Path(config.data) / UPLOADS), *((config.tls_cert,) if config.tls_cert else ())),
        writable=[home for home in homes if home],
    )


def transcripts_source(config: Config, env: Mapping[str, str], clock: Clock) -> ClaudeTranscripts:
    homes = [Path(home).expanduser() for home in config.claude_homes]
    return ClaudeTranscripts(
        homes or default_homes(env, config.claude_home), clock, str(Path(config.data) / "oversize")
    )


def agent_files(config: Config, env: Mapping[str, str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the folders with the agents' own files, and the beginnings of the names of their settings files.

    Clients do not browse them: conversations are read through their sessions, which have owners."""
    homes = (*default_homes(env, config.claude_home), *default_homes(env, ""), *config.claude_homes)
    return [os.path.expanduser(str(home)) for home in homes], settings_files(env, config.claude_home)


def describe_folder(config: Config, env: Mapping[str, str], folder: str) -> FolderReport:
    """Return what an agent would load and run in a folder, for the person who is to trust it."""
    return trust.describe(folder, config.claude_home or env.get("HOME", ""))
