"""A socket protocol that only hands its socket to an owner (a terminal, a change feed); several protocols share it."""

from collections.abc import Sequence
from typing import Any

from fairlead.model.web.requests import Step
from fairlead.model.web.sockets import AttachOwner, Do, Perform


class Handing:
    """Gives the socket to the `SocketOwner` that a step returns. Messages before that are kept for the owner, up to
    `early` bytes; a subclass defines the response to a failed step (`failed`)."""

    def __init__(self, step: Step, lane: str, early: int) -> None:
        self._step = step
        self._lane = lane
        self._room = early
        self._kept: list[bytes] = []

    def opened(self) -> Sequence[Do]:
        return (Perform(None, self._step, self._lane),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        """Keep messages until the owner has the socket; after that it receives them itself."""
        self._room -= len(data)
        if self._room >= 0:
            self._kept.append(data)
        return ()

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        return (AttachOwner(answer, self._kept),)
