"""Commands as separate processes: on a terminal that a test can type on, or in the background."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from fairlead.keeper.client import connect
from fairlead.system.clock import SystemClock
from fairlead.system.platform import FORCED
from fairlead.system.process_group import StopTimeouts
from patience import PATIENCE

SGR = re.compile(r"\x1b\[[0-9;]*m")
PASSING = re.compile(r"\r\x1b\[2K(?:[⠀-⣿][^\r\n]*)?")

_PLAIN = "from fairlead.cli.main import main; main()"
# The terminal sends the signal of Ctrl-C, so it must be the controlling terminal of the process.
_ON_TERMINAL = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {_PLAIN}"


def environment(data: Path, **more: str) -> dict[str, str]:
    """An environment without the developer's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, **FORCED, "FAIRLEAD_DATA": str(data), "TERM": "xterm-256color", **more}


def background(env: Mapping[str, str], cwd: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command without a terminal."""
    return subprocess.Popen(
        [sys.executable, "-c", _PLAIN, *words],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Terminal:
    """A command on a terminal of 100 columns. `seen` is its whole output, `text` the same without colours and without
    temporary lines."""

    def __init__(self, env: Mapping[str, str], cwd: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *words],
            env=dict(env),
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self._place = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        return PASSING.sub("", SGR.sub("", self.seen))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the command has written this text, after the text of the previous wait."""
        until = time.monotonic() + PATIENCE
        while text not in self.text[self._place :]:
            assert self._read(until), f"it never wrote {text!r}; it wrote: {self.text}"
        self._place = self.text.index(text, self._place) + len(text)

    def end(self) -> int:
        """Wait until the command has ended; returns its exit code."""
        until = time.monotonic() + PATIENCE
        while self._read(until):
            pass
        return self._process.wait(PATIENCE)

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:
            data = b""  # the terminal's other side is closed
        self.seen += data.decode("utf-8", "replace")
        return bool(data)


async def end_keeper(data: Path) -> None:
    """End what a keeper of this data folder holds, and the keeper itself, if there is one."""
    try:
        keeper = await connect(data, SystemClock())
    except OSError:
        return
    for process in keeper.found:
        await process.end(StopTimeouts(close=0, terminate=0))
        process.forget()
    await keeper.close(quit=True)


class Server:
    """A gateway's process on one data folder and one port, which can be killed and started again. Without `--keeper`
    it has no keeper, so that no agent outlives a test."""

    def __init__(self, folder: Path) -> None:
        self.data, self.project = folder / "data", folder / "project"
        self.project.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.env = environment(self.data, FAIRLEAD_KEEPER="no")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start the process; returns once it serves or has ended."""
        options = ("--agent", "demo", "--port", str(self.port), "--roots", str(self.project), *more)
        process = self.process = background(self.env, self.project, "serve", *options)
        until = time.monotonic() + PATIENCE
        while process.poll() is None and self.url is None:
            assert time.monotonic() < until, "the gateway did not start"
            time.sleep(0.02)
        return process

    @property
    def url(self) -> str | None:
        """The address that the running process has published."""
        assert self.process is not None
        try:
            info = json.loads((self.data / "server.json").read_text())
        except (OSError, ValueError):
            return None
        return str(info["url"]) if info["pid"] == self.process.pid else None

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """Send the signal; returns the exit code and the output."""
        assert self.process is not None
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=PATIENCE)
        code, self.process = self.process.returncode, None
        return code, out + err
