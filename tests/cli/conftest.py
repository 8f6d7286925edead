"""A gateway with the demo agent in its own thread, and the commands, which run in this process, against it."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from cli.cli_processes import Server, end_keeper
from fairlead.cli.main import main
from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running
from restored_logging import restored_logging


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The decoded lines that --json printed."""
        assert self.out or self.code == 0, self.err
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


class CliGateway(NamedTuple):
    """A running gateway: its address, and the folder that its sessions may work in."""

    running: GatewayInfo
    data: Path
    project: Path


Fairlead = Callable[..., CommandResult]


@pytest.fixture
def fairlead(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Fairlead:
    """Runs a command as the entry point does, without the developer's own settings."""
    for name in [name for name in os.environ if name.startswith("FAIRLEAD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg-data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["fairlead", *words])
        capsys.readouterr()
        code = 0
        with restored_logging():
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        shown = capsys.readouterr()
        return CommandResult(code, shown.out, shown.err)

    return call


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A gateway as a process, which the test starts."""
    made = Server(tmp_path)
    yield made
    if made.process is not None:
        made.end(signal.SIGTERM)
    asyncio.run(end_keeper(made.data))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One gateway serves all tests of a run, and starts agents while any of them runs."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliGateway]:
    """One gateway for all tests of a run; each test creates its own sessions."""
    data, project = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("project")
    homes = (str(project / ".claude"),)
    config = Config(port=0, data=str(data), agent="demo", roots=(str(project),), claude_homes=homes)
    started: list[GatewayInfo | BaseException] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        async with running(config, env) as info:
            started.append(info)
            ready.set()
            await stop.wait()

    def work() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            started.append(error)
            ready.set()
        finally:
            loop.close()

    thread = threading.Thread(target=work, name="gateway")
    thread.start()
    assert ready.wait(60)
    info = started[0]
    if isinstance(info, BaseException):
        raise info
    yield CliGateway(info, data, project)
    loop.call_soon_threadsafe(stop.set)
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def gateway(served: CliGateway, fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> CliGateway:
    """The gateway as commands find it: by the data folder, from inside the project."""
    monkeypatch.setenv("FAIRLEAD_DATA", str(served.data))
    monkeypatch.chdir(served.project)
    return served
