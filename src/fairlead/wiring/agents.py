"""The agents: their kinds, their sandbox, and the files that they keep themselves."""

import asyncio
import importlib
import importlib.util
import logging
import os
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

import fairlead.agents
from fairlead.agents.acp.tools import OWN_FILES as ACP_FILES
from fairlead.agents.context import AgentCommand, AgentContext, CreateKinds, PrivateFiles, ShimSettings, WiredKind
from fairlead.agents.environment import SESSION_TOKEN, SESSION_URL
from fairlead.agents.folder_files import merge_reports
from fairlead.agents.links import DialInTokens
from fairlead.auth.credentials import Credentials
from fairlead.auth.session_agents import SessionAgentTokens
from fairlead.config import Config
from fairlead.keeper.access import KeeperAccess
from fairlead.model.agents import AgentInfo, AgentKind
from fairlead.model.auth import Scope
from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import Transcripts
from fairlead.sessions.api.folders import FolderReport
from fairlead.system.clock import SystemClock
from fairlead.system.extensions import entry_points_of
from fairlead.system.sandbox import Sandbox, find_program, problem_of, sandbox_of
from fairlead.system.user_folders import default_file
from fairlead.terminals.api import Terminals
from fairlead.uploads.service import FOLDER as UPLOADS
from fairlead.wiring.settings import make_settings_folder, plugins_folder

log = logging.getLogger("fairlead")

GROUP: Final = "fairlead.agents"
"""The entry points of packages that bring an agent."""
_ACCESS: Final[Mapping[str, tuple[Scope, ...]]] = {"none": (), "view": ("view",), "send": ("view", "chat")}
"""The scopes of an agent's token by the setting agent_access."""
AGENT_BYTES = 250 << 20
"""Memory of one agent process (measured: 200 MB alone, 105 to 200 MB each at 24)."""
MOST_AGENTS = 64


def agent_kinds(
    config: Config,
    env: Mapping[str, str],
    clock: SystemClock,
    tokens: DialInTokens | None = None,
    url: str = "",
    terminals: Terminals | None = None,
    sandbox: Sandbox | None = None,
    keeper: KeeperAccess | None = None,
) -> dict[str, WiredKind]:
    """Return every agent kind by name. With `tokens` and our own address in `url`, agents can dial in there."""
    context = AgentContext(
        host=env,
        clock=clock,
        data=config.data,
        pass_env=config.pass_env,
        sandbox=sandbox,
        programs={"claude": config.claude},
        homes={"claude": config.claude_home},
        transcript_homes={"claude": config.claude_homes},
        commands={name: AgentCommand(given.command, given.env) for name, given in config.agents.items()},
        url=url,
        certificate=os.path.realpath(config.tls_cert) if config.tls_cert else "",
        tokens=tokens,
        shim=ShimSettings(observe=config.shim_policy == "observe", approvals=config.shim_approvals),
        terminals=terminals,
        keeper=keeper,
    )
    found: dict[str, WiredKind] = {}
    created = [kind for create in discover_agents() for kind in create(context)]
    # The agents of the settings are last: those that come with a package keep their names.
    for kind in sorted(created, key=lambda kind: kind.name in config.agents):
        if kind.name in found or kind.name == "auto":
            taken = f"that name is taken. Choose another, for example my-{kind.name}."
            raise BadRequest(f"Setting agents.{kind.name}: {taken}")
        found[kind.name] = kind
    return found


def discover_agents() -> list[CreateKinds]:
    """Return the functions that create kinds: those of our folders, then those of other packages."""
    found: list[CreateKinds] = []
    for package in pkgutil.iter_modules(fairlead.agents.__path__):
        name = f"{fairlead.agents.__name__}.{package.name}.kind"
        if package.ispkg and importlib.util.find_spec(name) is not None:
            found.append(importlib.import_module(name).create_kinds)
    found.extend(point.load() for point in entry_points_of(GROUP))
    return found


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


def session_agent_env(
    config: Config, tokens: SessionAgentTokens, address: str
) -> Callable[[SessionId, str], dict[str, str]]:
    """Return the function that gives an agent's process access to the sessions of its user, by a token of its own.

    A process gets a token even if the settings allow nothing: `fairlead mcp` uses it instead of the token of a person,
    so that the gateway always knows the session."""
    scopes = _ACCESS[config.agent_access]

    def env(session: SessionId, owner: str) -> dict[str, str]:
        return {SESSION_URL: address, SESSION_TOKEN: tokens.issue(session, owner, scopes)}

    return env


def save_agent_access(credentials: Credentials) -> Callable[[SessionId], str]:
    """Return the function that gives the digests of an agent's tokens: for `fairlead mcp`, and for its hooks."""

    def save(session: SessionId) -> str:
        return f"{credentials.session_agents.save(session)}\n{credentials.agents.save(session)}"

    return save


def restore_agent_access(config: Config, credentials: Credentials) -> Callable[[SessionId, str, str], None]:
    """Return the function that gives an agent of an earlier gateway its access back."""

    def restore(session: SessionId, owner: str, saved: str) -> None:
        to_sessions, _, of_hooks = saved.partition("\n")
        credentials.session_agents.restore(session, owner, _ACCESS[config.agent_access], to_sessions)
        credentials.agents.restore(session, of_hooks)

    return restore


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
        files=tuple(filter(None, (file, config.tls_key, config.cluster_key))),
    )
    problem = problem_of(made)
    if not problem:
        return ChosenSandbox(made)
    if config.sandbox == "require":
        raise BadRequest(
            f"Setting sandbox: it is required, and {problem}. Install bubblewrap and allow user namespaces."
        )
    return ChosenSandbox(None, exposure(problem))


async def settle_sandbox(config: Config, env: Mapping[str, str], file: Path) -> ChosenSandbox:
    """Choose the sandbox, and warn if this machine cannot have one."""
    make_settings_folder(env)
    chosen = await asyncio.to_thread(choose_sandbox, config, env, file)
    if chosen.exposed:
        log.warning("no sandbox", extra={"problem": chosen.exposed})
    return chosen


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


def transcripts_source(kinds: Mapping[str, WiredKind]) -> Transcripts:
    """Return the source of transcripts. The importer has one: no second kind may declare another."""
    found = {source.agent: source for kind in kinds.values() if (source := kind.transcripts()) is not None}
    if len(found) != 1:
        raise BadRequest(f"Exactly one agent can store transcripts, but {len(found)} do: {', '.join(found)}.")
    return found.popitem()[1]


def private_files(kinds: Mapping[str, WiredKind]) -> PrivateFiles:
    found = [kind.private_files() for kind in kinds.values()]
    folders = dict.fromkeys(folder for files in found for folder in files.folders)
    return PrivateFiles(tuple(folders), tuple(name for files in found for name in files.settings))


def describe_folder(kinds: Mapping[str, WiredKind], folder: str) -> FolderReport:
    """Return what the agents would load and run in a folder, for the person who is to trust it."""
    return merge_reports([report for kind in kinds.values() if (report := kind.describe_folder(folder)) is not None])
