"""What the shim adds: from a line of the CLI to its caller, and from a prompt to the first token, beside the CLI alone.

Both run the text-only agent, one after the other in each round, so that neither the model nor the CLI is measured."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from figures import Figures, spread, table
from processes import Gateway
from wires import TOKEN

RATE = 200
FLAGS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--include-partial-messages")
SHIM = (sys.executable, "-P", "-m", "fairlead.cli.shim", "claude")


class Run:
    """A caller of the CLI or of the shim."""

    def __init__(self, command: tuple[str, ...], env: dict[str, str], cwd: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*command, *FLAGS], env=env, cwd=cwd, stdin=pipe, stdout=pipe)
        self._send({"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}})
        self._until(b'"control_response"')

    def _send(self, message: dict[str, Any]) -> None:
        _pipe(self.process.stdin).write(json.dumps(message).encode() + b"\n")
        _pipe(self.process.stdin).flush()

    def _until(self, mark: bytes) -> bytes:
        while mark not in (line := _pipe(self.process.stdout).readline()):
            if not line:
                raise RuntimeError("the program ended early")
        return line

    def prompt(self, text: str) -> None:
        self._send({"type": "user", "message": {"role": "user", "content": text}})

    def ages(self, count: int) -> list[float]:
        """Microseconds that each delta of a paced turn was on its way."""
        self.prompt(f"paced {count} {RATE}")
        found: list[float] = []
        while len(found) < count:
            line = self._until(b'"text_delta"')
            came = time.monotonic_ns()
            found.append((came - int(json.loads(line)["event"]["delta"]["text"])) / 1000)
        self._until(b'"result"')
        return found

    def first(self) -> float:
        """Microseconds from a prompt to its first delta."""
        begun = time.monotonic_ns()
        self.prompt("burst 1")
        self._until(b'"text_delta"')
        took = (time.monotonic_ns() - begun) / 1000
        self._until(b'"result"')
        return took

    def stop(self) -> None:
        _pipe(self.process.stdin).close()
        self.process.wait(30)


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None
    return end


def measure(quick: bool) -> Figures:
    rounds, count = (2, 100) if quick else (6, 400)
    lines: dict[str, list[float]] = {}
    firsts: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        gateway = Gateway(Path(name))
        gateway.start()
        try:
            _trust(gateway)
            env = {"PATH": "/usr/bin:/bin", "HOME": name, "FAIRLEAD_URL": gateway.url, "FAIRLEAD_TOKEN": TOKEN}
            env |= {"FAIRLEAD_CLAUDE": str(gateway.settings["claude"]), "FAIRLEAD_SHIM": "require"}
            env |= {"FAIRLEAD_SHIM_WAIT_MS": "60000"}
            commands = {"the CLI alone": (str(gateway.settings["claude"]),), "through the shim": SHIM}
            runs = {title: Run(command, env, gateway.folder) for title, command in commands.items()}
            for number in range(rounds + 1):
                for title, run in runs.items():
                    ages, first = run.ages(count), [run.first() for _ in range(count // 10)]
                    if number:  # the first is a warm-up
                        lines.setdefault(title, []).extend(ages)
                        firsts.setdefault(title, []).extend(first)
            for run in runs.values():
                run.stop()
        finally:
            gateway.stop()
    found = {
        f"{title}, {what}": spread(samples)
        for what, by in (("line", lines), ("first token", firsts))
        for title, samples in by.items()
    }
    table(
        "From a line of the CLI to its caller, and from a prompt to the first token, microseconds",
        ("p50", "p90", "p99"),
        {title: (figures["p50"], figures["p90"], figures["p99"]) for title, figures in found.items()},
    )
    return found


def _trust(gateway: Gateway) -> None:
    path = str(gateway.folder)
    digest = gateway.http.get("/v1/trust", params={"path": path}).raise_for_status().json()["digest"]
    gateway.http.post("/v1/trust", json={"path": path, "digest": digest}).raise_for_status()
