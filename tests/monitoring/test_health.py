"""Health checks: what is bad is bad for all to see, each change is logged once, and no stranger makes work."""

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairlead.auth.gate import ANONYMOUS
from fairlead.model.errors import Unavailable
from fairlead.monitoring.api import HealthCheck, ReadHealth
from fairlead.monitoring.disk import check_disk
from fairlead.monitoring.health import EVERY_S, FRESH_S, PROBE_S, TICK_S, HealthMonitor
from fairlead_testing.clock import ManualClock
from patience import settled


class Disk:
    """A probe whose answer a test chooses."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: HealthCheck | Exception = HealthCheck(name="disk")

    async def __call__(self) -> HealthCheck:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fairlead.health")
    disk = Disk()
    monitor = HealthMonitor(ManualClock(), {"disk": disk})
    assert (await monitor.check()).ready
    assert caplog.records == []
    disk.answer = HealthCheck(name="disk", level="bad", found="0 MiB free", todo="Free disk space now.")
    for _ in range(3):
        assert not (await monitor.check()).ready
    disk.answer = HealthCheck(name="disk", level="warn", found="20 MiB free")
    assert (await monitor.check()).ready
    disk.answer = HealthCheck(name="disk")
    await monitor.check()
    told: list[Any] = [(record.levelname, record.__dict__["state"]) for record in caplog.records]
    assert told == [("ERROR", "bad"), ("WARNING", "warn"), ("INFO", "ok")]
    assert caplog.records[0].__dict__["todo"] == "Free disk space now."


@pytest.mark.parametrize(
    ("error", "found"),
    [(Unavailable("The disk is full."), "The disk is full."), (OSError(28, "No space left"), "No space left")],
)
async def test_a_probe_that_fails_is_bad(error: Exception, found: str) -> None:
    disk = Disk()
    disk.answer = error
    report = await HealthMonitor(ManualClock(), {"disk": disk}).check()
    assert (report.ready, report.checks[0].level, report.checks[0].found) == (False, "bad", found)


async def test_a_probe_that_hangs_is_bad() -> None:
    clock = ManualClock()

    async def hang() -> HealthCheck:
        await asyncio.Event().wait()
        raise AssertionError

    asked = asyncio.create_task(HealthMonitor(clock, {"store": hang}).check())
    await settled()
    await clock.advance(PROBE_S)
    assert not (await asked).ready


async def test_requests_share_a_fresh_report() -> None:
    clock, disk = ManualClock(), Disk()
    monitor = HealthMonitor(clock, {"disk": disk})
    await asyncio.gather(*(monitor.read(ANONYMOUS, ReadHealth()) for _ in range(20)))
    await monitor.read(ANONYMOUS, ReadHealth())
    assert disk.asked == 1
    await clock.advance(FRESH_S)
    await monitor.read(ANONYMOUS, ReadHealth())
    assert disk.asked == 2


async def test_it_is_checked_in_the_background() -> None:
    clock, disk = ManualClock(), Disk()
    monitor = HealthMonitor(clock, {"disk": disk})
    await monitor.start()
    await settled()
    assert disk.asked == 1
    await clock.advance(EVERY_S)
    await settled()
    assert disk.asked == 2
    await monitor.stop()


async def test_the_lag_is_by_how_much_a_timer_came_late() -> None:
    class LateClock(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds + (2.5 if seconds == TICK_S else 0.0))

    clock = LateClock()
    monitor = HealthMonitor(clock, {})
    await monitor.start()
    await settled()
    assert monitor.lag == 0.0
    await clock.advance(TICK_S + 2.5)
    await settled()
    assert monitor.lag == 2.5
    await monitor.stop()


async def test_a_late_loop_is_a_warning_and_no_reason_to_be_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monitor = HealthMonitor(clock, {})
    monkeypatch.setattr(HealthMonitor, "lag", 3.2)
    report = await monitor.check()
    assert report.ready
    assert (report.checks[0].name, report.checks[0].level) == ("lag", "warn")


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("total", "free", "level"),
    [
        (100 << 30, 50 << 30, "ok"),
        (100 << 30, 512 << 20, "warn"),
        (100 << 30, 8 << 20, "bad"),
        (2 << 30, 512 << 20, "ok"),
        (2 << 30, 100 << 20, "warn"),
    ],
)
def test_the_disk_is_judged_by_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, level: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(total, total - free, free))
    assert check_disk(tmp_path).level == level
