"""The process of the real Claude Code. It is forked first and gets its command later: the gateway needs its id before
it starts, and if the gateway is not there, nothing has been started.

Forked before any thread exists. The child leads its own process group, so that a Ctrl-C reaches it once, through us.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from fairlead.system.pipes import PipeReader, PipeWriter
from fairlead.system.proctable import start_mark

_PR_SET_PDEATHSIG: Final = 1
_CANNOT_RUN: Final = 126


class CliProcess:
    """`input` and `output` are its stdin and stdout; its stderr is ours."""

    def __init__(self, pid: int, gate: int, pipes: tuple[int, int]) -> None:
        self.pid = pid
        self.started = start_mark(pid)
        self._gate = gate
        self._pipes = pipes
        self.input: PipeWriter
        self.output: PipeReader

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Run the command. Needs a running loop."""
        os.set_blocking(self._gate, True)
        with os.fdopen(self._gate, "wb") as gate:
            gate.write(json.dumps({"argv": list(argv), "env": dict(env)}).encode("utf-8", "surrogateescape"))
        self.input, self.output = PipeWriter(self._pipes[0]), PipeReader(self._pipes[1])

    def abandon(self) -> None:
        """End the process without a command. Without effect if that was done."""
        if self._gate >= 0:
            for fd in (self._gate, *self._pipes):
                os.close(fd)
            self._gate = -1
            os.waitpid(self.pid, 0)

    async def wait(self) -> int:
        """Wait for its exit; return the status as `os.waitpid` does."""
        _, status = await asyncio.to_thread(os.waitpid, self.pid, 0)
        return status

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def fork_cli() -> CliProcess:
    (input_read, input_write), (output_read, output_write), (gate_read, gate_write) = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_write)
        _wait_and_run(gate_read, input_read, output_write)
    for fd in (input_read, output_write, gate_read):
        os.close(fd)
    return CliProcess(pid, gate_write, (input_write, output_read))


def _wait_and_run(gate: int, stdin: int, stdout: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            # Whoever kills the shim wants the CLI dead.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with os.fdopen(gate, "rb") as opened:
            data = opened.read()
        if not data:
            os._exit(0)
        command = json.loads(data.decode("utf-8", "surrogateescape"))
        # Python ignores it, and the CLI would inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.execvpe(command["argv"][0], command["argv"], command["env"])
    except OSError as error:
        os.write(2, f"fairlead: Claude Code cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_RUN)
