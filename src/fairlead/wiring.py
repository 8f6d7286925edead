"""The one file that joins the concrete pieces: settings in, a running gateway out."""

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
from fairlead.agents.claude.transcripts import ClaudeTranscripts, default_homes
from fairlead.agents.demo.kind import DemoKind
from fairlead.auth.actions import CredentialActions
from fairlead.auth.bootstrap import bootstrap_admin
from fairlead.auth.credentials import Credentials
from fairlead.auth.hosts import House
from fairlead.auth.keyfile import TokenKey
from fairlead.auth.keys import SessionKeys
from fairlead.config import Config, default_file
from fairlead.model.admin import FolderReport
from fairlead.model.agents import AgentInfo, AgentKind
from fairlead.model.dialin import Tokens
from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId
from fairlead.model.news import What
from fairlead.model.policy import Behavior, Rule, parse_rule
from fairlead.model.requests import Action
from fairlead.model.routes import ClientProtocol
from fairlead.model.terminals import Terminals
from fairlead.notices import Caller, Room, networks
from fairlead.plugins import Plugins, PluginSettings, plugin_environment
from fairlead.server import limits as serving
from fairlead.server.app import App, Parts
from fairlead.server.binding import Binding, house_of, open_sockets, urls
from fairlead.server.doors import Door, OpenDoor, check_doors, open_door
from fairlead.server.logging import Redactor, configure_logging
from fairlead.server.pages import page_performers
from fairlead.server.protocols import discover, views_of
from fairlead.server.runner import Runner
from fairlead.server.shell import WebShell
from fairlead.server.steps import Performer, leaving, trust_performers
from fairlead.sessions.folders import Folders
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.halls import Halls
from fairlead.sessions.news import NewsDesk
from fairlead.sessions.policy import Fences
from fairlead.sessions.registry import Registry
from fairlead.sessions.services import Limits, McpServer, PolicySettings, Services
from fairlead.sessions.shown import ShownBook
from fairlead.sessions.surroundings import FolderBook
from fairlead.sessions.transcripts import Keeper
from fairlead.sessions.trust import TrustBook
from fairlead.sessions.workspace import Workspace
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.uploads import FOLDER as UPLOADS
from fairlead.stores.uploads import Uploads
from fairlead.system.clock import SystemClock
from fairlead.terminals import (
    AGENT,
    PROVIDERS,
    Desks,
    Provider,
    Shells,
    ShellSettings,
    TerminalActions,
    TerminalRegistry,
    shell_environment,
)

log = logging.getLogger("fairlead")

SERVER_FILE = "server.json"
"""In the data folder while a gateway runs: where the other commands find it."""
AGENT_BYTES = 250 << 20
"""Memory of one agent process (measured: 200 MB alone, 105 to 200 MB each at 24)."""
MOST_AGENTS = 64


class DoorTold(msgspec.Struct, frozen=True, kw_only=True):
    """Where a door is; `static` the folder whose files it serves, if any."""

    name: str
    url: str
    static: str = ""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway that has started tells."""

    url: str
    urls: tuple[str, ...]
    data: str
    token: str
    agent: AgentInfo
    version: str
    doors: tuple[DoorTold, ...] = ()


class Gateway:
    """A whole gateway; `start` it, then `serve` until it is stopped."""

    def __init__(self, config: Config, env: Mapping[str, str], mcp: Mapping[str, McpServer] | None = None) -> None:
        self.config = config
        self._env = env
        self._mcp = dict(mcp or {})
        self._clock = SystemClock()

    async def serve(self, announce: Callable[[Running], None] = lambda running: None, *, signals: bool = True) -> None:
        """Start, tell where it is, run until `stop` or a signal, end everything in order."""
        async with contextlib.AsyncExitStack() as stack:
            running = await self._start(stack, alone=signals)
            serving = asyncio.create_task(self._runner.serve(signals=signals))
            ready = asyncio.create_task(self._runner.ready())
            await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                # Told only now: who reads where it is can connect.
                stack.callback(_tell_where(Path(running.data), running.urls[0]))
                announce(running)
            ready.cancel()
            await serving

    def stop(self) -> None:
        self._runner.stop()

    async def _start(self, stack: contextlib.AsyncExitStack, *, alone: bool) -> Running:
        """`alone`: the process is ours, and so is its log."""
        config = self.config
        data = Path(config.data)
        redactor = configure_logging(config.log_format, config.log_level.upper()) if alone else Redactor()
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
        credentials = Credentials(store.documents, self._clock, key=TokenKey(data))
        await credentials.load()
        stack.push_async_callback(credentials.close)
        token = await bootstrap_admin(credentials, data, self._env.get("FAIRLEAD_TOKEN"))
        redactor.hide(token)
        terminals = TerminalRegistry(self._clock, config.max_terminals)
        stack.push_async_callback(terminals.close)
        house = house_of(binding, sockets)
        address = urls(binding, sockets)[0]
        kinds = agent_kinds(config, self._env, self._clock, credentials.agents, address, terminals)
        chosen = await choose_agent(config, kinds)
        transcripts = self._transcripts(data)
        uploads = Uploads(data / UPLOADS)
        await uploads.start()
        fences = _fences((data, plugins_folder(config)), uploads, house, doors)
        closed = (*fences.folders, str(default_file(self._env).parent))
        news = NewsDesk(self._clock)
        notices = self._notices(store, data)
        await notices.begin()

        def told(session: SessionId, what: What) -> None:
            news.tell(session, what)
            notices.news(session, what)

        services = msgspec.structs.replace(
            self._services(store, kinds, chosen.name, fences, transcripts),
            views=views_of(protocols),
            news=told,
            committed=notices.committed,
        )
        registry = self._registry = Registry(services)
        keeper = self._keeper = registry.opener = Keeper(
            services, transcripts, registry, archive=config.archive, archive_bytes=config.archive_bytes
        )
        gateway = self._gateway = SessionGateway(services, registry)
        self._trust = TrustBook(store.documents, self._clock, self._describe, gateway.resolve_folder)
        shells = Shells(terminals, self._clock, shell_settings(config, self._env), gateway.resolve_folder)
        stack.push_async_callback(shells.close)
        desks = Desks(
            terminals, shells, providers(config), gateway, store.documents, self._clock, gateway.resolve_folder
        )
        stack.push_async_callback(desks.close)
        plugins = Plugins(store.documents, self._clock, plugin_settings(config, self._env))
        limits = server_limits(config)
        shell = WebShell()
        inbound = [protocol for kind in kinds.values() if (protocol := kind.protocol()) is not None]
        page = invitations_page(protocols, doors, config.public_url or address)
        inbound.append(shell.protocol())
        people = CredentialActions(credentials, page).performers()
        performers: dict[type[Action], Performer] = {
            **leaving(people, notices.revoked, (uploads.forget, shells.forget)),
            **SessionKeys(store.documents).performers(),
            **trust_performers(self._trust),
            **keeper.performers(),
            **ShownBook(store.documents, news.tell).performers(),
            **news.performers(),
            **Halls(news, store.summary).performers(),
            **TerminalActions(terminals).performers(),
            **shells.performers(),
            **desks.performers(),
            **FolderBook(store.documents, services.policy, gateway.resolve_folder).performers(),
            **Folders(services.policy.roots, gateway.resolve_folder).performers(),
            **Workspace(services.policy.roots, gateway.resolve_folder, closed).performers(),
            **notices.performers(),
            **plugins.performers(),
            **page_performers(plugins),
            **shell.performers(),
            **uploads.performers(),
        }
        for kind in kinds.values():
            performers.update(kind.performers())
        parts = Parts(
            protocols=protocols,
            inbound=inbound,
            gateway=gateway,
            performers=performers,
            credentials=credentials,
            house=house,
            clock=self._clock,
            version=version("fairlead"),
            base=config.public_url,
            limits=limits,
        )
        behind = [(door, door.app(parts)) for door in doors]
        self._runner = Runner(App(parts), binding, sockets, self._clock, limits, behind)
        await registry.start(kill_children=config.on_restart == "kill")
        await desks.start()
        stack.push_async_callback(notices.stop)
        stack.push_async_callback(registry.stop)
        await notices.start()
        stack.push_async_callback(plugins.stop)
        await plugins.start()
        keeper.start()
        stack.push_async_callback(keeper.stop)
        url = config.public_url or self._runner.urls[0]
        return Running(
            url=url,
            urls=self._runner.urls,
            data=str(data),
            token=token,
            agent=chosen,
            version=version("fairlead"),
            doors=tuple(DoorTold(name=door.name, url=door.url, static=str(door.static or "")) for door in doors),
        )

    def _services(
        self,
        store: SqliteStore,
        kinds: Mapping[str, AgentKind],
        default: str,
        fences: Fences,
        transcripts: ClaudeTranscripts,
    ) -> Services:
        config = self.config

        async def trusted(folder: str) -> bool:
            return await self._trust.is_trusted(folder)

        async def make_room(session: str) -> None:
            await self._registry.make_room(session)

        return Services(
            store=store,
            clock=self._clock,
            kinds=kinds,
            default_agent=default,
            policy=PolicySettings(
                roots=tuple(os.path.realpath(root) for root in config.roots),
                resolve=os.path.realpath,
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
            limits=Limits(
                idle_s=config.idle_minutes * 60,
                max_agents=config.max_agents or agents_by_memory(),
                watcher_buffer=config.watcher_bytes,
            ),
            mcp=self._mcp,
            mcp_configs={name: msgspec.to_builtins(server) for name, server in config.mcp.items()},
            session_env=frozenset(config.session_env),
        )

    def _notices(self, store: SqliteStore, data: Path) -> Room:
        async def title(session: SessionId) -> str:
            summary = await store.summary(session)
            return "" if summary is None else summary.title

        return Room(
            store.shelf,
            store.documents,
            lambda: self._gateway,
            data,
            self._clock,
            fresh=lambda: str(uuid.uuid4()),
            title=title,
            caller=Caller(self._clock, networks(self.config.notify_private)),
            public_url=self.config.public_url,
        )

    def _transcripts(self, data: Path) -> ClaudeTranscripts:
        config = self.config
        homes = [Path(home).expanduser() for home in config.claude_homes]
        return ClaudeTranscripts(
            homes or default_homes(self._env, config.claude_home), self._clock, str(data / "oversize")
        )

    def _describe(self, folder: str) -> FolderReport:
        return trust.describe(folder, self.config.claude_home or self._env.get("HOME", ""))


@contextlib.asynccontextmanager
async def running(
    config: Config, env: Mapping[str, str], mcp: Mapping[str, McpServer] | None = None
) -> AsyncIterator[Running]:
    """A gateway inside this process, for tests and for programs that embed one."""
    gateway = Gateway(config, env, mcp)
    started: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
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
    tokens: Tokens | None = None,
    url: str = "",
    terminals: Terminals | None = None,
) -> dict[str, ClaudeKind]:
    """Every agent that can be asked for by name. With tokens and our own address, agents can dial in there."""
    settings = ClaudeSettings(
        host=env,
        executable=config.claude,
        home=config.claude_home,
        pass_env=config.pass_env,
        spill=str(Path(config.data) / "oversize"),
        gateway=url.replace("http", "ws", 1),
        certificate=os.path.realpath(config.tls_cert) if config.tls_cert else "",
    )
    demo = msgspec.structs.replace(settings, home=str(Path(config.data) / "demo-home"))
    return {"claude": ClaudeKind(settings, clock, tokens, terminals), "demo": DemoKind(demo, clock)}


def shell_settings(config: Config, env: Mapping[str, str]) -> ShellSettings:
    return ShellSettings(
        program=config.shell or env.get("SHELL", "") or "/bin/bash",
        env=shell_environment(env),
        idle_s=config.terminal_idle_minutes * 60,
        recordings=str(Path(config.data) / "recordings") if config.record_terminals else "",
    )


def plugin_settings(config: Config, env: Mapping[str, str]) -> PluginSettings:
    return PluginSettings(
        folder=plugins_folder(config),
        env=plugin_environment(env),
        programs={".py": sys.executable, ".js": "node", ".mjs": "node", ".cjs": "node"},
        message_bytes=config.frame_bytes,
    )


def plugins_folder(config: Config) -> Path:
    return Path(config.plugins).expanduser() if config.plugins else Path(config.data) / "plugins"


def providers(config: Config) -> dict[str, Provider]:
    """The programs that a terminal may be asked for by name. BadRequest."""
    taken = {AGENT: "claude", "plain-shell": "shell"}
    for name in config.provider:
        if name in taken:
            raise BadRequest(f"Setting provider: {name} is set by the setting {taken[name]}.")
    chosen = {
        name: Provider(command=provider.command, resume=provider.resume) for name, provider in config.provider.items()
    }
    return {**PROVIDERS, **chosen}


async def choose_agent(config: Config, kinds: Mapping[str, AgentKind]) -> AgentInfo:
    """The agent that sessions get: `auto` takes Claude Code where it is installed, else the demo."""
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
    """As many agents as fit into the memory that is free now, at least two."""
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 8
    return max(2, min(MOST_AGENTS, pages // AGENT_BYTES))


def server_limits(config: Config) -> serving.Limits:
    return serving.Limits(
        message_bytes=config.frame_bytes,
        commands_per_s=config.commands_per_second,
        waiting=config.waiting_sockets,
        waiting_per_address=config.waiting_per_address,
        # Twice a watcher's buffer, so that somebody who is behind with history is still heard.
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


def _fences(folders: Sequence[Path], uploads: Uploads, house: House, doors: Sequence[OpenDoor]) -> Fences:
    """What no tool may touch, whatever the rules say: among it what the gateway runs by itself."""
    kept = tuple(os.path.realpath(folder) for folder in folders)
    ports = tuple(door.port for door in doors)
    return Fences(folders=kept, port=min(house.ports), doors=ports, attached=str(uploads.folder))


def _doors(config: Config) -> list[Door]:
    return [
        Door(
            name=name,
            port=door.port,
            static=Path(door.static).expanduser() if door.static else None,
            public_url=door.public_url,
            options=door.options,
        )
        for name, door in config.door.items()
    ]


def invitations_page(protocols: Sequence[ClientProtocol], doors: Sequence[OpenDoor], main: str) -> str:
    """Where an invitation is accepted: on the door of a protocol that has a page for it, else on the main port."""
    for door in doors:
        if door.protocol.invitations:
            return door.url.rstrip("/") + door.protocol.invitations
    paths = [f"{protocol.prefix}{protocol.invitations}" for protocol in protocols if protocol.invitations]
    return f"{main.rstrip('/')}{paths[0]}" if paths else ""


def _tell_where(data: Path, url: str) -> Callable[[], Any]:
    path = data / SERVER_FILE
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({"url": url, "pid": os.getpid()}))
    draft.chmod(0o600)
    draft.replace(path)
    return lambda: path.unlink(missing_ok=True)
