"""One running server per driver and module: our own driver on both event loops, and uvicorn's stock driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.websocket.harness import RunningServer


@pytest.fixture(scope="package", params=[("own", "uvloop"), ("own", "asyncio"), ("stock", "uvloop")], ids="-".join)
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    driver, loop = request.param
    running = RunningServer(driver, loop)
    yield running
    running.stop()


@pytest.fixture(scope="package", params=["uvloop", "asyncio"])
def own_server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    running = RunningServer("own", request.param)
    yield running
    running.stop()
