"""A socket protocol that only hands its socket to an owner (a terminal, a change feed); several protocols share it."""

from collections.abc import Sequence

from fairlead.model.web.requests import Step
from fairlead.model.web.sockets import AttachOwner, Effect, Flow, RunFlow, SocketOwner


class Handing:
    """Gives the socket to the `SocketOwner` that a step returns. Messages before that are kept for the owner, up to
    `early` bytes; a subclass defines the response to a failed step (`failed`)."""

    def __init__(self, step: Step, early: int) -> None:
        self._step = step
        self._room = early
        self._kept: list[bytes] = []

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._hand_over()),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        """Keep messages until the owner has the socket; after that it receives them itself."""
        self._room -= len(data)
        if self._room >= 0:
            self._kept.append(data)
        return ()

    def _hand_over(self) -> Flow:
        owner: SocketOwner = yield self._step
        yield AttachOwner(owner, self._kept)
