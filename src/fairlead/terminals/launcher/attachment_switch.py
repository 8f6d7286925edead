"""A socket attached to one program at a time; the client can switch programs.

Input after a request belongs to that request: keys wait while its program is started, and the outcome of an earlier
request is no longer sent to the client. The queue is bounded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from fairlead.model.agents import Exit
from fairlead.model.errors import FairleadError
from fairlead.model.web.sockets import SocketHandle
from fairlead.terminals.api import LauncherCodec, ProgramAttached, ProgramRequest, Size, TerminalReply, TypedKeys
from fairlead.terminals.attachment import TerminalAttachment
from fairlead.terminals.pty_session import PtySession

log = logging.getLogger("fairlead.terminals")

EARLY_BYTES: Final = 1 << 20
"""Keys that may wait for a program that is being started."""


class AttachTarget(msgspec.Struct, frozen=True):
    """A program to attach to. `began`: it was started for this request, so all its output is sent. `next_request`:
    called when the program has ended; returns the request that replaces it without a message of the client, and the
    reason."""

    terminal: PtySession
    attached: ProgramAttached
    began: bool
    next_request: Callable[[Exit], Awaitable[tuple[ProgramRequest, str] | None]]


class _Attachment(TerminalAttachment):
    def __init__(self, place: AttachTarget, switch: "ProgramSwitch", who: str, wanted: ProgramRequest) -> None:
        super().__init__(place.terminal, switch.codec, who, size=wanted.size)
        self._place = place
        self._switch = switch

    def _begins_raw(self) -> bool:
        """Begin with the raw output if it gives the same screen: its lines are not cut at the edge, and there are more
        of them."""
        return self._place.began or self._place.terminal.intact

    def _over(self, wire: SocketHandle, exit: Exit) -> None:
        self._switch.on_exit(self, self._place, exit)


class ProgramSwitch:
    """Implements `model.web.sockets.SocketOwner`. `enter` finds or starts the requested program; its second argument is
    the reason why an earlier program is gone (`ProgramAttached.lost`)."""

    def __init__(
        self, codec: LauncherCodec, who: str, enter: Callable[[ProgramRequest, str], Awaitable[AttachTarget]]
    ) -> None:
        self.codec = codec
        self._who = who
        self._enter = enter
        self._wire: SocketHandle | None = None
        self._attachment: _Attachment | None = None
        self._entering: asyncio.Task[None] | None = None
        self._early: list[TypedKeys | Size | TerminalReply] = []
        self._early_bytes = 0
        self._attachments = 0

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire

    def received(self, data: bytes, text: bool) -> None:
        message = self.codec.read(data)
        match message:
            case TerminalReply(frames=frames):
                self._send(frames)
            case ProgramRequest():
                self._request(message)
            case _ if self._attachment is not None:
                self._attachment.on_input(message)
            case _ if self._entering is not None:
                self._early_bytes += len(data)
                if self._early_bytes <= EARLY_BYTES:
                    self._early.append(message)

    def drained(self) -> None:
        if self._attachment is not None:
            self._attachment.drained()

    def detached(self, code: int, reason: str) -> None:
        self._leave()
        self._wire = None

    def on_exit(self, attachment: _Attachment, place: AttachTarget, exit: Exit) -> None:
        if self._attachment is attachment:
            # Keys from now on go to the program that may replace it.
            self._detach()
            self._entering = asyncio.create_task(self._after(place, exit))

    def _send(self, frames: bytes) -> None:
        if self._wire is not None:
            self._wire.send(frames)

    def _leave(self) -> None:
        """Cancel the current request and detach from its program."""
        if self._entering is not None:
            self._entering.cancel()
            self._entering = None
        self._early.clear()
        self._early_bytes = 0
        self._detach()

    def _detach(self) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.detached(0, "")

    def _request(
        self, wanted: ProgramRequest, lost: str = "", early: Sequence[TypedKeys | Size | TerminalReply] = ()
    ) -> None:
        early = list(early)
        self._leave()
        self._early += early
        self._entering = asyncio.create_task(self._attach(wanted, lost))

    async def _attach(self, wanted: ProgramRequest, lost: str) -> None:
        wire = self._wire
        if wire is None:
            return
        try:
            place = await self._enter(wanted, lost)
        except Exception as error:
            if not isinstance(error, FairleadError):
                log.exception("attaching a client to a program failed")
                error = FairleadError("The gateway failed: see its log.")
            self._entering = None
            self._leave()
            wire.send(self.codec.refused(error))
            return
        self._entering = None
        self._attachments += 1
        attachment = _Attachment(place, self, f"{self._who}/{self._attachments}", wanted)
        self._attachment = attachment
        wire.send(self.codec.attached(place.attached))
        attachment.attached(wire)
        early, self._early = self._early, []
        for message in early:
            attachment.on_input(message)

    async def _after(self, place: AttachTarget, exit: Exit) -> None:
        following = await place.next_request(exit)
        self._entering = None
        if following is not None:
            self._request(*following, early=self._early)
        else:
            self._send(self.codec.ended(exit))
            self._leave()
