"""Real NATS servers for tests: children of this process on free ports of 127.0.0.1, ended by their own pid."""

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("nats-server")
PR_SET_PDEATHSIG = 1


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _die_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def quick_folder(fallback: Path) -> Iterator[Path]:
    """A folder in memory if there is room: servers that sync every write are slow on a busy disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 1 << 30:
        yield fallback
        return
    with tempfile.TemporaryDirectory(prefix="fairlead-nats-", dir=memory) as folder:
        yield Path(folder)


class NatsServers:
    """One server, or a cluster of three. `config` is added to the configuration of each."""

    def __init__(self, folder: Path, count: int = 1, *, jetstream: bool = True, config: str = "") -> None:
        self.folder = folder
        self.count = count
        folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(3 * count)
        self.ports, self._routes, self._monitors = ports[:count], ports[count : 2 * count], ports[2 * count :]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self._jetstream = jetstream
        for number in range(count):
            self._config(number).write_text(self._text(number, config))

    @property
    def urls(self) -> str:
        """For `--store`, without the cell."""
        return "nats://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> "NatsServers":
        for number in range(self.count):
            self.start_one(number)
        until = time.monotonic() + 60
        while not all(self.is_ready(number) for number in range(self.count)):
            for number, process in enumerate(self._processes):
                if process is not None and process.poll() is not None:
                    raise RuntimeError((self.folder / f"n{number}.log").read_text()[-2000:])
            if time.monotonic() > until:
                raise TimeoutError("the NATS servers do not become ready")
            time.sleep(0.02)
        return self

    def start_one(self, number: int) -> None:
        self._processes[number] = subprocess.Popen(
            [PROGRAM, "-c", self._config(number)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_the_parent,
        )

    def is_ready(self, number: int) -> bool:
        try:
            healthy = self._ask(number, "/healthz").get("status") == "ok"
            led = self.count == 1 or bool(self._ask(number, "/jsz").get("meta_cluster", {}).get("leader"))
        except OSError:
            return False
        return healthy and led

    def leader(self, stream: str) -> int | None:
        """The number of the server that leads a stream."""
        for number in range(self.count):
            try:
                found = self._ask(number, "/jsz?streams=1")
            except OSError:
                continue
            for account in found.get("account_details", []):
                for one in account.get("stream_detail", []):
                    if one["name"] == stream and (leader := one.get("cluster", {}).get("leader")):
                        return int(leader[1:])
        return None

    def kill(self, number: int) -> None:
        process = self._processes[number]
        assert process is not None
        process.kill()
        process.wait()

    def send_signal(self, number: int, what: signal.Signals) -> None:
        process = self._processes[number]
        assert process is not None
        process.send_signal(what)

    def stop(self) -> None:
        for process in self._processes:
            if process is not None and process.poll() is None:
                process.kill()
        for process in self._processes:
            if process is not None:
                process.wait()

    def _ask(self, number: int, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._monitors[number]}{path}", timeout=2) as answer:
            return json.load(answer)

    def _config(self, number: int) -> Path:
        return self.folder / f"n{number}.conf"

    def _text(self, number: int, more: str) -> str:
        lines = [
            f"server_name: n{number}",
            f'listen: "127.0.0.1:{self.ports[number]}"',
            f'http: "127.0.0.1:{self._monitors[number]}"',
            f'log_file: "{self.folder}/n{number}.log"',
            more,
        ]
        if self._jetstream:
            store = f'store_dir: "{self.folder}/n{number}", max_mem: 256MB, max_file: 4GB, sync_interval: always'
            lines.append(f"jetstream {{ {store} }}")
        if self.count > 1:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes if port != self._routes[number])
            lines.append(f'cluster {{ name: t, listen: "127.0.0.1:{self._routes[number]}", routes: [{routes}] }}')
        return "\n".join(lines) + "\n"
