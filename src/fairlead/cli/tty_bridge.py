"""Bridge between the local terminal and a remote program: keys and output pass through unchanged.

At the end the terminal is always restored: its settings, and every mode that the program has switched on.
"""

import asyncio
import codecs
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from fairlead.cli.output import hint
from fairlead.client.connection import open_socket, response_error, unreachable
from fairlead.client.endpoint import GatewayEndpoint
from fairlead.client.errors import CommandFailed, Missing, UsageError
from fairlead.terminals.screen.modes import CLEAR_HISTORY, UNDO

LEAVE: Final = re.compile(rb"\x1d|\x1b\[93;5(?::1)?u|\x1b\[27;5;93~")
"""Ctrl-], also in the encodings that terminals use when a program has requested another encoding of keys."""
INTERRUPT: Final = re.compile(rb"\x03|\x1b\[99;5(?::1)?u|\x1b\[27;5;99~")
"""Ctrl-C, which leaves when no keys are sent (--view)."""
CLOSED: Final = "The gateway closed the connection. The program continues if the gateway does."


class _ServerFrame(msgspec.Struct):
    type: str
    cols: int = 0
    rows: int = 0
    code: Any = None
    signal: int | None = None
    message: str = ""


@contextmanager
def _raw_mode() -> Iterator[None]:
    before = termios.tcgetattr(0)
    # Move the current screen into the scrollback, where the person can still read it.
    _write(b"\r\n" * os.get_terminal_size().lines)
    try:
        tty.setraw(0)
        yield
    finally:
        _write(UNDO + f"\x1b[?25h\x1b[{os.get_terminal_size().lines};1H\r\n".encode())
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


async def attach(endpoint: GatewayEndpoint, session: str, *, view: bool) -> None:
    """Attach this process's terminal until the person leaves or the program has ended. Raises ClientError."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("This command needs a terminal. Read the screen with: GET /v1/sessions/ID/terminal")
    try:
        async with open_socket(endpoint, f"/v1/sessions/{session}/terminal") as socket:
            with _raw_mode():
                outcome = await _Visit(socket, view=view).stay()
    except InvalidStatus as error:
        refused = response_error(error.response.status_code, error.response.body, endpoint.url)
        if isinstance(refused, Missing):
            todo = f"Move it to a terminal with: fairlead hand-over {session} terminal"
            refused = Missing(f"{refused.message} {todo}", refused.code)
        raise refused from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise unreachable(endpoint.url, error) from error
    hint(outcome)


class _Visit:
    def __init__(self, socket: ClientConnection, *, view: bool) -> None:
        self._socket = socket
        self._view = view
        self._leave = INTERRUPT if view else LEAVE
        self._typed = codecs.getincrementaldecoder("utf-8")("replace")
        self._outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._left: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def stay(self) -> str:
        """Run until it is over and return a text for the person. Raises CommandFailed if the gateway goes away."""
        loop = asyncio.get_running_loop()
        loop.add_reader(0, self._keys)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, "Left.")
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self._resized()
        tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._receive())]
        try:
            any_of: set[asyncio.Future[Any]] = {self._left, *tasks}
            await asyncio.wait(any_of, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            return self._left.result()
        except ConnectionClosed as error:
            raise CommandFailed(CLOSED) from error
        finally:
            loop.remove_reader(0)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH):
                loop.remove_signal_handler(number)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _keys(self) -> None:
        data = os.read(0, 65536)
        found = LEAVE.search(data) or self._leave.search(data)
        mine = data[: found.start()] if found is not None else data
        if not self._view and (text := self._typed.decode(mine)):
            self._outgoing.put_nowait({"type": "input", "data": text})
        if found is not None or not data:
            self._end("Left; the program continues.")

    def _resized(self) -> None:
        if not self._view:
            size = os.get_terminal_size()
            self._outgoing.put_nowait({"type": "resize", "cols": size.columns, "rows": size.lines})

    def _end(self, why: str) -> None:
        if not self._left.done():
            self._left.set_result(why)

    async def _send(self) -> None:
        while True:
            await self._socket.send(msgspec.json.encode(await self._outgoing.get()).decode())

    async def _receive(self) -> None:
        async for raw in self._socket:
            if isinstance(raw, bytes):
                # The scrollback of this terminal belongs to the person: the program must not clear it.
                _write(raw.replace(CLEAR_HISTORY, b""))
                continue
            frame = msgspec.json.decode(raw, type=_ServerFrame)
            if frame.type == "exit":
                how = f"with {frame.code}" if frame.signal is None else f"by signal {frame.signal}"
                self._end(f"The program has ended {how}.")
                return
            # agent_gone: keys arrived too late for the program; the exit frame follows.
            if frame.type == "error" and frame.code != "agent_gone":
                raise CommandFailed(frame.message)
            if frame.type == "size" and self._view:
                self._check_room(frame)
        raise CommandFailed(CLOSED)

    def _check_room(self, frame: _ServerFrame) -> None:
        columns, rows = os.get_terminal_size()
        if frame.cols > columns or frame.rows > rows:
            raise UsageError(
                f"The session's terminal is {frame.cols} x {frame.rows}, yours is {columns} x {rows}: make the window "
                "larger, or join without --view, which makes the session's terminal smaller."
            )
