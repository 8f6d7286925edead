"""Limits of the server: message rates, sizes, and connections without a credential. The clock is injected."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final

from fairlead.system.clock import Clock, Timer


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The design's limits, which settings can change, and a few internal ones."""

    message_bytes: int = 8 << 20
    """Bytes of one inbound message, and of a request's body (both carry the same prompts), unless a route sets another
    limit."""
    commands_per_s: float = 50.0
    waiting: int = 256
    waiting_per_address: int = 32
    waiting_s: float = 10.0
    watches_per_socket: int = 256
    open_per_credential: int = 512
    """Sockets, streams and requests in progress."""
    bytes_per_credential: int = 128 << 20
    """Bytes that wait to be read, over all its connections."""
    in_flight: int = 64
    """Commands of one socket that run at once; beyond that the socket is not read until some are done."""
    unread: int = 2 << 20
    """Bytes of answers that a client has not read; beyond that the socket is not read. Twice a subscription's buffer,
    so that commands of a client that is still catching up on history are read."""
    body_s: float = 120.0
    """For a request's body; on a public route the limit is `waiting_s`."""
    descriptors: int = 1 << 20
    """Files and sockets that the process may have open."""
    form_s: float = 600.0
    """For a form with files: enough for the largest one at 1.4 Mbit/s."""


DEFAULT_LIMITS: Final = ServerLimits()

_PATIENCE_S: Final = 0.5
"""A new connection is not closed for being over the limit before this time; it is many times what the loop needs to
read bytes that have arrived."""
_STORM: Final = 4
"""For a moment there may be this many times the limit, but at most half of all descriptors; beyond that the oldest
connection is closed at once."""
_BACKLOG: Final = 512


def unauthenticated_hard_limit(limits: ServerLimits) -> int:
    """Return the hard limit of connections without a credential."""
    return max(1, min(limits.waiting * _STORM, limits.descriptors // 2 - 1))


def backlog(limits: ServerLimits) -> int:
    """Return the number of connections accepted before the first of them is read. Together with the unauthenticated
    connections, and those of them that are being closed, they must be fewer than there are descriptors."""
    return max(1, min(_BACKLOG, limits.descriptors // 8))


def open_per_credential(limits: ServerLimits) -> int:
    """Return the limit per credential: at most a quarter of the descriptors."""
    return max(1, min(limits.open_per_credential, limits.descriptors // 4))


class TokenBucket:
    """A rate limit of `rate` per second, with a burst of the same size."""

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
    """Connections that have shown no credential yet, whatever they are doing: sending a head, a body, or reading a
    public response.

    When there are too many, those that were idle for longest are closed: a genuine client shows its credential at
    once, so a flood of silent connections cannot keep it out. A connection that has just been opened is left alone,
    because its first bytes may have arrived and not been read: a storm of good clients is not an attack.
    """

    def __init__(
        self, clock: Clock, limits: ServerLimits = DEFAULT_LIMITS, exempt: frozenset[str] = frozenset()
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._storm = unauthenticated_hard_limit(limits)
        # A proxy's address stands for many clients: only the total limit applies to it.
        self._exempt = exempt
        self._numbers = count()
        self._all: OrderedDict[int, tuple[str, float, Callable[[], None]]] = OrderedDict()
        self._by_address: dict[str, OrderedDict[int, None]] = {}
        self._timer: Timer | None = None

    def add(self, address: str, put_out: Callable[[], None]) -> Callable[[], None]:
        """Add a connection. `put_out` is called when it must close; the returned function removes it."""
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
        """Close up to `most` of the oldest connections, if they were added before the time `before`."""
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
