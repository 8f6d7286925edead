"""The link to a CLI that a shim lends us: frames over a dial-in socket.

Lines of the CLI go to the driver in order; a line that arrives a second time after a reconnect is dropped. The shim
gets the number of the last stored line, and keeps what is newer.
"""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from fairlead.agents.claude.shim.frames import (
    AnswerAccepted,
    CallerLine,
    CliExit,
    CliInput,
    CliLine,
    EndCli,
    FromShim,
    LinesLost,
    Stored,
    decode_from_shim,
    encode_frame,
    unpack,
)
from fairlead.agents.links.dialin import DialInConnection, DialInLink
from fairlead.model.agents import Exit, LentProcess
from fairlead.model.errors import AgentNotRunning
from fairlead.system.pipes import Take

logger = logging.getLogger("fairlead.agents.claude")

TakeLine = Callable[[bytes], Awaitable[None]]


class ShimLink:
    """Implements `Link`. `on_caller_line` gets the lines of the shim's caller, and `on_lines_lost` is called where the
    shim had to drop lines, in order with the CLI's lines."""

    output = None

    def __init__(self, link: DialInLink, process: LentProcess) -> None:
        self.link = link
        self.pid = process.pid
        self.on_caller_line: TakeLine
        self.on_lines_lost: Callable[[], Awaitable[None]]
        self._stored = 0
        self._sent = 0
        self._exit = Exit()

    @property
    def running(self) -> bool:
        return self.link.running

    async def receive(self, take: Take) -> None:
        async def frames(data: bytes) -> None:
            await self._take_frames(data, take)

        await self.link.receive(frames, self._arrived)

    async def send(self, data: bytes, key: str = "") -> None:
        self._sent += 1
        await self.link.send(encode_frame(CliInput(n=self._sent, line=msgspec.Raw(data.strip()))))

    async def accept_answer(self, request: str) -> None:
        await self.link.send(encode_frame(AnswerAccepted(request=request)))

    async def end_cli(self, reason: str) -> None:
        """Ask the shim to end the CLI. Nothing happens if the shim is gone."""
        try:
            await self.link.send(encode_frame(EndCli(reason=reason)))
        except AgentNotRunning:
            logger.info("the shim is gone", extra={"pid": self.pid})

    async def stop(self) -> Exit:
        await self.link.stop()
        return self._exit

    async def _arrived(self, arrival: DialInConnection) -> None:
        self._confirm()

    def _confirm(self) -> None:
        self.link.send_if_connected(encode_frame(Stored(n=self._stored)))

    async def _take_frames(self, data: bytes, take: Take) -> None:
        lines: list[bytes] = []
        newest = self._stored
        for line in data.split(b"\n"):
            frame = self._decode(line)
            if frame is None or frame.n <= newest:
                continue
            newest = frame.n
            if isinstance(frame, CliLine):
                lines.append(unpack(frame.line))
                continue
            await _flush(lines, take)
            match frame:
                case CallerLine():
                    await self.on_caller_line(unpack(frame.line))
                case LinesLost():
                    await self.on_lines_lost()
                case CliExit():
                    self._exit = Exit(code=frame.code, signal=frame.signal)
        await _flush(lines, take)
        self._stored = newest
        self._confirm()
        if self._exit != Exit():
            await self.link.stop()

    def _decode(self, line: bytes) -> FromShim | None:
        if not line:
            return None
        try:
            return decode_from_shim(line)
        except msgspec.DecodeError as error:
            logger.warning("the shim sent an invalid frame", extra={"pid": self.pid, "error": str(error)[:200]})
            return None


async def _flush(lines: list[bytes], take: Take) -> None:
    if lines:
        await take(b"\n".join(lines) + b"\n")
        lines.clear()
