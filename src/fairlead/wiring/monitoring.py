"""The probes of a gateway's health, and the readings for its metrics."""

import asyncio
import contextlib
from collections import Counter
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from fairlead.audit.log import AuditLog
from fairlead.config import Config
from fairlead.keeper.access import KeeperAccess
from fairlead.model.web.requests import ServiceHandlers
from fairlead.monitoring.api import HealthCheck, ReadHealth, ReadMetrics
from fairlead.monitoring.counters import Counters
from fairlead.monitoring.disk import check_disk, free_bytes
from fairlead.monitoring.health import HealthMonitor, Probe
from fairlead.monitoring.metrics import Metrics, Readings
from fairlead.server.shares import CredentialShares
from fairlead.stores.api import GatewayStore
from fairlead.stores.sqlite.connections import DATABASE, SEARCH
from fairlead.system.clock import Clock
from fairlead.system.services import ServiceContext
from fairlead.terminals.api import session_of_terminal
from fairlead.terminals.registry import TerminalRegistry
from fairlead.wiring.core import Core

_SLOW_S = 1.0
"""Duration of a write from which on there is a warning."""


class MonitoredParts(NamedTuple):
    """What is read for the metrics. `keeper`: None without one."""

    core: Core
    context: ServiceContext
    shares: CredentialShares
    audit: AuditLog
    counters: Counters
    keeper: KeeperAccess | None


class Monitor:
    def __init__(self, config: Config, clock: Clock, store: GatewayStore, parts: MonitoredParts) -> None:
        self._data = Path(config.data)
        self._clock = clock
        self._store = store
        self._parts = parts
        self._write_s = 0.0
        """How long the last test write took."""
        probes: dict[str, Probe] = {"store": self._check_store, "disk": self._check_disk, "audit": self._check_audit}
        if parts.keeper is not None:
            probes["keeper"] = partial(self._check_keeper, parts.keeper)
        self.health = HealthMonitor(clock, probes)
        self._metrics = Metrics(version("fairlead"), parts.counters, self.health, self._read)

    def handlers(self) -> ServiceHandlers:
        return {ReadHealth: self.health.read, ReadMetrics: self._metrics.answer}

    async def _check_store(self) -> HealthCheck:
        began = self._clock.monotonic()
        await self._store.documents.put("health", "probe", self._clock.now_ms())
        self._write_s = self._clock.monotonic() - began
        found = f"a write took {self._write_s:.3f} seconds"
        if self._write_s < _SLOW_S:
            return HealthCheck(name="store", found=found)
        return HealthCheck(name="store", level="warn", found=found, todo="The disk is slow or overloaded.")

    async def _check_disk(self) -> HealthCheck:
        return await asyncio.to_thread(check_disk, self._data)

    async def _check_audit(self) -> HealthCheck:
        if not self._parts.audit.problem:
            return HealthCheck(name="audit", found=f"{self._parts.audit.head.n} entries")
        todo = "Commands other than stopping are refused until it can be written: free disk space."
        return HealthCheck(name="audit", level="bad", found=self._parts.audit.problem, todo=todo)

    async def _check_keeper(self, keeper: KeeperAccess) -> HealthCheck:
        if not keeper.started:
            return HealthCheck(name="keeper", found="starts with the first agent or terminal")
        # One that has ended is replaced now, and not only with the next agent.
        await keeper.opened()
        return HealthCheck(name="keeper", found="connected")

    def _read(self) -> Readings:
        """What is true now, for the metrics."""
        core, context, shares, audit, _, _ = self._parts
        sessions = core.registry.all_loaded()
        files = {}
        for name in (DATABASE, f"{DATABASE}-wal", SEARCH):
            with contextlib.suppress(OSError):
                files[name] = (self._data / name).stat().st_size
        return Readings(
            sessions=Counter(session.core.state.summary().state for session in sessions),
            agents=sum(session.supervisor.agent is not None for session in sessions),
            terminals=sum(not session_of_terminal(name) for name in context.get(TerminalRegistry).names()),
            queued=sum(len(session.core.state.queue) for session in sessions),
            pending=sum(len(session.core.state.pending) for session in sessions),
            connections=shares.open,
            audit_entries=audit.head.n,
            audit_lost=audit.lost,
            disk_free=free_bytes(self._data),
            files=files,
            store_write_s=self._write_s,
        )
