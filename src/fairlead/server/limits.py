"""Limits of the server: how fast a client may ask, and how many may stand before the gate. Time is handed in."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final

from fairlead.system.clock import Clock, Timer


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The design's numbers, which settings can change, and a few of our own."""

    message_bytes: int = 8 << 20
    """Of one inbound message, and of a request's body (both carry the same prompts), where a route says no less."""
    commands_per_s: float = 50.0
    waiting: int = 256
    waiting_per_address: int = 32
    waiting_s: float = 10.0
    watches_per_socket: int = 256
    open_per_credential: int = 512
    """Sockets, streams and requests under way."""
    bytes_per_credential: int = 128 << 20
    """That wait to be read, over all of them."""
    in_flight: int = 64
    """Commands of one socket that run at once; beyond that it is not read until some are done."""
    unread: int = 2 << 20
    """Bytes of answers that a client has not taken; beyond that it is not read. Twice a watcher's buffer, so that
    somebody who is behind with history is still heard."""
    body_s: float = 120.0
    """For a request's body; a public route's gets `waiting_s`."""
    descriptors: int = 1 << 20
    """Files and sockets that the process may have open."""
    form_s: float = 600.0
    """For a form with files: the largest one, over a line of 1.4 Mbit/s."""


DEFAULT_LIMITS: Final = ServerLimits()

_PATIENCE_S: Final = 0.5
"""So long nobody is put out for being one too many; many times what the loop needs to read what has come."""
_STORM: Final = 4
"""So many times the limit may stand there for a moment, but no more than half of all descriptors; beyond that nobody is
patient."""
_BACKLOG: Final = 512


def storm(limits: ServerLimits) -> int:
    """How many may stand before the gate at the very most."""
    return max(1, min(limits.waiting * _STORM, limits.descriptors // 2 - 1))


def backlog(limits: ServerLimits) -> int:
    """Connections that are taken before the first of them is read: with those who wait, and those of them who are being
    put out, they have to be fewer than there are descriptors."""
    return max(1, min(_BACKLOG, limits.descriptors // 8))


def open_per_credential(limits: ServerLimits) -> int:
    """Of the descriptors a quarter at most."""
    return max(1, min(limits.open_per_credential, limits.descriptors // 4))


class TokenBucket:
    """So many a second, as many at once after a rest."""

    __slots__ = ("_at", "_clock", "_level", "_rate")

    def __init__(self, clock: Clock, rate: float) -> None:
        self._clock = clock
        self._rate = rate
        self._level = rate
        self._at = clock.monotonic()

    def take(self) -> bool:
        now = self._clock.monotonic()
        self._level = min(self._rate, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True


class UnauthenticatedConnections:
    """Connections that have shown no credential yet, whatever they are doing: sending a head, a body, or reading an
    answer that is for everybody. When there are too many, those that did nothing for longest have to go:
    a client that means it shows its credential at once, so a flood of silent ones cannot keep it out. Who has just
    come is left alone, for its first bytes may be there and unread: a storm of good clients is no flood."""

    def __init__(
        self, clock: Clock, limits: ServerLimits = DEFAULT_LIMITS, exempt: frozenset[str] = frozenset()
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._storm = storm(limits)
        # A proxy's address stands for many clients: only the whole counts for it.
        self._exempt = exempt
        self._numbers = count()
        self._all: OrderedDict[int, tuple[str, float, Callable[[], None]]] = OrderedDict()
        self._by_address: dict[str, OrderedDict[int, None]] = {}
        self._timer: Timer | None = None

    def enter(self, address: str, put_out: Callable[[], None]) -> Callable[[], None]:
        """`put_out` is called when its place or its time is over; the returned function leaves the room."""
        if len(self._all) >= self._storm:
            self._expire(next(iter(self._all)))
        number = next(self._numbers)
        self._all[number] = (address, self._clock.monotonic(), put_out)
        self._by_address.setdefault(address, OrderedDict())[number] = None
        if self._timer is None:
            self._timer = self._clock.call_later(_PATIENCE_S, self._sweep)
        return lambda: self._leave(number)

    def __len__(self) -> int:
        return len(self._all)

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        self._trim(self._all, len(self._all), now - self._limits.waiting_s)
        for address, own in tuple(self._by_address.items()):
            if address not in self._exempt:
                self._trim(own, len(own) - self._limits.waiting_per_address, now - _PATIENCE_S)
        self._trim(self._all, len(self._all) - self._limits.waiting, now - _PATIENCE_S)
        if self._all:
            self._timer = self._clock.call_later(_PATIENCE_S, self._sweep)

    def _trim(self, queue: "OrderedDict[int, Any]", most: int, before: float) -> None:
        """Put out up to `most` of those who came first, as long as they came before that time."""
        for number in tuple(islice(queue, max(most, 0))):
            if self._all[number][1] > before:
                return
            self._expire(number)

    def _expire(self, number: int) -> None:
        waiting = self._all[number]
        self._leave(number)
        waiting[2]()

    def _leave(self, number: int) -> None:
        waiting = self._all.pop(number, None)
        if waiting is None:
            return
        own = self._by_address[waiting[0]]
        del own[number]
        if not own:
            del self._by_address[waiting[0]]
        if not self._all and self._timer is not None:
            self._timer.cancel()
            self._timer = None
