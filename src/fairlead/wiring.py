"""Wiring of the concrete classes: settings in, a running gateway out."""

import asyncio
import contextlib
import json
import logging
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude import trust
from fairlead.agents.claude.kind import ClaudeKind, ClaudeSettings
from fairlead.agents.claude.transcripts.source import ClaudeTranscripts, default_homes, settings_files
from fairlead.agents.demo.kind import DemoKind
from fairlead.agents.links.api import DialInTokens
from fairlead.auth.actions import CredentialActions
from fairlead.auth.bootstrap import bootstrap_admin
from fairlead.auth.credentials import Credentials
from fairlead.auth.keyfile import URLS, KeyFile
from fairlead.auth.origins import AllowedOrigins
from fairlead.auth.session_keys import SessionKeys
from fairlead.config import Config, default_file
from fairlead.model.agents import AgentInfo, AgentKind
from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId
from fairlead.model.policy import Behavior, Rule, parse_rule
from fairlead.model.web.requests import ServiceCall, ServiceHandler
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.session_changes import What
from fairlead.notifications.address_policy import networks
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.service import NotificationService
from fairlead.plugins.manager import PluginManager, PluginSettings, plugin_environment
from fairlead.server import limits as serving
from fairlead.server.app import App, AppConfig
from fairlead.server.discovery import discover, projections_of
from fairlead.server.dispatch import RemovalCleanup, trust_handlers
from fairlead.server.doors import Door, OpenDoor, check_doors, open_door
from fairlead.server.listeners import Binding, allowed_origins, open_sockets, urls
from fairlead.server.logging import Redactor, configure_logging
from fairlead.server.plugin_pages import page_handlers
from fairlead.server.runner import ServerRunner
from fairlead.server.shares import CredentialShares
from fairlead.server.webui import WebUi
from fairlead.sessions.api.folders import FolderReport
from fairlead.sessions.dependencies import CoreDependencies, McpServerSettings, PolicySettings, SessionLimits
from fairlead.sessions.fanout.broadcast import Broadcasts
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead.sessions.folders.browse import FolderBrowser
from fairlead.sessions.folders.known import KnownFolders
from fairlead.sessions.folders.trust import TrustedFolders
from fairlead.sessions.folders.workspace import WorkspaceReader
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.call import Fences
from fairlead.sessions.preferences import UserPreferences
from fairlead.sessions.read_state import ReadState
from fairlead.sessions.registry import Registry
from fairlead.sessions.transcripts.importer import TranscriptImporter
from fairlead.stores.sqlite import SqliteStore
from fairlead.system import descriptors
from fairlead.system.clock import SystemClock
from fairlead.system.sandbox import Sandbox, find_program, problem_of, sandbox_of
from fairlead.terminals.api import Terminals
from fairlead.terminals.attachment import TerminalActions
from fairlead.terminals.launcher.programs import PROVIDERS, Provider
from fairlead.terminals.launcher.service import AGENT, ProgramLauncher
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells, shell_environment
from fairlead.uploads.service import FOLDER as UPLOADS
from fairlead.uploads.service import Uploads

log = logging.getLogger("fairlead")

SERVER_FILE = "server.json"
"""File in the data folder while a gateway runs: the other commands find its address there."""
AGENT_BYTES = 250 << 20
"""Memory of one agent process (measured: 200 MB alone, 105 to 200 MB each at 24)."""
MOST_AGENTS = 64


class DoorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an extra port. `static`: the folder whose files it serves, if any; `basic`: browsers sign in by
    HTTP Basic."""

    name: str
    url: str
    static: str = ""
    basic: bool = False


class GatewayInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a gateway that has started."""

    url: str
    urls: tuple[str, ...]
    data: str
    token: str
    agent: AgentInfo
    version: str
    exposed: str = ""
    """What an agent can reach without a sandbox; empty if there is one."""
    doors: tuple[DoorInfo, ...] = ()


class RunningGateway:
    """A complete gateway; `serve` starts it and runs until `stop` or a signal."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        mcp: Mapping[str, McpServerSettings] | None = None,
        *,
        file: Path | None = None,
    ) -> None:
        """`file`: the settings file, which no tool may touch."""
        self.config = config
        self._env = env
        self._file = file or default_file(env)
        self._mcp = dict(mcp or {})
        self._clock = SystemClock()

    async def serve(
        self, announce: Callable[[GatewayInfo], None] = lambda running: None, *, signals: bool = True
    ) -> None:
        """Start, announce the address, run until `stop` or a signal, then stop everything in order."""
        async with contextlib.AsyncExitStack() as stack:
            running = await self._start(stack, alone=signals)
            serving = asyncio.create_task(self._runner.serve(signals=signals))
            ready = asyncio.create_task(self._runner.ready())
            await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                # Not earlier: a client that reads the address must be able to connect.
                stack.callback(_write_server_file(Path(running.data), running.urls[0]))
                announce(running)
            ready.cancel()
            await serving

    def stop(self) -> None:
        self._runner.stop()

    async def _start(self, stack: contextlib.AsyncExitStack, *, alone: bool) -> GatewayInfo:
        """Start all parts. `alone`: the process belongs to the gateway, with its log and limit of open files."""
        config = self.config
        data = Path(config.data)
        redactor = configure_logging(config.log_format, config.log_level.upper()) if alone else Redactor()
        files = descriptors.raise_limit() if alone else descriptors.limit()
        protocols = discover()
        binding, wanted = _binding(config), _doors(config)
        known = check_doors(wanted, protocols, binding, data)
        sockets = open_sockets(binding)
        for listener in sockets:
            stack.callback(listener.close)
        doors: list[OpenDoor] = []
        for door in wanted:
            doors.append(open_door(door, known[door.name], binding))
            for listener in doors[-1].sockets:
                stack.callback(listener.close)
        store = await SqliteStore.open(data, durability=config.durability, spill_above=config.record_bytes)
        stack.push_async_callback(store.close)
        credentials = Credentials(store.documents, self._clock, key=KeyFile(data), url_key=KeyFile(data, URLS))
        await credentials.load()
        stack.push_async_callback(credentials.close)
        token = await bootstrap_admin(credentials, data, self._env.get("FAIRLEAD_TOKEN"))
        redactor.hide(token)
        uploads = Uploads(data / UPLOADS)
        await uploads.start()
        owner = _mark_of(data)
        _make_settings_folder(self._env)
        chosen_sandbox = await asyncio.to_thread(choose_sandbox, config, self._env, self._file)
        sandbox = chosen_sandbox.sandbox
        if chosen_sandbox.exposed:
            log.warning("no sandbox", extra={"problem": chosen_sandbox.exposed})
        agents = agents_sandbox(config, self._env, sandbox)
        terminals = TerminalRegistry(self._clock, config.max_terminals, agents=agents, people=sandbox)
        stack.push_async_callback(terminals.close)
        house = allowed_origins(binding, sockets)
        address = urls(binding, sockets)[0]
        kinds = agent_kinds(config, self._env, self._clock, credentials.agents, address, terminals, agents)
        chosen = await choose_agent(config, kinds)
        transcripts = self._transcripts(data)
        closed = (data, plugins_folder(config), *settings_places(self._file, self._env))
        fences = _fences(closed, uploads, house, doors)
        news = SessionChanges(self._clock, lambda who, session: self._gateway.ownership.sees(who, session))
        notices = self._notices(store, data, credentials)
        await notices.begin()

        def notify(session: SessionId, what: What) -> None:
            news.notify(session, what)
            notices.session_changed(session, what)

        shown = ReadState(store.documents, news.notify, lambda session: self._registry.watching(session))
        stack.push_async_callback(shown.close)
        services = msgspec.structs.replace(
            self._services(store, kinds, chosen.name, fences, transcripts),
            views=projections_of(protocols),
            owner=owner,
            on_change=notify,
            committed=notices.committed,
            is_user=lambda name: credentials.users.get(name) is not None,
            sight_lost=credentials.ask_to_reconnect,
            on_read=shown.mark_read,
        )
        registry = self._registry = Registry(services)
        keeper = self._keeper = registry.opener = TranscriptImporter(
            services, transcripts, registry, archive=config.archive, archive_bytes=config.archive_bytes
        )
        gateway = self._gateway = SessionGateway(services, registry)
        self._trust = TrustedFolders(store.documents, self._clock, self._describe, gateway.resolve_folder)
        shells = UserShells(terminals, self._clock, shell_settings(config, self._env), gateway.resolve_folder)
        stack.push_async_callback(shells.close)
        launcher = ProgramLauncher(
            terminals, shells, providers(config), gateway, store.documents, self._clock, gateway.resolve_folder
        )
        stack.push_async_callback(launcher.close)
        plugins = PluginManager(store.documents, self._clock, plugin_settings(config, self._env, sandbox, owner))
        limits = server_limits(config, files)
        shell = WebUi()
        inbound = [protocol for kind in kinds.values() if (protocol := kind.protocol()) is not None]
        page = invitations_page(protocols, doors, config.public_url or address)
        inbound.append(shell.protocol())
        people = CredentialActions(credentials, page).handlers()
        owning = gateway.ownership
        folders = KnownFolders(store.documents, services.policy, gateway.resolve_folder)
        preferences = UserPreferences(store.documents)
        kept = (shown.forget, preferences.forget)
        leaving = RemovalCleanup(
            store.documents,
            services.is_user,
            (notices.revoked, gateway.revoked, *kept),
            (owning.forget, shells.forget, uploads.forget, notices.forget, folders.forget, *kept),
        )
        performers: dict[type[ServiceCall], ServiceHandler] = {
            **leaving.with_cleanup(people),
            **SessionKeys(store.documents).handlers(),
            **trust_handlers(self._trust),
            **keeper.performers(),
            **shown.performers(),
            **news.performers(),
            **Broadcasts(news, store.summary).performers(),
            **TerminalActions(terminals).performers(),
            **shells.performers(),
            **launcher.performers(),
            **folders.performers(),
            **preferences.performers(),
            **FolderBrowser(services.policy.roots, gateway.resolve_folder).performers(),
            **self._workspace(services.policy.roots, gateway.resolve_folder, fences.folders).performers(),
            **notices.performers(),
            **plugins.handlers(),
            **page_handlers(plugins),
            **shell.handlers(),
            **uploads.handlers(),
        }
        performers = owning.guarded(performers)
        for kind in kinds.values():
            performers.update(kind.performers())
        parts = AppConfig(
            protocols=protocols,
            inbound=inbound,
            gateway=gateway,
            handlers=performers,
            credentials=credentials,
            allowed_origins=house,
            clock=self._clock,
            version=version("fairlead"),
            base=config.public_url,
            limits=limits,
            shares=CredentialShares(serving.open_per_credential(limits), limits.bytes_per_credential),
        )
        behind = [(door, door.app(parts)) for door in doors]
        self._runner = ServerRunner(App(parts), binding, sockets, self._clock, limits, behind)
        await registry.start(kill_children=config.on_restart == "kill")
        await leaving.start()
        await _warn_about_shared_sessions(store)
        await launcher.start()
        stack.push_async_callback(notices.stop)
        stack.push_async_callback(registry.stop)
        await notices.start()
        stack.push_async_callback(plugins.stop)
        await plugins.start()
        keeper.start()
        stack.push_async_callback(keeper.stop)
        url = config.public_url or self._runner.urls[0]
        return GatewayInfo(
            url=url,
            urls=self._runner.urls,
            data=str(data),
            token=token,
            agent=chosen,
            version=version("fairlead"),
            exposed=chosen_sandbox.exposed,
            doors=tuple(
                DoorInfo(name=door.name, url=door.url, static=str(door.static or ""), basic=door.login == "basic")
                for door in doors
            ),
        )

    def _services(
        self,
        store: SqliteStore,
        kinds: Mapping[str, AgentKind],
        default: str,
        fences: Fences,
        transcripts: ClaudeTranscripts,
    ) -> CoreDependencies:
        config = self.config

        async def trusted(folder: str) -> bool:
            return await self._trust.is_trusted(folder)

        async def make_room(session: str) -> None:
            await self._registry.make_room(session)

        return CoreDependencies(
            store=store,
            clock=self._clock,
            kinds=kinds,
            default_agent=default,
            policy=PolicySettings(
                roots=tuple(os.path.realpath(root) for root in config.roots),
                resolve=disk.resolve,
                rules=rules_of(config),
                fences=fences,
                home=self._env.get("HOME"),
                allow_bypass=config.allow_bypass,
            ),
            new_uuid=lambda: str(uuid.uuid4()),
            trusted=trusted,
            make_room=make_room,
            is_folder=os.path.isdir,
            agent_ended=lambda session: self._keeper.agent_ended(session),
            turn_ended=lambda session: self._keeper.turn_ended(session),
            transcripts=transcripts,
            limits=SessionLimits(
                idle_s=config.idle_minutes * 60,
                max_agents=config.max_agents or agents_by_memory(),
                watcher_buffer=config.watcher_bytes,
            ),
            mcp=self._mcp,
            mcp_configs={name: msgspec.to_builtins(server) for name, server in config.mcp.items()},
            session_env=frozenset(config.session_env),
        )

    def _notices(self, store: SqliteStore, data: Path, credentials: Credentials) -> NotificationService:
        async def describe(session: SessionId) -> tuple[str, tuple[str, ...]]:
            summary = await store.summary(session)
            if summary is None:
                return "", ()
            return summary.title, tuple(filter(None, (summary.owner, *summary.shared)))

        return NotificationService(
            store.resources,
            store.documents,
            lambda: self._gateway,
            data,
            self._clock,
            fresh=lambda: str(uuid.uuid4()),
            describe=describe,
            who_is=credentials.identity,
            caller=HttpClient(self._clock, networks(self.config.notify_private)),
            public_url=self.config.public_url,
        )

    def _transcripts(self, data: Path) -> ClaudeTranscripts:
        config = self.config
        homes = [Path(home).expanduser() for home in config.claude_homes]
        return ClaudeTranscripts(
            homes or default_homes(self._env, config.claude_home), self._clock, str(data / "oversize")
        )

    def _workspace(self, roots: Sequence[str], resolve: Callable[[str], str], closed: Sequence[str]) -> WorkspaceReader:
        """Return the workspace reader. It excludes the agents' own files: conversations are read through their
        sessions, which have owners."""
        config, env = self.config, self._env
        homes = (*default_homes(env, config.claude_home), *default_homes(env, ""), *config.claude_homes)
        agents = [os.path.expanduser(str(home)) for home in homes]
        return WorkspaceReader(roots, resolve, (*closed, *agents), settings_files(env, config.claude_home))

    def _describe(self, folder: str) -> FolderReport:
        return trust.describe(folder, self.config.claude_home or self._env.get("HOME", ""))


async def _warn_about_shared_sessions(store: SqliteStore) -> None:
    """Warn once, after a migration of the data folder to sessions that belong to users."""
    sessions = await store.documents.get("notes", "sessions-shared")
    if sessions is not None:
        log.warning(
            "Sessions belong to the users who made them from now on. The %d sessions that were here before are shared"
            " with everybody; fairlead share SESSION --everybody --remove takes one back.",
            sessions,
        )
        await store.documents.delete("notes", "sessions-shared")


@contextlib.asynccontextmanager
async def running(
    config: Config, env: Mapping[str, str], mcp: Mapping[str, McpServerSettings] | None = None
) -> AsyncIterator[GatewayInfo]:
    """Run a gateway inside this process, for tests and for programs that embed one."""
    gateway = RunningGateway(config, env, mcp)
    started: asyncio.Future[GatewayInfo] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(gateway.serve(started.set_result, signals=False))
    either: set[asyncio.Future[Any]] = {started, task}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        await task
    try:
        yield started.result()
    finally:
        gateway.stop()
        await task


def agent_kinds(
    config: Config,
    env: Mapping[str, str],
    clock: SystemClock,
    tokens: DialInTokens | None = None,
    url: str = "",
    terminals: Terminals | None = None,
    sandbox: Sandbox | None = None,
) -> dict[str, ClaudeKind]:
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
    return {"claude": ClaudeKind(settings, clock, tokens, terminals), "demo": DemoKind(demo, clock)}


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


def _mark_of(folder: Path) -> str:
    """Return the identity of a folder, which a copy does not share: a child belongs to the folder of the gateway that
    started it."""
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}"


def _make_settings_folder(env: Mapping[str, str]) -> None:
    """Create the settings folder so that it can be hidden: an agent that creates it itself could write the settings of
    the next gateway."""
    if env.get("HOME") or env.get("XDG_CONFIG_HOME"):
        with contextlib.suppress(OSError):
            default_file(env).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


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


def shell_settings(config: Config, env: Mapping[str, str]) -> ShellSettings:
    return ShellSettings(
        program=config.shell or env.get("SHELL", "") or "/bin/bash",
        env=shell_environment(env),
        idle_s=config.terminal_idle_minutes * 60,
        recordings=str(Path(config.data) / "recordings") if config.record_terminals else "",
    )


def plugin_settings(
    config: Config, env: Mapping[str, str], sandbox: Sandbox | None = None, owner: str = ""
) -> PluginSettings:
    return PluginSettings(
        folder=plugins_folder(config),
        env=plugin_environment(env),
        programs={".py": sys.executable, ".js": "node", ".mjs": "node", ".cjs": "node"},
        message_bytes=config.frame_bytes,
        sandbox=sandbox,
        owner=owner,
    )


def plugins_folder(config: Config) -> Path:
    return Path(config.plugins).expanduser() if config.plugins else Path(config.data) / "plugins"


def providers(config: Config) -> dict[str, Provider]:
    """Return the programs that a client may start on a terminal by name. Raises BadRequest."""
    taken = {AGENT: "claude", "plain-shell": "shell"}
    for name in config.provider:
        if name in taken:
            raise BadRequest(f"Setting provider: {name} is set by the setting {taken[name]}.")
    chosen = {
        name: Provider(command=provider.command, resume=provider.resume) for name, provider in config.provider.items()
    }
    return {**PROVIDERS, **chosen}


def settings_places(file: Path, env: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the settings file and its default folder, which determine what the gateway does at its next start."""
    return file, default_file(env).parent


async def choose_agent(config: Config, kinds: Mapping[str, AgentKind]) -> AgentInfo:
    """Return the default agent of sessions: `auto` takes Claude Code if it is installed, else the demo."""
    if config.agent != "auto":
        return await kinds[config.agent].info()
    found = await kinds["claude"].info()
    return found if not found.problem else await kinds["demo"].info()


def rules_of(config: Config) -> tuple[Rule, ...]:
    return tuple(
        parse_rule(text, behavior, "settings")
        for texts, behavior in (
            (config.deny, Behavior.DENY),
            (config.ask, Behavior.ASK),
            (config.allow, Behavior.ALLOW),
        )
        for text in texts
    )


def agents_by_memory() -> int:
    """Return the number of agents that fit into the memory that is free now, at least two."""
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 8
    return max(2, min(MOST_AGENTS, pages // AGENT_BYTES))


def server_limits(config: Config, files: int) -> serving.ServerLimits:
    """Return the limits of the server. `files`: the number of descriptors that the process may have open."""
    return serving.ServerLimits(
        descriptors=files,
        message_bytes=config.frame_bytes,
        commands_per_s=config.commands_per_second,
        waiting=config.waiting_sockets,
        waiting_per_address=config.waiting_per_address,
        open_per_credential=config.sockets_per_credential,
        bytes_per_credential=config.credential_bytes,
        # Twice the buffer of a subscription, so that a client that still reads history can send commands.
        unread=2 * config.watcher_bytes,
    )


def _binding(config: Config) -> Binding:
    return Binding(
        host=config.host,
        port=config.port,
        tls_cert=Path(config.tls_cert) if config.tls_cert else None,
        tls_key=Path(config.tls_key) if config.tls_key else None,
        public_url=config.public_url,
        insecure_lan=config.insecure_lan,
        trusted_proxies=config.trusted_proxy,
        origins=config.origins,
    )


def _fences(folders: Sequence[Path], uploads: Uploads, house: AllowedOrigins, doors: Sequence[OpenDoor]) -> Fences:
    """Return the folders and ports that no tool may touch, whatever the rules allow. The folders include the programs
    that the gateway starts by itself."""
    kept = tuple(os.path.realpath(folder) for folder in folders)
    ports = (min(house.ports), *(door.port for door in doors))
    return Fences(folders=kept, ports=ports, attached=str(uploads.folder))


def _doors(config: Config) -> list[Door]:
    return [
        Door(
            name=name,
            port=door.port,
            static=Path(door.static).expanduser() if door.static else None,
            public_url=door.public_url,
            login=door.login,
            options=door.options,
        )
        for name, door in config.door.items()
    ]


def invitations_page(protocols: Sequence[ClientProtocol], doors: Sequence[OpenDoor], main: str) -> str:
    """Return the address where an invitation is accepted: on the extra port of a protocol that has a page for it, else
    on the main port."""
    for door in doors:
        if door.protocol.invitations:
            return door.url.rstrip("/") + door.protocol.invitations
    paths = [f"{protocol.prefix}{protocol.invitations}" for protocol in protocols if protocol.invitations]
    return f"{main.rstrip('/')}{paths[0]}" if paths else ""


def _write_server_file(data: Path, url: str) -> Callable[[], Any]:
    path = data / SERVER_FILE
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({"url": url, "pid": os.getpid()}))
    draft.chmod(0o600)
    draft.replace(path)
    return lambda: path.unlink(missing_ok=True)
