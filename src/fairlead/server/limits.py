"""Limits of the server: how fast a client may ask, and how many may stand before the gate. Time is handed in."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from fairlead.system.clock import Clock, Timer


@dataclass(frozen=True, slots=True)
class Limits:
    """The design's numbers, which settings can change, and a few of our own."""

    commands_per_s: float = 50.0
    waiting: int = 256
    waiting_per_address: int = 32
    waiting_s: float = 10.0
    watches_per_socket: int = 256
    in_flight: int = 64
    """Commands of one socket that run at once; beyond that it is not read until some are done."""
    unread: int = 2 << 20
    """Bytes of answers that a client has not taken; beyond that it is not read. Twice a watcher's buffer, so that
    somebody who is behind with history is still heard."""
    body_s: float = 120.0
    """For a request's body; a public route's gets `waiting_s`."""


DEFAULT_LIMITS: Final = Limits()


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


class WaitingRoom:
    """Connections that have shown no credential yet. When it is full the one that waited longest has to go: a
    client that means it shows its credential at once, so a flood of silent ones cannot keep it out."""

    def __init__(self, clock: Clock, limits: Limits = DEFAULT_LIMITS, exempt: frozenset[str] = frozenset()) -> None:
        self._clock = clock
        self._limits = limits
        # A proxy's address stands for many clients: only the whole counts for it.
        self._exempt = exempt
        self._numbers = count()
        self._all: OrderedDict[int, tuple[str, Callable[[], None], Timer]] = OrderedDict()
        self._by_address: dict[str, OrderedDict[int, None]] = {}

    def enter(self, address: str, put_out: Callable[[], None]) -> Callable[[], None]:
        """`put_out` is called when its place or its time is over; the returned function leaves the room."""
        own = self._by_address.get(address, OrderedDict())
        if address not in self._exempt and len(own) >= self._limits.waiting_per_address:
            self._expire(next(iter(own)))
        elif len(self._all) >= self._limits.waiting:
            self._expire(next(iter(self._all)))
        number = next(self._numbers)
        timer = self._clock.call_later(self._limits.waiting_s, lambda: self._expire(number))
        self._all[number] = (address, put_out, timer)
        self._by_address.setdefault(address, OrderedDict())[number] = None
        return lambda: self._leave(number)

    def __len__(self) -> int:
        return len(self._all)

    def _expire(self, number: int) -> None:
        waiting = self._all.get(number)
        self._leave(number)
        if waiting is not None:
            waiting[1]()

    def _leave(self, number: int) -> None:
        waiting = self._all.pop(number, None)
        if waiting is None:
            return
        address, _, timer = waiting
        timer.cancel()
        own = self._by_address[address]
        del own[number]
        if not own:
            del self._by_address[address]
