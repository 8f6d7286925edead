"""Kills and freezes nodes and NATS servers while they work, as a seed says."""

import ctypes
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from fairlead.model.ids import SessionId
from stores.nats_servers import PR_SET_PDEATHSIG, NatsServers

HERE = Path(__file__).parent
KINDS = ("node", "node", "freeze", "leader", "follower", "frozen server")


class Nemesis:
    """Three NATS servers, and nodes `a` and `b` that work on the same sessions."""

    def __init__(self, folder: Path, rng: random.Random, sessions: int, seconds: float) -> None:
        self.folder = folder
        self.rng = rng
        self.seconds = seconds
        self.sessions = [SessionId(str(uuid.UUID(int=rng.getrandbits(128), version=4))) for _ in range(sessions)]
        self.servers = NatsServers(folder / "nats", 3).start()
        self.address = f"{self.servers.urls}/kill"
        self.counts: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._until = time.monotonic() + seconds

    def start(self) -> None:
        for node in "ab":
            self._start_node(node)

    def run(self, kills: int | None = None) -> None:
        """Do harm until the time is over, or so many times."""
        while self._left() > 15 and (kills is None or sum(self.counts.values()) < kills):
            kind = self.rng.choice(KINDS)
            self.counts[kind] += 1
            if kind == "node":
                self._kill_node()
            elif kind == "freeze":
                self._freeze_node()
            else:
                self._harm_server(kind)

    def end(self) -> None:
        """Let the nodes come to an end by themselves."""
        for process in self._nodes.values():
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(max(self._left(), 0) + 90)
            except subprocess.TimeoutExpired:
                # Its stacks go to its file of errors.
                process.send_signal(signal.SIGUSR1)
                raise

    def close(self) -> None:
        for process in self._nodes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.servers.stop()

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _start_node(self, node: str) -> None:
        arguments = [node, self.address, self.folder, max(1.0, self._left()), *self.sessions]
        with (self.folder / f"{node}.err").open("ab") as errors:
            self._nodes[node] = subprocess.Popen(
                [sys.executable, "-m", "faults.cluster.worker", *map(str, arguments)],
                cwd=HERE.parents[1],
                stderr=errors,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )

    def _pause(self, least: float, most: float) -> None:
        time.sleep(self.rng.uniform(least, most))

    def _kill_node(self) -> None:
        node = self.rng.choice("ab")
        self._nodes[node].kill()
        self._nodes[node].wait()
        self._pause(0.1, 4)
        self._start_node(node)
        self._pause(1, 2.5)

    def _freeze_node(self) -> None:
        """A zombie: it sleeps beyond its lease, wakes up and goes on."""
        node = self._nodes[self.rng.choice("ab")]
        node.send_signal(signal.SIGSTOP)
        self._pause(1, 6)
        node.send_signal(signal.SIGCONT)
        self._pause(0.5, 1.5)

    def _harm_server(self, kind: str) -> None:
        leader = self.servers.leader("fl_kill_log")
        others = [number for number in range(3) if number != leader]
        number = leader if kind == "leader" and leader is not None else self.rng.choice(others)
        if kind == "frozen server":
            self.servers.send_signal(number, signal.SIGSTOP)
            self._pause(0.5, 6)
            self.servers.send_signal(number, signal.SIGCONT)
        else:
            self.servers.kill(number)
            self._pause(0.2, 2)
            self.servers.start_one(number)
        until = time.monotonic() + 60
        while not all(map(self.servers.is_ready, range(3))) and time.monotonic() < until:
            time.sleep(0.1)
        self._pause(0.5, 2)
