"""The services of all rooms and of other packages, joined."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fairlead.agents.context import PrivateFiles
from fairlead.config import Config
from fairlead.model.gateway import Gateway
from fairlead.model.web.requests import ServiceCall, ServiceHandler
from fairlead.server.discovery import discover_services
from fairlead.sessions.folders.workspace import WorkspaceReader
from fairlead.system.services import ServiceContext
from fairlead.wiring import settings
from fairlead.wiring.core import Core


class JoinedServices:
    def __init__(self, context: ServiceContext) -> None:
        self._all = [build(context) for build in discover_services()]
        self.forget_user = [service.forget_user for service in self._all]
        self.forget_credential = [service.forget_credential for service in self._all]

    def handlers(self) -> dict[type[ServiceCall[Any]], ServiceHandler]:
        return {call: handler for service in self._all for call, handler in service.handlers.items()}

    def stop_with(self, stack: contextlib.AsyncExitStack, stop_agents: Callable[[], Awaitable[None]]) -> None:
        """Stop the services when the stack unwinds: some before the agents, the others after them."""
        for service in self._all:
            if not service.stops_first:
                stack.push_async_callback(service.stop)
        stack.push_async_callback(stop_agents)
        for service in self._all:
            if service.stops_first:
                stack.push_async_callback(service.stop)

    async def start(self) -> None:
        for service in sorted(self._all, key=lambda service: service.stops_first):
            await service.start()


def service_context(
    config: Config,
    env: Mapping[str, str],
    core: Core,
    gateway: Gateway,
    private: PrivateFiles,
    parts: Sequence[object],
) -> ServiceContext:
    """Return the context that services are built from. `gateway` reaches the sessions of all nodes; `parts`: those that
    do not belong to the core."""
    context = ServiceContext(
        store=core.dependencies.store,
        clock=core.dependencies.clock,
        gateway=gateway,
        resolve_folder=core.gateway.resolve_folder,
    )
    closed = (*core.policy.fences.folders, *private.folders)
    for part in (
        *parts,
        core.policy,
        core.changes,
        core.read_state,
        core.notifications,
        core.dependencies,
        core.importer,
        core.archive,
        core.trusted_folders,
        WorkspaceReader(core.policy.roots, core.gateway.resolve_folder, closed, private.settings),
        settings.shell_settings(config, env),
    ):
        context.add(part)
    return context
