"""One timer pings all connections of a process. Knows slots and time, not sockets.

The interval is a wheel of slots and each tick serves one, so that thousands of idle connections cost a little
every second instead of a stall every half minute.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from fairlead.system.clock import Timer

DEFAULT_INTERVAL: Final = 30.0
"""Seconds; the seeds ping every 30 s, and common proxies cut a silent connection after 60 s."""

SLOTS: Final = 30
_SLOT_SIZE: Final = 256
"""Number of connections added within one tick that share a slot before the next slot is used (a reconnect storm)."""


Later = Callable[[float, Callable[[], None]], Timer]


class KeepaliveMember(Protocol):
    def keep_alive(self) -> None:
        """Called once per interval: ping the peer, or close if nothing was received since the last call."""


def _loop_later(delay: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(delay, call)


class Keepalive:
    """Calls its members once per interval, for the first time within one interval of joining. The timer runs only while
    there are members."""

    __slots__ = ("_later", "_slots", "_tick", "_timer", "_turn")

    def __init__(self, interval: float = DEFAULT_INTERVAL, later: Later = _loop_later) -> None:
        self._tick = interval / SLOTS
        self._later = later
        self._slots: list[set[KeepaliveMember]] = [set() for _ in range(SLOTS)]
        self._turn = 0
        self._timer: Timer | None = None

    def add(self, member: KeepaliveMember) -> None:
        # The slot served last is due again the latest: after almost a whole interval.
        for back in range(1, SLOTS + 1):
            slot = self._slots[(self._turn - back) % SLOTS]
            if len(slot) < _SLOT_SIZE:
                break
        else:
            slot = min(self._slots, key=len)
        slot.add(member)
        if self._timer is None:
            self._timer = self._later(self._tick, self._on_tick)

    def discard(self, member: KeepaliveMember) -> None:
        for slot in self._slots:
            slot.discard(member)
        if self._timer is not None and not any(self._slots):
            self._timer.cancel()
            self._timer = None

    def _on_tick(self) -> None:
        self._timer = self._later(self._tick, self._on_tick)
        slot = self._slots[self._turn]
        self._turn = (self._turn + 1) % SLOTS
        for member in tuple(slot):
            member.keep_alive()
