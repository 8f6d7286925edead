"""A shell through the gateway (/terminal) compared with the bare PTY: how fast its output arrives, what that costs, how
much memory a viewer that does not read costs, and how soon a key is echoed.

python bench/terminals.py [--quick]

A part of `make bench`. The bare PTY is read by a loop that does nothing else: the floor, not a rival.
"""

import os
import pty
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Callable
from pathlib import Path

from figures import Figures, spread, table
from processes import Gateway
from wires import Wire

LINE = b"%07d the quick brown fox jumps over the lazy dog, and then it does so once more\n"
PACE = 0.02
"""Seconds between two keys: a quick typist takes ten times as long."""


def bare_output(path: Path) -> float:
    """Megabytes a second."""
    master, slave = pty.openpty()
    begun = time.monotonic()
    child = subprocess.Popen(["cat", str(path)], stdout=slave, stdin=slave)
    os.close(slave)
    total = 0
    try:
        while data := os.read(master, 1 << 16):
            total += len(data)
    except OSError:  # how Linux signals that the other end is closed
        pass
    taken = time.monotonic() - begun
    child.wait()
    os.close(master)
    return total / taken / 1e6


def echoes(count: int, press: Callable[[], None], wait: Callable[[], None]) -> Figures:
    """Microseconds from a key to its echo."""
    samples = []
    for number in range(count + 20):
        time.sleep(PACE)
        begun = time.monotonic_ns()
        press()
        wait()
        if number >= 20:  # the first are a warm-up
            samples.append((time.monotonic_ns() - begun) / 1e3)
    return spread(samples)


def bare_echo(count: int) -> Figures:
    master, slave = pty.openpty()
    tty.setraw(slave)
    child = subprocess.Popen(["cat"], stdin=slave, stdout=slave)
    found = echoes(count, lambda: _ignore(os.write(master, b"k")), lambda: _ignore(os.read(master, 100)))
    child.terminate()
    child.wait()
    os.close(master)
    os.close(slave)
    return found


def _ignore(value: object) -> None:
    """A statement as a function: a lambda would return a value."""


class Shell:
    def __init__(self, server: Gateway, name: str) -> None:
        self.wire = Wire(server.port, f"/terminal?name={name}")
        self._frames = self.wire.frames()

    def type(self, keys: str) -> None:
        self.wire.send({"type": "input", "data": keys})

    def until(self, mark: bytes) -> int:
        """Bytes of the frames up to one with `mark`."""
        total = 0
        for _, payload in self._frames:
            total += len(payload)
            if mark in payload:
                return total
        raise RuntimeError("the gateway hung up")


def through(server: Gateway, path: Path, rounds: int) -> tuple[float, float]:
    """(megabytes a second, milliseconds of CPU for 10 MB)"""
    shell = Shell(server, "output")
    printed = path.stat().st_size + path.read_bytes().count(b"\n")
    rates, cpus = [], []
    for number in range(rounds + 1):
        cpu, begun = server.cpu(), time.monotonic()
        shell.type(f"cat {path}; echo e''nd{number}\r")
        shell.until(f"end{number}".encode())
        if number:  # the first is a warm-up
            rates.append(printed / (time.monotonic() - begun) / 1e6)
            cpus.append((server.cpu() - cpu) / 1e6 / printed * 1e7)
    shell.wire.close()
    return max(rates), min(cpus)


def not_read(server: Gateway, path: Path) -> float:
    """Kilobytes by which the gateway grows when a viewer has read none of a program's output."""
    done = server.folder / "done"
    shell = Shell(server, "stuck")
    shell.type("echo re''ady\r")
    shell.until(b"ready")
    before = server.memory()
    shell.type(f"cat {path}; touch {done}\r")
    while not done.exists():
        time.sleep(0.01)
    used = (server.memory() - before) / 1024
    shell.wire.close()
    return used


def echo(server: Gateway, count: int) -> Figures:
    shell = Shell(server, "echo")
    shell.type("stty raw -echo; echo re''ady; exec cat\r")
    shell.until(b"ready")
    return echoes(count, lambda: shell.type("k"), lambda: _ignore(shell.until(b'"output"')))


def measure(quick: bool) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        path = Path(folder) / "long"
        path.write_bytes(b"".join(LINE % number for number in range(30_000 if quick else 125_000)))
        bare, keys = max(bare_output(path) for _ in range(3)), bare_echo(50 if quick else 500)
        server = Gateway(Path(folder))
        server.start()
        try:
            rate, cpu = through(server, path, 2 if quick else 4)
            memory = not_read(server, path)
            ours = echo(server, 50 if quick else 500)
        finally:
            server.stop()
    table(
        "A program's output through the gateway to a client of /terminal",
        ("MB/s", "ratio to bare", "CPU ms/10 MB"),
        {"bare PTY": (bare, 1.0), "gateway": (rate, rate / bare, cpu)},
    )
    table("What a viewer that does not read costs", ("kB",), {"after all of it": (memory,)})
    table(
        "From a key to its echo, microseconds",
        ("p50", "p90", "p99", "p50, ratio"),
        {
            name: (figures["p50"], figures["p90"], figures["p99"], figures["p50"] / keys["p50"])
            for name, figures in (("bare PTY", keys), ("gateway", ours))
        },
    )
    return {
        "output": {"bare_mb_per_s": bare, "mb_per_s": rate, "cpu_ms_per_10_mb": cpu},
        "not_read_kb": memory,
        "echo": {"bare PTY": keys, "gateway": ours},
    }


if __name__ == "__main__":
    measure("--quick" in sys.argv[1:])
