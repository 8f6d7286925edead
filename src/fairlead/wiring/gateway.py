"""A whole gateway: builds the parts in their order, joins the services in a loop, and stops everything in reverse."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fairlead.agents.context import WiredKind
from fairlead.audit.log import AuditLog
from fairlead.auth.actions import CredentialActions
from fairlead.auth.bootstrap import bootstrap_admin
from fairlead.auth.cluster_key import ClusterKey
from fairlead.auth.credentials import Credentials
from fairlead.config import Config
from fairlead.keeper.access import KeeperAccess
from fairlead.model.agents import AgentInfo
from fairlead.model.errors import FairleadError
from fairlead.model.web.routes import ClientProtocol
from fairlead.monitoring.counters import Counters
from fairlead.plugins.manager import PluginManager
from fairlead.server import limits as serving
from fairlead.server.app import App, AppConfig
from fairlead.server.discovery import discover
from fairlead.server.logging import Redactor, configure_logging
from fairlead.server.plugin_pages import page_handlers
from fairlead.server.runner import ServerRunner
from fairlead.server.shares import CredentialShares
from fairlead.server.webui import WebUi
from fairlead.sessions.dependencies import McpServerSettings
from fairlead.sessions.process.operation import GatewayOperation
from fairlead.stores.api import GatewayStore
from fairlead.system import descriptors
from fairlead.system.clock import SystemClock
from fairlead.system.services import ServiceContext
from fairlead.system.user_folders import default_file
from fairlead.terminals.registry import TerminalRegistry
from fairlead.transcripts.database import FILE as TRANSCRIPTS
from fairlead.transcripts.database import TranscriptDatabase
from fairlead.uploads.service import FOLDER as UPLOADS
from fairlead.uploads.service import Uploads
from fairlead.wiring import agents, auditing, keeping, settings
from fairlead.wiring.agents import ChosenSandbox
from fairlead.wiring.cell import CellNode, cluster_key, make_credentials
from fairlead.wiring.core import Core, open_transcript_texts, warn_about_shared_sessions
from fairlead.wiring.handlers import join_handlers
from fairlead.wiring.info import GatewayInfo, write_server_file
from fairlead.wiring.monitoring import Monitor, MonitoredParts
from fairlead.wiring.network import Network, open_network
from fairlead.wiring.services import JoinedServices, service_context
from fairlead.wiring.stores import open_store


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
        self._failure: FairleadError | None = None
        self._keeper: KeeperAccess | None = None
        self._detaches: Callable[[], bool] = lambda: False
        """Whether agents and terminals at the keeper outlive this gateway, asked when it stops."""

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
                stack.callback(write_server_file(Path(running.data), running.urls[0], alone=signals))
                announce(running)
            ready.cancel()
            await serving
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._runner.stop()

    def _fail(self, failure: FairleadError) -> None:
        """Stop, and raise this error from `serve`."""
        self._failure = failure
        self.stop()

    async def _start(self, stack: contextlib.AsyncExitStack, *, alone: bool) -> GatewayInfo:
        """Start all parts. `alone`: the process belongs to the gateway, with its log, its limit of open files and its
        keeper. A gateway inside another program runs its agents itself."""
        config, data = self.config, Path(self.config.data)
        redactor = configure_logging(config.log_format, config.log_level.upper()) if alone else Redactor()
        limits = settings.server_limits(config, descriptors.raise_limit() if alone else descriptors.limit())
        protocols = discover()
        network = open_network(config, protocols, stack)
        key = cluster_key(config)
        store = await open_store(config, self._clock, self._fail)
        stack.push_async_callback(store.close)
        audit = await auditing.open_audit(config, self._clock, stack)
        credentials = make_credentials(config, store.documents, self._clock, key)
        await credentials.load()
        auditing.record_sign_ins(credentials, audit)
        stack.push_async_callback(credentials.close)
        token = await bootstrap_admin(credentials, data, self._env.get("FAIRLEAD_TOKEN"))
        redactor.hide(token)
        if alone:
            self._keeper = await keeping.open_keeper(config, self._clock, stack)
        sandbox = await agents.settle_sandbox(config, self._env, self._file)
        counters = Counters()
        core, context, kinds, agent = await self._build_core(
            stack, protocols, network, store, credentials, sandbox, key, audit, counters
        )
        self.core = core
        self.operation = GatewayOperation(
            core.registry,
            stop=self.stop,
            terminals=context.get(TerminalRegistry).names,
            detaches=self._keeper is not None and config.on_stop == "detach",
        )
        self._detaches = lambda: self.operation.detaches
        services = JoinedServices(context)
        services.stop_with(stack, self.operation.stop_agents)
        webui = WebUi()
        cleanup = self._node.removal_cleanup(services, stack)
        page = settings.invitations_page(protocols, network.doors, config.public_url or network.address)
        shares = CredentialShares(serving.open_per_credential(limits), limits.bytes_per_credential)
        monitored = MonitoredParts(core, context, shares, audit, counters, self._keeper)
        monitor = Monitor(config, self._clock, store, monitored)
        accounts = cleanup.with_cleanup(CredentialActions(credentials, page).handlers())
        nodes = self._node.service().handlers()
        calls = (monitor.handlers(), accounts, services.handlers(), self.operation.handlers(), nodes)
        pages = (page_handlers(context.get(PluginManager)), webui.handlers())
        handlers = join_handlers(core.gateway.ownership, audit, calls, pages, kinds)
        parts = AppConfig(
            protocols=protocols,
            inbound=[*filter(None, (kind.protocol() for kind in kinds.values())), webui.protocol()],
            gateway=core.port,
            handlers=handlers,
            credentials=credentials,
            allowed_origins=network.origins,
            clock=self._clock,
            version=version("fairlead"),
            base=config.public_url,
            limits=limits,
            on_refused=auditing.refusals(audit, counters),
            shares=shares,
            closed=lambda: self._node.closed,
            tunnel=self._node.tunnel(),
        )
        behind = [(door, door.app(parts)) for door in network.doors]
        app = App(parts)
        self._node.serve_sockets(app, stack)
        self._runner = ServerRunner(app, network.binding, network.sockets, self._clock, limits, behind)
        terminals = context.get(TerminalRegistry)
        if self._keeper is not None:
            await keeping.restore(self._keeper, config, core, terminals, credentials)
        await core.registry.start(kill_children=config.on_restart == "kill")
        await cleanup.start()
        self._node.start(stack)
        await warn_about_shared_sessions(store)
        await services.start()
        await monitor.health.start()
        stack.push_async_callback(monitor.health.stop)
        core.registry.tasks.spawn(keeping.end_unadopted(core.registry, terminals))
        return GatewayInfo(
            url=config.public_url or self._runner.urls[0],
            urls=self._runner.urls,
            data=str(data),
            token=token,
            agent=agent,
            version=version("fairlead"),
            exposed=sandbox.exposed,
            doors=tuple(network.doors),
        )

    async def _build_core(
        self,
        stack: contextlib.AsyncExitStack,
        protocols: Sequence[ClientProtocol],
        network: Network,
        store: GatewayStore,
        credentials: Credentials,
        sandbox: ChosenSandbox,
        key: ClusterKey | None,
        audit: AuditLog,
        counters: Counters,
    ) -> tuple[Core, ServiceContext, Mapping[str, WiredKind], AgentInfo]:
        """Build the agents and the session core; also return the context of the services and the default agent."""
        config, env, clock, data = self.config, self._env, self._clock, Path(self.config.data)
        uploads = Uploads(data / UPLOADS)
        await uploads.start()
        confined = agents.agents_sandbox(config, env, sandbox.sandbox)
        terminals = TerminalRegistry(
            clock,
            config.max_terminals,
            agents=confined,
            people=sandbox.sandbox,
            keeper=None if self._keeper is None else self._keeper.opened,
        )
        stack.push_async_callback(lambda: terminals.close(detach=self._detaches()))
        kinds = agents.agent_kinds(
            config, env, clock, credentials.agents, network.address, terminals, confined, self._keeper
        )
        agent = await agents.choose_agent(config, kinds)
        owner = settings.folder_identity(data)
        places = (data, settings.plugins_folder(config), *settings.settings_places(self._file, env))
        closed = (*places, *((Path(config.cluster_key),) if config.cluster_key else ()))
        core = Core(
            config,
            home=env.get("HOME"),
            store=store,
            clock=clock,
            credentials=credentials,
            protocols=protocols,
            kinds=kinds,
            default_agent=agent.name,
            fences=settings.tool_fences(closed, uploads, network.origins, network.doors),
            transcripts=agents.transcripts_source(kinds),
            transcript_texts=await open_transcript_texts(config, stack),
            mcp=self._mcp,
            owner=owner,
            describe_folder=partial(agents.describe_folder, kinds),
            address=network.address,
            private=agents.private_files(kinds),
            git=settings.git_access(env, confined),
            audit=audit,
            counters=counters,
            secrets_key=key.derive("secrets", 32) if key else b"",
        )
        self._node = CellNode(config, core, store, credentials, clock, env.get("HOME"))
        core.publish(self._node.gateway)
        await core.notifications.begin()
        plugins = settings.plugin_settings(config, env, sandbox.sandbox, owner)
        parts = (uploads, terminals, plugins, audit, TranscriptDatabase(data / TRANSCRIPTS))
        return core, service_context(config, env, core, parts), kinds, agent
