"""The whole gateway: one shell on its main port and on Cognova's door, recorded, and gone with it."""

import os
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from clients.cognova.terminal_harness import ShellClient
from fairlead.config import load
from fairlead.system.proctable import is_alive
from fairlead.wiring import running
from terminals.sandboxed_process import PRINT_PID, outside

pytestmark = pytest.mark.process


async def test_a_shell_is_the_same_on_a_door_and_ends_with_the_gateway(tmp_path: Path) -> None:
    given = {"data": str(tmp_path / "data"), "port": 0, "roots": [str(tmp_path)], "agent": "demo", "shell": "/bin/sh"}
    config = load({"HOME": str(tmp_path)}, {**given, "record_terminals": True, "door": {"cognova": {"port": 0}}}).config
    env = {"HOME": str(tmp_path), "PATH": os.environ.get("PATH", os.defpath), "FAIRLEAD_TOKEN": "fl_" + "x" * 43}
    async with running(config, env) as gateway:
        (door,) = gateway.doors
        urls = [f"{url.replace('http', 'ws', 1)}/terminal?token={gateway.token}" for url in (gateway.url, door.url)]
        async with connect(urls[0], proxy=None) as one, connect(urls[1], proxy=None) as two:
            first, second = ShellClient(one), ShellClient(two)
            await first.type(f"pwd; env | grep -c FAIRLEAD; {PRINT_PID}\r")
            await second.until(lambda: "]." in second.text)
            await second.wait_for_text(str(tmp_path)[:60])
            await first.until(lambda: "]." in first.text)
            process = outside(first.text)
            assert is_alive(*process)
            assert "\r\n0\r\n" in first.text
    assert not is_alive(*process)
    (recording,) = (tmp_path / "data" / "recordings").iterdir()
    assert "pid=" in recording.read_text() and recording.name.endswith("-owner-default.cast")
