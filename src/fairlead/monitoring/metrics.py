"""Metrics in Prometheus' text format, made when they are asked for. The library is imported with the first request."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.monitoring.api import ReadHealth, ReadMetrics
from fairlead.monitoring.counters import BUCKETS, Counters
from fairlead.monitoring.health import HealthMonitor

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """What is true now."""

    sessions: Mapping[str, int]
    """By state: those in memory."""
    agents: int
    terminals: int
    queued: int
    pending: int
    connections: int
    audit_entries: int
    audit_lost: int
    disk_free: int
    files: Mapping[str, int]
    """Sizes of the database's files, in bytes."""
    store_write_s: float


class Metrics:
    """`read` returns what is true now."""

    def __init__(self, version: str, counters: Counters, health: HealthMonitor, read: Callable[[], Readings]) -> None:
        self._version = version
        self._counters = counters
        self._health = health
        self._read = read
        self._registry: Any = None

    async def answer(self, who: Identity, call: ReadMetrics) -> bytes:
        await self._health.read(who, ReadHealth())
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._registry is None:
            self._registry = CollectorRegistry()
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterable[Any]:
        """Called by the library for each answer."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        def gauge(name: str, about: str, value: float) -> Any:
            return GaugeMetricFamily(f"fairlead_{name}", about, value=value)

        def gauges(name: str, about: str, label: str, values: Mapping[str, float]) -> Any:
            family = GaugeMetricFamily(f"fairlead_{name}", about, labels=[label])
            for key, value in values.items():
                family.add_metric([key], value)
            return family

        def counts(name: str, about: str, labels: list[str], values: Mapping[Any, float]) -> Any:
            family = CounterMetricFamily(f"fairlead_{name}", about, labels=labels)
            for key, value in sorted(values.items()):
                family.add_metric([key] if isinstance(key, str) else list(key), value)
            return family

        now, counted = self._read(), self._counters
        report = self._health.last
        yield gauges("info", "The version of the gateway.", "version", {self._version: 1})
        yield gauge("ready", "1 if no health check is bad.", report.ready)
        levels = {check.name: {"ok": 0, "warn": 1, "bad": 2}[check.level] for check in report.checks}
        yield gauges("health", "Health checks: 0 is ok, 1 a warning, 2 bad.", "check", levels)
        yield gauge("loop_lag_seconds", "How late the event loop was, at most, in the last minute.", self._health.lag)
        yield gauge("store_write_seconds", "How long the last test write to the database took.", now.store_write_s)
        yield gauge("disk_free_bytes", "Free bytes on the disk of the data folder.", now.disk_free)
        yield gauges("database_bytes", "Sizes of the database's files.", "file", now.files)
        yield gauges("sessions", "Sessions in memory, by state.", "state", now.sessions)
        yield gauge("agents", "Running processes of agents.", now.agents)
        yield gauge("terminals", "Running terminals of people.", now.terminals)
        yield gauge("queued_messages", "Messages that wait for their turn.", now.queued)
        yield gauge("pending_permissions", "Permission requests that wait for a person.", now.pending)
        yield gauge("connections", "Open sockets and requests with a credential.", now.connections)
        yield counts("audit_entries", "Entries of the audit log.", [], {(): now.audit_entries})
        yield gauge("audit_lost_entries", "Entries that could not be written yet.", now.audit_lost)
        yield counts("turns", "Turns that ended, by status.", ["status"], counted.turns)
        yield counts("turn_cost_usd", "Cost of these turns in US dollars.", [], {(): counted.cost_usd})
        yield counts("tokens", "Tokens of these turns.", ["kind"], counted.tokens)
        about = "Decided permission requests, by decision and by who decided."
        yield counts("permission_decisions", about, ["behavior", "how"], counted.decisions)
        yield counts("commands", "Commands, by outcome.", ["command", "outcome"], counted.commands)
        yield counts("refused_requests", "Requests that the gate refused, by code.", ["code"], counted.refused)
        durations = HistogramMetricFamily("fairlead_command_seconds", "Durations of commands.")
        durations.add_metric([], _cumulated(counted.durations), counted.seconds)
        yield durations


def _cumulated(counts: list[int]) -> list[tuple[str, float]]:
    limits = [*map(str, BUCKETS), "+Inf"]
    return [(limit, sum(counts[: place + 1])) for place, limit in enumerate(limits)]
