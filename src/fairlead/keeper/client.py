"""The gateway's side of the keeper: the connection, and the start of a keeper.

The gateway decides what is started and wraps it in its sandbox; the keeper starts it and holds its pipes. One gateway
is connected at a time: another one that connects ends this connection.
"""

import asyncio
import contextlib
import errno
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from fairlead.keeper import address
from fairlead.keeper import messages as say
from fairlead.keeper.children import INFO, PIPES, STATUS
from fairlead.keeper.frames import FrameDecoder, MalformedFrame
from fairlead.keeper.kept_process import KeeperLost, KeptProcess
from fairlead.system.clock import Clock, within
from fairlead.system.descriptors import child_limits, launcher
from fairlead.system.platform import FORCED, PORTABLE
from fairlead.system.process import check_folder, check_program
from fairlead.system.process_group import StopTimeouts
from fairlead.system.sandbox import Sandbox
from fairlead.system.tasks import TaskSet

_log = logging.getLogger("fairlead.keeper")

__all__ = ["Keeper", "KeeperLost", "KeptProcess", "ProcessSpec", "connect", "connect_or_start"]

_ANSWER_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_ATTEMPTS = 3
_LOST = "the connection to the keeper was lost"
_PACKAGES = str(Path(__file__).parent.parent.parent)
_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from fairlead.keeper.daemon import main
main(sys.argv[2], foreground=len(sys.argv) > 3)
"""


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A process for the keeper. It gets exactly this environment, and no descriptors besides its own."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    tag: Mapping[str, Any]
    """JSON; the next gateway finds it in the keeper's list."""
    sandbox: Sandbox | None = None
    size: tuple[int, int] | None = None
    """Columns and rows: it runs on a PTY; None: on three pipes."""
    orphan_s: float = 3600.0
    """Without a gateway for so many seconds, the keeper ends the process."""


class Keeper:
    """The connection to a keeper. Created by `connect` and `connect_or_start`."""

    def __init__(self, wire: "_Wire", clock: Clock) -> None:
        self.found: tuple[KeptProcess, ...] = ()
        """The processes that the keeper had when we connected, also those that have ended and are not forgotten."""
        self.lost = asyncio.Event()
        """Set when the connection has ended although we did not close it."""
        self._wire = wire
        self._clock = clock
        self._processes: dict[int, KeptProcess] = {}
        self._requests: dict[int, asyncio.Future[KeptProcess]] = {}
        self._last = 0
        self._tasks = TaskSet("a process that was not wanted any more could not be ended")

    async def spawn(self, spec: ProcessSpec) -> KeptProcess:
        """Start a process. Raises OSError when it cannot be started, as `spawn` and `spawn_on_pty` in `system` do; then
        nothing is left behind."""
        if self._wire.closed:
            raise KeeperLost(_LOST)
        self._last += 1
        self._wire.send(_request(self._last, spec))
        answer: asyncio.Future[KeptProcess] = asyncio.get_running_loop().create_future()
        self._requests[self._last] = answer
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._tasks.spawn(_discard(answer))
            raise

    async def close(self, *, quit: bool = False) -> None:
        """Leave the keeper; its processes run on. `quit`: it exits at once if it has no process."""
        for process in self._processes.values():
            process.flush_ack()
        if quit:
            self._wire.send(say.Quit())
        self._wire.close()
        try:
            await within(self._clock, _CLOSE_SECONDS, self._wire.ended.wait())
        except TimeoutError:  # the keeper does not take what we have sent
            self._wire.abort()
        await self._tasks.close()

    def receive(self, message: say.Message) -> None:
        match message:
            case say.Kept(number, request):
                process = self._processes[number] = KeptProcess(message, self._wire.send, self._forget)
                if (answer := self._requests.pop(request, None)) is not None:
                    answer.set_result(process)
            case say.SpawnFailed(request, number, text, filename):
                if (answer := self._requests.pop(request, None)) is not None:
                    answer.set_exception(OSError(number, text, filename) if number else ValueError(text))
            case say.Listed():
                self.found = tuple(self._processes.values())
            case _:
                # A process that was just forgotten may still send something.
                if (known := self._processes.get(getattr(message, "process", 0))) is not None:
                    known.receive(message)

    def disconnected(self, wanted: bool) -> None:
        if not wanted:
            self.lost.set()
        for process in self._processes.values():
            process.lose()
        for answer in self._requests.values():
            answer.set_exception(KeeperLost(_LOST))
        self._requests.clear()

    def _forget(self, number: int) -> None:
        self._processes.pop(number, None)


class _Wire(asyncio.Protocol):
    """The socket. A message that makes no sense ends it."""

    def __init__(self, clock: Clock) -> None:
        self.keeper = Keeper(self, clock)
        self.ended = asyncio.Event()
        self.listed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._closing = False

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def send(self, message: say.Message) -> None:
        """Send a message; after the end of the connection do nothing. Raises ValueError if it is too large."""
        frame = say.pack(message)
        if self._transport is not None and not self.closed and not self._closing:
            self._transport.write(frame)

    def close(self) -> None:
        """End our side when everything is sent; the keeper then ends the connection. If we closed it before, what we
        have sent last could be lost: the keeper stops reading when it cannot send."""
        self._closing = True
        if not self.closed and self._transport is not None:
            self._transport.write_eof()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has its own class
        if address.is_own(transport.get_extra_info("socket")):
            self.send(say.Hello())
        else:
            self.listed.set_exception(PermissionError(errno.EPERM, "the keeper belongs to another user"))
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            for frame in self._decoder.feed(data):
                message = say.unpack(frame)
                self.keeper.receive(message)
                if isinstance(message, say.Listed) and not self.listed.done():
                    self.listed.set_result(None)
        except MalformedFrame as error:
            _log.error("the keeper sent %s", error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.listed.done():
            self.listed.set_exception(ConnectionResetError(errno.ECONNRESET, "the keeper has closed the connection"))
        self.keeper.disconnected(self._closing)
        self.ended.set()


async def connect(data: Path, clock: Clock) -> Keeper:
    """Connect to the keeper of a data folder. Raises OSError if none answers."""
    wire = _Wire(clock)
    with address.short_path(str(data)) as path:
        await asyncio.get_running_loop().create_unix_connection(lambda: wire, path)
    try:
        await within(clock, _ANSWER_SECONDS, wire.listed)
    except BaseException:
        wire.abort()
        raise
    return wire.keeper


async def connect_or_start(data: Path, clock: Clock) -> Keeper:
    """Connect to the keeper of a data folder, or start one. Raises OSError."""
    for _ in range(_ATTEMPTS):
        # A keeper that had nothing to do may end between our connection and its answer.
        with contextlib.suppress(FileNotFoundError, ConnectionError):
            return await connect(data, clock)
        await asyncio.to_thread(_start_keeper, data)
    return await connect(data, clock)


def keeper_command(data: Path, *, foreground: bool = False) -> list[str]:
    """Return the command that becomes a keeper. It ends when the keeper listens; in the `foreground`, when it ends."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, _PACKAGES, str(data.absolute())]
    return [*command, "foreground"] if foreground else command


def _start_keeper(data: Path) -> None:
    """Start a keeper, unless one answers. Raises OSError. The keeper gets nothing of ours: no variables, which may hold
    secrets, and no descriptors."""
    try:
        ran = subprocess.run(
            keeper_command(data),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=FORCED,
            cwd="/",
            start_new_session=True,
            check=False,
            timeout=_ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(errno.ETIMEDOUT, "the keeper does not start") from None
    if ran.returncode:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(errno.EIO, f"the keeper cannot be started: {lines[-1] if lines else ran.returncode}")


async def _discard(answer: "asyncio.Future[KeptProcess]") -> None:
    """End a process whose caller was cancelled while it was being started."""
    with contextlib.suppress(OSError, ValueError):
        process = await answer
        await process.end(StopTimeouts(close=0, terminate=0))
        process.forget()


def _request(number: int, spec: ProcessSpec) -> say.SpawnRequest:
    launch, cwd = _launch(spec)
    return say.SpawnRequest(
        request=number,
        launch=[_utf8(word) for word in launch],
        argv=[_utf8(word) for word in spec.argv],
        env={_utf8(name): _utf8(value) for name, value in spec.env.items()},
        cwd=_utf8(cwd),
        tag=dict(spec.tag),
        size=None if spec.size is None else list(spec.size),
        orphan_s=spec.orphan_s,
        limits=list(child_limits()),
    )


def _launch(spec: ProcessSpec) -> tuple[list[str], str]:
    """Return the command that stands before the program's own one, and the folder in which it is started."""
    options: tuple[str, ...] = ()
    if spec.size is not None:
        through = launcher("pty", [STATUS], spec.env)
        options = ("--info-fd", INFO)
    elif spec.sandbox is not None or PORTABLE:
        check_program(spec.argv[0], spec.env, spec.cwd)
        through = launcher("pipes", [PIPES], spec.env)
    else:
        return [], spec.cwd
    check_folder(spec.cwd)
    if spec.sandbox is None:
        return through, spec.cwd
    wrapped = spec.sandbox.wrap(spec.argv, spec.cwd, through=through, options=options)
    return wrapped[: -len(spec.argv)], "/"


def _utf8(text: str) -> str:
    """Return a text from which the keeper, whose encoding is always UTF-8, gets the same bytes."""
    return os.fsencode(text).decode("utf-8", "surrogateescape")
