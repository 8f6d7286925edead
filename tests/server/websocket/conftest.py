"""One running server for each event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.websocket.harness import RunningServer


@pytest.fixture(scope="package", params=["uvloop", "asyncio"])
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    running = RunningServer(request.param)
    yield running
    running.stop()
