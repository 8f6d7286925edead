"""Gateways without the cost of their imports: a program that has imported the whole package, and forks.

Run as a program, it reads requests from the socket that is its standard input. Each child runs the command `fairlead`
with its own arguments and environment, in a process group of its own, from the entry point on. The exits of children
are reported on the same socket. Its children end with it, and it ends with the test.
"""

import contextlib
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

_REQUEST = 1 << 20
"""Bytes of a request, at most."""


class ForkedGateway:
    """One child of the program; the part of `subprocess.Popen` that tests use."""

    def __init__(self, forks: "GatewayForks", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks = forks

    def poll(self) -> int | None:
        if self.returncode is None:
            self._forks.read_reports()
        return self.returncode


class GatewayForks:
    """The program, from the side of the test."""

    def __enter__(self) -> "GatewayForks":
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._program = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno(), process_group=0)
        self._children: dict[int, ForkedGateway] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._program.wait()

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], log: Path) -> ForkedGateway:
        self._socket.send(json.dumps({"argv": list(argv), "env": dict(env), "log": str(log)}).encode())
        while True:
            report = self._receive()
            if "started" in report:
                child = self._children[report["started"]] = ForkedGateway(self, report["started"])
                return child

    def read_reports(self) -> None:
        while select.select([self._socket], [], [], 0)[0]:
            self._receive()

    def _receive(self) -> dict[str, Any]:
        data = self._socket.recv(_REQUEST)
        assert data, "the program that forks gateways has ended"
        report: dict[str, Any] = json.loads(data)
        if "ended" in report:
            self._children.pop(report["ended"]).returncode = report["code"]
        return report


def _serve_forks() -> None:
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    _import_everything()
    # What was imported is never collected: the children share its pages.
    gc.collect()
    gc.freeze()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    running: set[int] = set()
    try:
        while True:
            waiting: list[Any] = [requests, woken]
            ready = select.select(waiting, [], [])[0]
            if woken in ready:
                os.read(woken, 4096)
                _report_ends(requests, running)
            if requests in ready:
                data = requests.recv(_REQUEST)
                if not data:
                    return
                pid = os.fork()
                if pid == 0:
                    _become_gateway(json.loads(data), (requests.detach(), woken, wakes))
                running.add(pid)
                requests.send(json.dumps({"started": pid}).encode())
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _report_ends(requests: socket.socket, running: set[int]) -> None:
    for pid in list(running):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            _, status = os.waitpid(pid, 0)
            running.discard(pid)
            with contextlib.suppress(OSError):  # nobody waits any more
                requests.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _import_everything() -> None:
    import fairlead

    with contextlib.suppress(ImportError):
        import uvloop  # noqa: F401
    for module in pkgutil.walk_packages(fairlead.__path__, "fairlead."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def _become_gateway(request: dict[str, Any], ours: Sequence[int]) -> NoReturn:
    from fairlead.cli.main import main

    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for fd in (1, 2):
            os.dup2(log, fd)
        for fd in (*ours, log):
            os.close(fd)
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = request["argv"]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve_forks()
