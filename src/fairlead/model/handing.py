"""A conversation that only gives its socket to somebody else (a terminal, a feed): what several protocols share."""

from collections.abc import Sequence
from typing import Any

from fairlead.model.requests import Step
from fairlead.model.sockets import AttachOwner, Do, Perform, SocketOwner


class Handing:
    """Gives the socket to whom a step answers with. What the client says before that is kept for it, up to `early`
    bytes; a subclass says what a client is told where there is nobody to give it to (`failed`)."""

    def __init__(self, step: Step, lane: str, early: int) -> None:
        self._step = step
        self._lane = lane
        self._room = early
        self._kept: list[bytes] = []

    def opened(self) -> Sequence[Do]:
        return (Perform(None, self._step, self._lane),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        """Before the holder has the socket; afterwards it hears everything itself."""
        self._room -= len(data)
        if self._room >= 0:
            self._kept.append(data)
        return ()

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        holder: SocketOwner = answer
        for data in self._kept:
            holder.received(data)
        return (AttachOwner(holder),)
