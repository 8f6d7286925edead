"""`fairlead keeper run`: a keeper in the foreground, for a service or a container of its own."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.cli_processes import background, environment
from fairlead.keeper.client import ProcessSpec, connect
from fairlead.system.clock import SystemClock
from patience import PATIENCE


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which a service manager hears that a service is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(PATIENCE)
        listening.bind(str(tmp_path / "notify"))
        yield listening


Start = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts keepers of one data folder; none outlives the test."""
    env = environment(tmp_path / "data", NOTIFY_SOCKET=str(tmp_path / "notify"), FAIRLEAD_TOKEN="s3cret")
    with contextlib.ExitStack() as stack:

        def begin() -> "subprocess.Popen[str]":
            process = background(env, tmp_path, "keeper", "run")
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield begin


def test_it_reports_that_it_listens_and_stays_until_it_is_stopped(
    tmp_path: Path, manager: socket.socket, start: Start
) -> None:
    process = start()
    assert manager.recv(100) == b"READY=1"

    async def visit() -> tuple[int, list[int]]:
        keeper = await connect(tmp_path / "data", SystemClock())
        found = [child.pid for child in keeper.found]
        for child in keeper.found:
            child.forget()
        spec = ProcessSpec(argv=[sys.executable, "-c", "input()"], env={}, cwd="/", tag={})
        child = await keeper.spawn(spec)
        await keeper.close()
        return child.pid, found

    async def leave() -> None:
        """Leave no process behind, and let the keeper end, as far as it is concerned."""
        keeper = await connect(tmp_path / "data", SystemClock())
        for child in keeper.found:
            child.close_input()
            await child.wait()
            child.forget()
        await keeper.close(quit=True)

    first, nothing = asyncio.run(visit())
    assert nothing == []
    second = start()
    assert manager.recv(100) == b"READY=1"
    _, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, "Another keeper holds" in err) == (0, True)
    assert b"s3cret" not in Path(f"/proc/{process.pid}/environ").read_bytes()
    asyncio.run(leave())
    again, found = asyncio.run(visit())
    assert (again != first, found) == (True, [])
    assert process.poll() is None
    asyncio.run(leave())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Traceback" in err) == (-signal.SIGTERM, False)


def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path, start: Start) -> None:
    (tmp_path / "data").write_text("not a folder")
    process = start()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert str(tmp_path / "data") in err
    assert "Traceback" not in err
