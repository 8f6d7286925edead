"""The health of a running gateway: probes run in the background and on request, and each change is logged."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.monitoring.api import HealthCheck, HealthReport, ReadHealth
from fairlead.system.clock import Clock, within

Probe = Callable[[], Awaitable[HealthCheck]]
"""Checks one thing. An OSError or FairleadError that it raises means: bad."""

EVERY_S: Final = 15.0
FRESH_S: Final = 5.0
"""A report of this age answers a request: strangers may ask too."""
PROBE_S: Final = 5.0
"""A probe that takes longer is bad."""
TICK_S: Final = 1.0
LAG_S: Final = 1.0
"""The lag of the event loop from which on there is a warning."""
_TICKS: Final = 60

_log = logging.getLogger("fairlead.health")


class HealthMonitor:
    """`probes` by the name of their check. The lag of the event loop is checked too."""

    def __init__(self, clock: Clock, probes: Mapping[str, Probe]) -> None:
        self._clock = clock
        self._probes = {**probes, "lag": self._check_lag}
        self._report = HealthReport(ready=True, checks=())
        self._at = -FRESH_S
        self._running: asyncio.Task[HealthReport] | None = None
        self._lags: deque[float] = deque([0.0], maxlen=_TICKS)
        self._background: list[asyncio.Task[None]] = []

    @property
    def last(self) -> HealthReport:
        return self._report

    @property
    def lag(self) -> float:
        """By how many seconds the event loop was late, at most, within the last minute."""
        return max(self._lags)

    async def start(self) -> None:
        self._background = [asyncio.create_task(self._repeat()), asyncio.create_task(self._measure_lag())]

    async def stop(self) -> None:
        ending = [*self._background, *([] if self._running is None else [self._running])]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)

    async def read(self, who: Identity, call: ReadHealth) -> HealthReport:
        if self._clock.monotonic() - self._at < FRESH_S:
            return self._report
        return await self.check()

    async def check(self) -> HealthReport:
        """Run the probes. Callers at the same time share one run."""
        if self._running is None:
            self._running = asyncio.create_task(self._check())
            self._running.add_done_callback(self._ended)
        return await asyncio.shield(self._running)

    def _ended(self, task: asyncio.Task[HealthReport]) -> None:
        self._running = None

    async def _check(self) -> HealthReport:
        checks = tuple(await asyncio.gather(*(self._probe(name, probe) for name, probe in self._probes.items())))
        before = {check.name: check.level for check in self._report.checks}
        self._report = HealthReport(ready=all(check.level != "bad" for check in checks), checks=checks)
        self._at = self._clock.monotonic()
        for check in checks:
            if check.level != before.get(check.name, "ok"):
                _log_change(check)
        return self._report

    async def _probe(self, name: str, probe: Probe) -> HealthCheck:
        try:
            return await within(self._clock, PROBE_S, probe())
        except TimeoutError:
            todo = "The disk or the machine is overloaded; see the page on incidents."
            return HealthCheck(name=name, level="bad", found=f"no answer within {PROBE_S:.0f} seconds", todo=todo)
        except FairleadError as error:
            return HealthCheck(name=name, level="bad", found=error.message)
        except OSError as error:
            return HealthCheck(name=name, level="bad", found=error.strerror or str(error))

    async def _check_lag(self) -> HealthCheck:
        found = f"at most {self.lag:.1f} seconds within the last minute"
        if self.lag < LAG_S:
            return HealthCheck(name="lag", found=found)
        todo = "The machine is overloaded, or one request blocks the others: see fairlead_loop_lag_seconds and the log."
        return HealthCheck(name="lag", level="warn", found=found, todo=todo)

    async def _repeat(self) -> None:
        while True:
            with contextlib.suppress(Exception):
                await self.check()
            await self._clock.sleep(EVERY_S)

    async def _measure_lag(self) -> None:
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(TICK_S)
            self._lags.append(max(0.0, self._clock.monotonic() - before - TICK_S))


def _log_change(check: HealthCheck) -> None:
    level = {"ok": logging.INFO, "warn": logging.WARNING, "bad": logging.ERROR}[check.level]
    extra = {"check": check.name, "state": check.level, "found": check.found, "todo": check.todo}
    _log.log(level, "health changed", extra={name: value for name, value in extra.items() if value})
