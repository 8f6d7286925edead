"""The state of a dial-in link, without its socket: the state table and the lines not yet confirmed. Pure.

Rule: only this module decides whether the link is connected.
"""

from collections import deque
from enum import StrEnum
from typing import Final

from fairlead.model.errors import AgentTimeout


class DialInState(StrEnum):
    IDLE = "idle"
    CONNECTING = "connecting"
    """The agent's first connection is expected."""
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    """The socket has dropped; the agent may reconnect for as long as its version keeps trying."""
    CLOSING = "closing"
    CLOSED = "closed"


class DialInSignal(StrEnum):
    EXPECTED = "expected"
    OPENED = "socket opened"
    DROPPED = "socket dropped"
    GAVE_UP = "no longer expected"
    STOPPED = "stopped by us"
    ENDED = "agent ended"


_S, _E = DialInState, DialInSignal

ACCEPTING: Final = frozenset({DialInState.CONNECTING, DialInState.CONNECTED, DialInState.RECONNECTING})
"""The states in which the agent may open a socket and we may send a line."""

TABLE: Final[dict[tuple[DialInState, DialInSignal], DialInState]] = {
    (_S.IDLE, _E.EXPECTED): _S.CONNECTING,
    # Connected already: the agent noticed before us that its socket is dead, and the new one replaces it.
    **{(state, _E.OPENED): _S.CONNECTED for state in ACCEPTING},
    (_S.CONNECTED, _E.DROPPED): _S.RECONNECTING,
    (_S.CLOSING, _E.DROPPED): _S.CLOSING,
    (_S.CLOSED, _E.DROPPED): _S.CLOSED,
    **{(state, _E.GAVE_UP): _S.CLOSED for state in (_S.CONNECTING, _S.RECONNECTING, _S.CLOSING, _S.CLOSED)},
    **{(state, _E.STOPPED): _S.CLOSING for state in (*ACCEPTING, _S.CLOSING)},
    **{(state, _E.STOPPED): _S.CLOSED for state in (_S.IDLE, _S.CLOSED)},
    **{(state, _E.ENDED): _S.CLOSED for state in DialInState},
}
"""Missing pairs cannot happen: a socket that opens while the link is idle, closing or closed is rejected."""

KEPT_BYTES: Final = 16 << 20
"""Limit for lines queued for a disconnected agent: twice the largest message of a client."""


class UnconfirmedLines:
    """The lines that the agent has not confirmed yet. They are resent, in order, on its next socket."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self.last = 0
        """The number of the newest line."""

    def add(self, line: bytes) -> None:
        """Append a line. Raises AgentTimeout when too many bytes already wait for the agent."""
        if self._lines and self._size + len(line) > self._limit:
            raise AgentTimeout(
                "The agent is not connected, and too many bytes wait for it: interrupt or close the session."
            )
        self.last += 1
        self._lines.append((self.last, line))
        self._size += len(line)

    def confirm(self, number: int) -> None:
        """Drop every line up to this number: the agent has received them."""
        while self._lines and self._lines[0][0] <= number:
            self._size -= len(self._lines.popleft()[1])

    def unconfirmed(self) -> tuple[bytes, ...]:
        return tuple(line for _, line in self._lines)
