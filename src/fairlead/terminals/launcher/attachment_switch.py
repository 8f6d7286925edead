"""A socket whose client names the program that it wants to sit before, and may want another later.

It sits before one at a time. What is said after a wish belongs to that wish: keys wait while its program is started,
and whatever becomes of an earlier one is told to nobody here any more. What waits is bounded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError
from fairlead.model.sockets import SocketHandle
from fairlead.terminals.api import LauncherCodec, ProgramAttached, ProgramRequest, Size, TerminalReply, TypedKeys
from fairlead.terminals.attachment import TerminalAttachment
from fairlead.terminals.pty_session import PtySession

log = logging.getLogger("fairlead.terminals")

EARLY_BYTES: Final = 1 << 20
"""Keys that may wait for a program that is being started."""


class AttachTarget(msgspec.Struct, frozen=True):
    """A program to sit before. `began`: it was started for this, so that all it has printed is to be shown.
    `next_wish`: asked when it has ended; what is wanted in its place without a word of the client, and why."""

    terminal: PtySession
    seated: ProgramAttached
    began: bool
    next_wish: Callable[[Exit], Awaitable[tuple[ProgramRequest, str] | None]]


class _Attachment(TerminalAttachment):
    """Before one program."""

    def __init__(self, place: AttachTarget, desk: "ProgramSwitch", who: str, wanted: ProgramRequest) -> None:
        super().__init__(place.terminal, desk.codec, who, size=wanted.size)
        self._place = place
        self._desk = desk

    def _begins_raw(self) -> bool:
        """As it was printed, where that gives the same screen: lines are not cut at the edge, and more of them are
        there."""
        return self._place.began or self._place.terminal.intact

    def _over(self, wire: SocketHandle, exit: Exit) -> None:
        self._desk.over(self, self._place, exit)


class _SwitchedHandle:
    """The client's wire as a seat has it: implements `model.sockets.Wire`. Its end is the seat's alone."""

    def __init__(self, wire: SocketHandle) -> None:
        self._wire = wire
        self._in_use = True
        self._paused = False

    def send(self, frames: bytes) -> None:
        if self._in_use:
            self._wire.send(frames)

    def backlog(self) -> int:
        return self._wire.backlog()

    def probe(self, answered: Callable[[], None]) -> None:
        self._wire.probe(answered)

    def pause(self) -> None:
        if self._in_use:
            self._paused = True
            self._wire.pause()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._wire.resume()

    def hang_up(self, code: int, reason: str) -> None:
        if self._in_use:
            self._wire.hang_up(code, reason)

    def leave(self) -> None:
        self._in_use = False
        self.resume()


class ProgramSwitch:
    """Implements `model.sockets.Holder`. `enter` finds or starts what is wanted; its second word says why something
    else is not there any more."""

    def __init__(
        self, codec: LauncherCodec, who: str, enter: Callable[[ProgramRequest, str], Awaitable[AttachTarget]]
    ) -> None:
        self.codec = codec
        self._who = who
        self._enter = enter
        self._wire: SocketHandle | None = None
        self._seat: tuple[_Attachment, _SwitchedHandle] | None = None
        self._entering: asyncio.Task[None] | None = None
        self._early: list[TypedKeys | Size | TerminalReply] = []
        self._early_bytes = 0
        self._unread: list[bytes] = []
        self._seats = 0

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire
        unread, self._unread = self._unread, []
        for data in unread:
            self.received(data)

    def received(self, data: bytes) -> None:
        """Also before it is attached."""
        if self._wire is None:
            self._unread.append(data)
            return
        said = self.codec.read(data)
        match said:
            case TerminalReply(frames=frames):
                self._wire.send(frames)
            case ProgramRequest():
                self._want(said)
            case _ if self._seat is not None:
                self._seat[0].heard(said)
            case _ if self._entering is not None:
                self._early_bytes += len(data)
                if self._early_bytes <= EARLY_BYTES:
                    self._early.append(said)
            case _:
                pass

    def drained(self) -> None:
        if self._seat is not None:
            self._seat[0].drained()

    def detached(self, code: int) -> None:
        self._leave()
        self._wire = None

    def over(self, seat: _Attachment, place: AttachTarget, exit: Exit) -> None:
        """The program of that seat has ended."""
        if self._seat is not None and self._seat[0] is seat:
            # Whoever types now types into what may come in its place.
            self._seat[1].leave()
            self._seat = None
            self._entering = asyncio.create_task(self._after(place, exit))

    # --- inside

    def _leave(self) -> None:
        """Nothing of an earlier wish happens here any more."""
        if self._entering is not None:
            self._entering.cancel()
            self._entering = None
        self._early.clear()
        self._early_bytes = 0
        if self._seat is not None:
            seat, wire = self._seat
            self._seat = None
            wire.leave()
            seat.detached(0)

    def _want(
        self, wanted: ProgramRequest, lost: str = "", early: Sequence[TypedKeys | Size | TerminalReply] = ()
    ) -> None:
        early = list(early)
        self._leave()
        self._early += early
        self._entering = asyncio.create_task(self._sit(wanted, lost))

    async def _sit(self, wanted: ProgramRequest, lost: str) -> None:
        wire = self._wire
        if wire is None:
            return
        try:
            place = await self._enter(wanted, lost)
        except FairleadError as error:
            self._entering = None
            self._leave()
            wire.send(self.codec.refused(error))
            return
        except Exception:
            log.exception("a program could not be given to its client")
            self._entering = None
            self._leave()
            wire.send(self.codec.refused(FairleadError("The gateway failed: its log says why.")))
            return
        self._entering = None
        self._seats += 1
        seat = _Attachment(place, self, f"{self._who}/{self._seats}", wanted)
        seat_wire = _SwitchedHandle(wire)
        self._seat = (seat, seat_wire)
        wire.send(self.codec.seated(place.seated))
        seat.attached(seat_wire)
        early, self._early = self._early, []
        for said in early:
            seat.heard(said)

    async def _after(self, place: AttachTarget, exit: Exit) -> None:
        wish = await place.next_wish(exit)
        self._entering = None
        if wish is not None:
            self._want(*wish, early=self._early)
        elif self._wire is not None:
            self._wire.send(self.codec.ended(exit))
            self._leave()
