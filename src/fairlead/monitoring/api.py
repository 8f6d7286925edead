"""Health checks and metrics: service calls and their answers. Pure."""

from typing import Literal

import msgspec

from fairlead.model.web.requests import ServiceCall

Level = Literal["ok", "warn", "bad"]


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`bad`: the gateway cannot do its work. `todo` says what a person can do."""

    name: str
    level: Level = "ok"
    found: str = ""
    todo: str = ""


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """`ready`: no check is bad."""

    ready: bool
    checks: tuple[HealthCheck, ...]


class ReadHealth(ServiceCall["HealthReport"], frozen=True):
    """-> `HealthReport`, at most some seconds old"""


class ReadMetrics(ServiceCall[bytes], frozen=True):
    """-> bytes: the metrics in Prometheus' text format"""
