"""Relay time and fan-out cost of our WebSocket driver compared with its peers, all in one run, as ratios.

python bench/websocket_relay.py [--rounds 12] [--subscribers 100]

Relay: one message at a time from a publisher through the server to one subscriber, in small shuffled rounds.
Fan-out: from one publisher to all subscribers, the server's CPU time divided by the deliveries; saturated (many
messages in flight, each sent separately, so that a server may join those that it reads together) and paced (the next
message when every subscriber has the last, so that nothing can be joined and the kernel's part dominates).
The reference is a bare `websockets` server with broadcast(). Node's `ws` is measured if npm can fetch it.
"""

from __future__ import annotations

import argparse
import os
import random
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, sleep

NODE_SERVER = """
const { WebSocketServer } = require("ws");
const subscribers = new Set();
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" }, () => console.log(server.address().port));
server.on("connection", (socket, request) => {
  if (request.url === "/sub") {
    subscribers.add(socket);
    socket.on("close", () => subscribers.delete(socket));
  } else {
    socket.on("message", (data) => {
      for (const subscriber of subscribers) subscriber.send(data, { binary: false });
    });
  }
});
"""

PAYLOAD = b"e" * 120
FRAME = 2 + len(PAYLOAD)
RELAYS = 250
IDLE_NS = 400_000
"""CPU in 20 ms of a server that only waits: its own timers, no more."""
BURST = 400
PACED = 40
MASKED = bytes([0x81, 0x80 | len(PAYLOAD)]) + bytes(4) + PAYLOAD
REQUEST = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@dataclass
class Server:
    name: str
    pid: int
    port: int
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    """Nanoseconds of a relay, one figure per round: a median over rounds is robust against disturbed ones."""
    waits: list[float] = field(default_factory=list)
    """Nanoseconds per relay that the server waited for a core."""
    saturated: list[float] = field(default_factory=list)
    paced: list[float] = field(default_factory=list)
    """CPU nanoseconds per delivery, one a round."""

    def figures(self) -> tuple[list[float], ...]:
        return self.p50, self.p99, self.waits, self.saturated, self.paced

    def wait_until_idle(self) -> None:
        """Wait until it has cleaned up after the last measurement, so that it does not disturb the next server's."""
        before = -1
        while (now := self.cpu()) - before > IDLE_NS:
            before = now
            sleep(0.02)

    def connect(self, path: str) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(REQUEST.format(path=path).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        assert head.startswith(b"HTTP/1.1 101"), head
        return connection

    def cpu(self) -> int:
        """Nanoseconds of CPU time, of all threads."""
        return self._schedstat(0)

    def core_wait(self) -> int:
        """Nanoseconds in which it could run but other programs had the cores."""
        return self._schedstat(1)

    def _schedstat(self, column: int) -> int:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[column]) for task in tasks)

    def settle(self, publisher: socket.socket, subscribers: list[socket.socket]) -> None:
        """Send a first message to all: they are subscribed once all have it."""
        while True:
            publisher.sendall(MASKED)
            if all(receive(subscriber, FRAME) for subscriber in subscribers):
                return


def receive(connection: socket.socket, size: int) -> bool:
    while size:
        size -= len(connection.recv(size))
    return True


def measure_relay(server: Server, count: int) -> None:
    with server.connect("/sub") as subscriber, server.connect("/pub") as publisher:
        server.settle(publisher, [subscriber])
        times = []
        waited = server.core_wait()
        for _ in range(count):
            start = perf_counter_ns()
            publisher.sendall(MASKED)
            receive(subscriber, FRAME)
            times.append(perf_counter_ns() - start)
        server.waits.append((server.core_wait() - waited) / count)
    times.sort()
    server.p50.append(times[count // 2])
    server.p99.append(times[count * 99 // 100])
    server.wait_until_idle()


def measure_fan_out(server: Server, subscribers: int) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(server.connect("/sub")) for _ in range(subscribers)]
        publisher = stack.enter_context(server.connect("/pub"))
        server.settle(publisher, members)
        before = server.cpu()
        for _ in range(PACED):
            publisher.sendall(MASKED)
            for member in members:
                receive(member, FRAME)
        server.paced.append((server.cpu() - before) / (subscribers * PACED))
        before = server.cpu()
        drain(publisher, members)
        server.saturated.append((server.cpu() - before) / (subscribers * BURST))
    server.wait_until_idle()


def drain(publisher: socket.socket, members: list[socket.socket]) -> None:
    """Send the burst while reading whatever has arrived, until every subscriber has everything."""
    left = dict.fromkeys(members, BURST * FRAME)
    sent = 0
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member, selectors.EVENT_READ)
        while left:
            for _ in range(min(16, BURST - sent)):
                publisher.sendall(MASKED)
                sent += 1
            for key, _ in selector.select(timeout=0 if sent < BURST else 30):
                assert isinstance(key.fileobj, socket.socket)
                left[key.fileobj] -= len(key.fileobj.recv(1 << 18))
                if not left[key.fileobj]:
                    del left[key.fileobj]
                    selector.unregister(key.fileobj)


@contextmanager
def running(name: str, command: list[str]) -> Iterator[Server]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(name, process.pid, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def node_command(folder: Path) -> list[str]:
    """The command that starts Node's server; raises RuntimeError with the reason if it is not available."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise RuntimeError("node and npm are not installed")
    install = [npm, "install", "--prefix", str(folder), "--silent", "--no-audit", "--no-fund", "ws"]
    try:
        done = subprocess.run(install, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        raise RuntimeError("npm did not fetch ws within 90 s") from None
    if done.returncode:
        raise RuntimeError(f"npm cannot fetch ws (exit status {done.returncode})")
    script = folder / "server.cjs"
    script.write_text(NODE_SERVER)
    return [node, str(script)]


def report(servers: list[Server], missing: str | None, subscribers: int) -> None:
    def figures(server: Server) -> list[float]:
        return [statistics.median(rounds) / 1000 for rounds in server.figures()]

    base = figures(next(server for server in servers if server.name == "websockets"))
    print(f"microseconds, medians over rounds (ratio to bare websockets); fan-out to {subscribers} subscribers")
    titles = ("relay p50", "relay p99", "core wait/relay", "CPU/delivery sat.", "CPU/delivery paced")
    print("server".ljust(12) + "".join(title.rjust(20) for title in titles))
    for server in servers:
        cells = [f"{value:8.2f} ({value / of:4.2f})" for value, of in zip(figures(server), base, strict=True)]
        print(server.name.ljust(12) + "".join(cell.rjust(20) for cell in cells))
    if missing is not None:
        print(f"{'node ws':12}not measured: {missing}")
    one, _, _ = os.getloadavg()
    print(
        f"load {one:.1f} on {os.cpu_count()} cores: where it is higher than the cores, p99 is the machine's, not ours"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--subscribers", type=int, default=100)
    options = arguments.parse_args()
    script = str(Path(__file__).with_name("websocket_servers.py"))
    missing = None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        commands = {name: [sys.executable, script, name] for name in ("own", "stock", "websockets")}
        try:
            commands["node ws"] = node_command(Path(folder))
        except RuntimeError as reason:
            missing = str(reason)
        servers = [stack.enter_context(running(name, command)) for name, command in commands.items()]
        for server in servers:
            measure_relay(server, 500)
            measure_fan_out(server, options.subscribers)
            for rounds in server.figures():
                rounds.clear()
        for _ in range(options.rounds):
            for server in random.sample(servers, len(servers)):
                measure_relay(server, RELAYS)
                measure_fan_out(server, options.subscribers)
        report(servers, missing, options.subscribers)


if __name__ == "__main__":
    main()
