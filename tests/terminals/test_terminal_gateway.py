"""Terminals inside a whole gateway."""

import os
from pathlib import Path
from typing import Any

import pytest

from fairlead import wiring
from fairlead.config import Config
from fairlead.model.errors import TooMany
from fairlead.model.ids import SessionId
from fairlead.system.clock import Clock
from fairlead.system.proctable import is_alive
from fairlead.terminals.api import Program, session_terminal
from fairlead.terminals.registry import TerminalRegistry
from local_http import local_client

pytestmark = pytest.mark.process

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
PATH = os.environ.get("PATH", os.defpath)
SHELL = Program(argv=["/bin/sh", "-c", "echo ready; sleep 600"], env={"PATH": PATH}, cwd="/")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[TerminalRegistry]:
    """The registries that gateways create."""
    found: list[TerminalRegistry] = []

    class RecordedRegistry(TerminalRegistry):
        def __init__(self, clock: Clock, most: int, **sandboxes: Any) -> None:
            super().__init__(clock, most, **sandboxes)
            found.append(self)

    monkeypatch.setattr("fairlead.wiring.gateway.TerminalRegistry", RecordedRegistry)
    return found


async def test_stopping_gateway_ends_its_terminals(made: list[TerminalRegistry], tmp_path: Path) -> None:
    folder = str(tmp_path)
    config = Config(port=0, data=f"{folder}/data", agent="demo", roots=(folder,), claude_homes=(), max_terminals=1)
    async with wiring.running(config, {"HOME": folder, "PATH": PATH}) as gateway:
        (terminals,) = made
        terminal = await terminals.open(session_terminal(SESSION), SHELL)
        while "ready" not in terminal.screen.lines:
            await terminal.changed(terminal.screen.version)
        with pytest.raises(TooMany):
            await terminals.open("another", SHELL)
        headers = {"authorization": f"Bearer {gateway.token}"}
        async with local_client(base_url=gateway.url, headers=headers) as http:
            shown = (await http.get(f"/v1/sessions/{SESSION}/terminal")).json()
        assert shown["running"] and "ready" in shown["lines"]
        pid, started = terminal.pid, terminal.started
        assert is_alive(pid, started)
    assert not is_alive(pid, started)
    assert terminals.names() == ()
