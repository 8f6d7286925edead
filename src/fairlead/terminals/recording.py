"""Records a program's output to a file as asciicast (version 2). Input is not recorded: it may be a password.

The program never waits for the disk: the write queue is bounded, and a recording that cannot continue ends.
Format: https://docs.asciinema.org/manual/asciicast/v2/
"""

import asyncio
import contextlib
import logging
import os
from typing import Final

import msgspec

from fairlead.system.clock import Clock
from fairlead.terminals.api import Program, Size
from fairlead.terminals.memo import RecordingMark

log = logging.getLogger("fairlead.terminals")

MOST_BYTES: Final = 64 << 20
"""Limit of one recording: some days of a busy shell, or a minute of a flood."""
UNWRITTEN_BYTES: Final = 4 << 20
"""Limit of the queue to the disk."""
LONGEST_LINE: Final = 1 << 20
"""Bytes of a line, at most: output is recorded in pieces of some KiB."""


def begin_recording(program: Program, size: Size, clock: Clock) -> "Recording | None":
    """Start a recording; None, with an error in the log, if the file cannot be created: a full disk must not keep a
    person from their shell."""
    try:
        os.makedirs(os.path.dirname(program.recording), mode=0o700, exist_ok=True)
        fd = os.open(program.recording, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        log.error("a terminal cannot be recorded", extra={"path": program.recording, "why": error.strerror})
        return None
    recording = Recording(fd, program.recording, RecordingMark(0, clock.now_ms()), clock)
    recording.head(program, size)
    return recording


def resume_recording(path: str, mark: RecordingMark, clock: Clock) -> "Recording | None":
    """Continue a recording of an earlier gateway where its terminal was saved: the output after that comes again. What
    that gateway had not written to the disk is lost."""
    try:
        with contextlib.ExitStack() as failing:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            failing.callback(os.close, fd)
            end = _whole_lines(fd, mark.bytes)
            os.ftruncate(fd, end)
            os.lseek(fd, end, os.SEEK_SET)
            failing.pop_all()
    except OSError as error:
        log.error("a terminal cannot be recorded", extra={"path": path, "why": error.strerror})
        return None
    return Recording(fd, path, RecordingMark(end, mark.begun_ms), clock)


def _whole_lines(fd: int, wanted: int) -> int:
    """How many bytes of a recording to keep: a gateway that was killed may have written less, and half a line."""
    size = os.fstat(fd).st_size
    if size >= wanted:
        return wanted
    last = os.pread(fd, LONGEST_LINE, max(0, size - LONGEST_LINE))
    return size - len(last) + last.rfind(b"\n") + 1


class Recording:
    """An open recording; owns the descriptor. `mark`: how much of it there is already."""

    def __init__(self, fd: int, path: str, mark: RecordingMark, clock: Clock) -> None:
        self._fd = fd
        self._path = path
        self._clock = clock
        self._begun_ms = mark.begun_ms
        self._begun = clock.monotonic() - max(0, clock.now_ms() - mark.begun_ms) / 1000
        self._unwritten = bytearray()
        self._bytes = mark.bytes
        self._over = False
        self._writing: asyncio.Task[None] | None = None

    def head(self, program: Program, size: Size) -> None:
        env = {"TERM": program.env.get("TERM", ""), "SHELL": program.argv[0]}
        head = {"version": 2, "width": size.columns, "height": size.rows}
        self._line(head | {"timestamp": self._begun_ms // 1000, "env": env})

    def mark(self) -> RecordingMark | None:
        """How far it has come; None if it was stopped."""
        return None if self._over else RecordingMark(self._bytes, self._begun_ms)

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
