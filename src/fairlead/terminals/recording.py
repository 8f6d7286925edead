"""Records a program's output to a file as asciicast (version 2). Input is not recorded: it may be a password.

The program never waits for the disk: the write queue is bounded, and a recording that cannot continue ends.
Format: https://docs.asciinema.org/manual/asciicast/v2/
"""

import asyncio
import logging
import os
from typing import Final

import msgspec

from fairlead.system.clock import Clock
from fairlead.terminals.api import Program, Size

log = logging.getLogger("fairlead.terminals")

MOST_BYTES: Final = 64 << 20
"""Limit of one recording: some days of a busy shell, or a minute of a flood."""
UNWRITTEN_BYTES: Final = 4 << 20
"""Limit of the queue to the disk."""


def begin_recording(program: Program, size: Size, clock: Clock) -> "Recording | None":
    """Start a recording; None, with an error in the log, if the file cannot be created: a full disk must not keep a
    person from their shell."""
    try:
        os.makedirs(os.path.dirname(program.recording), mode=0o700, exist_ok=True)
        fd = os.open(program.recording, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        log.error("a terminal cannot be recorded", extra={"path": program.recording, "why": error.strerror})
        return None
    return Recording(fd, program, size, clock)


class Recording:
    """An open recording; owns the descriptor."""

    def __init__(self, fd: int, program: Program, size: Size, clock: Clock) -> None:
        self._fd = fd
        self._path = program.recording
        self._clock = clock
        self._begun = clock.monotonic()
        self._unwritten = bytearray()
        self._bytes = 0
        self._over = False
        self._writing: asyncio.Task[None] | None = None
        env = {"TERM": program.env.get("TERM", ""), "SHELL": program.argv[0]}
        head = {"version": 2, "width": size.columns, "height": size.rows}
        self._line(head | {"timestamp": self._clock.now_ms() // 1000, "env": env})

    def output(self, data: bytes) -> None:
        self._event("o", data.decode())

    def resized(self, size: Size) -> None:
        self._event("r", f"{size.columns}x{size.rows}")

    async def close(self) -> None:
        self._over = True
        if self._writing is not None:
            await asyncio.wait({self._writing})
        os.close(self._fd)

    def _event(self, kind: str, text: str) -> None:
        if not self._over:
            self._line((round(self._clock.monotonic() - self._begun, 6), kind, text))

    def _line(self, value: object) -> None:
        line = msgspec.json.encode(value) + b"\n"
        self._bytes += len(line)
        if self._bytes > MOST_BYTES:
            self._stop("it is too long")
        elif len(self._unwritten) + len(line) > UNWRITTEN_BYTES:
            self._stop("the disk is too slow")
        else:
            self._unwritten += line
            if self._writing is None:
                self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._unwritten:
                lines = bytes(self._unwritten)
                self._unwritten.clear()
                await asyncio.to_thread(_write_all, self._fd, lines)
        except OSError as error:
            self._unwritten.clear()
            self._stop(error.strerror or "it cannot be written")
        finally:
            self._writing = None

    def _stop(self, why: str) -> None:
        self._over = True
        log.error("the recording of a terminal was stopped", extra={"path": self._path, "why": why})


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
