"""A gateway in a separate process, so that tests can kill it; and the processes that it leaves behind.

Rule: everything started here is found again by its data folder and ended by pid: no test leaves a process.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from fairlead.system.platform import FORCED
from fairlead.system.proctable import program_inside
from faults.gateway_forks import ForkedGateway, GatewayForks
from keeper_process import keeper_of
from local_http import local_client
from patience import PATIENCE

TOKEN = "fl_" + "faults" * 8

PROGRAM = Path(sys.executable).with_name("fairlead")


class GatewayProcess:
    """One data folder and, most of the time, one `fairlead serve` on it. Restarting keeps the folder.

    Settings are passed in the environment, lists separated by commas.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.data = Path(str(settings.get("data", folder / "data")))
        self.cwd = folder / "project"
        self.cwd.mkdir(exist_ok=True, parents=True)
        self.settings: dict[str, Any] = {
            "data": self.data,
            "port": 0,
            "agent": "demo",
            "roots": self.cwd,
            "log_level": "warning",
            **settings,
        }
        self.env: dict[str, str] = {}
        """Extra variables of the gateway's process."""
        self.arguments: tuple[str, ...] = ()
        """Arguments after `serve`."""
        self.url = ""
        self.prefix: tuple[str, ...] = ()
        """A command prefix for the program, to run it in a namespace."""
        self.seen_data = self.data
        """Where we see the data folder, if its path differs from the gateway's."""
        self.forks: GatewayForks | None = None
        """Starts the gateway without its imports; `cold` starts execute the program."""
        self._process: subprocess.Popen[bytes] | ForkedGateway | None = None

    async def __aenter__(self) -> "GatewayProcess":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.clean_up()

    # --- its life

    def spawn(self, *, cold: bool = False) -> None:
        """Start without waiting; `started` waits."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "FAIRLEAD_TOKEN": TOKEN,
            "LANG": "C.UTF-8",
            **FORCED,
        } | self.env
        env |= {f"FAIRLEAD_{name.upper()}": str(value) for name, value in self.settings.items()}
        argv = [*self.prefix, str(PROGRAM), "serve", *self.arguments]
        if self.forks is not None and not cold:
            self._process = self.forks.spawn(argv, env, self.folder / "gateway.log")
            return
        with (self.folder / "gateway.log").open("ab") as log:
            # A separate process group: a signal to us, such as Ctrl-C, does not reach it.
            self._process = subprocess.Popen(argv, env=env, stdout=log, stderr=log, process_group=0)

    async def start(self) -> None:
        self.spawn()
        await self.started()

    async def started(self) -> None:
        """Wait until it accepts connections."""
        async with asyncio.timeout(PATIENCE):
            while not self._is_ready():
                assert self.process.poll() is None, f"the gateway ended with {self.process.returncode}: {self.log()}"
                await asyncio.sleep(0.005)
        async with local_client(base_url=self.url) as http:
            assert (await http.get("/health")).status_code == 200

    def _is_ready(self) -> bool:
        try:
            info = json.loads((self.seen_data / "server.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        self.url = info["url"]
        return bool(info["pid"] == self.pid)

    @property
    def process(self) -> "subprocess.Popen[bytes] | ForkedGateway":
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """Kill it as the kernel's OOM killer does: without any notice."""
        self.signal(signal.SIGKILL)
        await self.wait()

    async def wait(self) -> int:
        """Its exit code; negative for a signal."""
        async with asyncio.timeout(PATIENCE):
            while (code := self.process.poll()) is None:
                await asyncio.sleep(0.005)
        return code

    async def clean_up(self) -> None:
        """End the gateway and everything that works with its data folder."""
        if self._process is not None and self._process.poll() is None:
            await self.kill()
        while left := [*self.offspring(), *filter(None, [self.keeper()])]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.01)

    # --- looking

    def log(self) -> str:
        return (self.folder / "gateway.log").read_text(errors="replace")[-4000:]

    def resident(self) -> int:
        """Bytes of memory that the gateway has in use."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the gateway is gone")

    def offspring(self) -> Iterator[int]:
        """Agents, and their child processes: all processes whose HOME is in our folder, without the gateway."""
        home = f"HOME={self.folder}".encode()
        for pid, environment in _each("environ"):
            if any(variable.startswith(home) for variable in environment) and pid != self._gateway_pid():
                yield pid

    def keeper(self) -> int | None:
        return keeper_of(self.data)

    def agents(self, session: str) -> list[int]:
        """The agents of one session."""
        name = session.encode()
        found = {pid for pid, argv in _each("cmdline") if any(name in word for word in argv)}
        # A child of theirs has their command line until it executes its own program; by now it may be gone.
        parents = {pid: _parent(pid) for pid in found}
        first = (pid for pid, parent in parents.items() if parent is not None and parent not in found)
        return sorted(inside.pid if (inside := program_inside(pid)) else pid for pid in first)

    def _gateway_pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    # --- requests over REST

    def http(self) -> httpx2.AsyncClient:
        return local_client(base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"})

    async def create(self, **fields: Any) -> str:
        async with self.http() as http:
            answer = await http.post("/v1/sessions", json={"cwd": str(self.cwd), **fields})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["session"])

    async def stored(self, session: str) -> list[dict[str, Any]]:
        """The whole log, as it is in the store now."""
        lines: list[dict[str, Any]] = []
        after = 0
        async with self.http() as http:
            while True:
                answer = await http.get(f"/v1/sessions/{session}/events", params={"after": after, "limit": 500})
                page: Mapping[str, Any] = answer.json()
                lines.extend(page["events"])
                if page.get("next") is None:
                    return lines
                after = page["next"]


def _each(file: str) -> Iterator[tuple[int, list[bytes]]]:
    """(pid, NUL-separated words of /proc/pid/file) of every readable living process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{entry}/{file}").read_bytes()
                if words:
                    yield int(entry), words.split(b"\0")


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None
