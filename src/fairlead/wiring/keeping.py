"""The keeper at the start of a gateway: the connection to it, and what it holds of an earlier gateway."""

import contextlib
from pathlib import Path

from fairlead.agents.links.kept import AGENT
from fairlead.auth.credentials import Credentials
from fairlead.config import Config
from fairlead.keeper.access import KeeperAccess
from fairlead.sessions.permissions.policy.paths import inside_any
from fairlead.sessions.registry import Registry
from fairlead.system.clock import Clock
from fairlead.terminals.registry import TerminalRegistry
from fairlead.wiring.core import Core


async def open_keeper(config: Config, clock: Clock, stack: contextlib.AsyncExitStack) -> KeeperAccess | None:
    """Return the way to the keeper, connected if one runs; None if the settings want no keeper."""
    if not config.keeper:
        return None
    shared = config.shared
    keeper = KeeperAccess(
        Path(config.data), clock, config.orphan_minutes * 60, lambda folder: inside_any(folder, shared)
    )
    stack.push_async_callback(keeper.close)
    await keeper.find_running()
    return keeper


async def restore(
    keeper: KeeperAccess, config: Config, core: Core, terminals: TerminalRegistry, credentials: Credentials
) -> None:
    """Prepare to take over what the keeper holds, before sessions are recovered. Agents that no session knows, or that
    are not to survive by the setting `on_restart`, are ended."""
    children = [] if config.on_restart == "kill" else await core.dependencies.children()
    await keeper.end_unknown(AGENT, {(child.pid, child.started) for child in children})
    terminals.restore(keeper.found, lambda user: credentials.users.get(user) is not None)


async def end_unadopted(registry: Registry, terminals: TerminalRegistry) -> None:
    """End the terminals that have no owner any more, after the sessions have adopted theirs."""
    await registry.adopted()
    await terminals.end_unadopted()
