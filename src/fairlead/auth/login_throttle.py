"""Limits sign-in attempts: counted by name, by address, and by name and address together.

Attempts for one name are rejected when there were too many. An address with many failures is not rejected, since many
people may share it (a proxy): its attempts wait in a queue, one per second, so that it cannot try passwords of other
users as fast as it likes. A user who has signed in from that address before does not wait.

The clock is injected. Memory is bounded: the oldest attempts are forgotten, and the queue has a maximum length.
"""

import asyncio
from collections import Counter
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from fairlead.auth.api.credentials import TooManyAttempts
from fairlead.auth.origins import address
from fairlead.auth.tokens import digest
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.system.clock import Clock

PER_PAIR: Final = 10
"""Failures of one name from one address."""
PER_NAME: Final = 30
"""Failures of one name from all addresses. Higher than `PER_PAIR`: a stranger at one address cannot lock the user
out."""
PER_ADDRESS: Final = 10
"""Failures after which the attempts of an address are queued."""
PAUSE_S: Final = 1.0
QUEUE_LENGTH: Final = 16
FORGET_S: Final = 30.0
"""Seconds after which one failure is forgotten."""
KEPT: Final = 4096


class LoginThrottle:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[float, float]] = {}
        self._known: dict[str, None] = {}
        """Keys of the pairs of name and address with a successful sign-in."""
        self._lines: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Lock] = {}

    async def begin(self, peer: str, name: str) -> None:
        """Count an attempt as failed before it is made, so that concurrent ones count too; wait if it is queued.

        Raises TooManyAttempts.
        """
        pair, of_name, here = _keys(peer, name)
        wait = max(self._level(pair) - (PER_PAIR - 1), self._level(of_name) - (PER_NAME - 1))
        if wait > 0:
            raise TooManyAttempts(max(1, round(wait * FORGET_S)))
        waits = self._level(here) >= PER_ADDRESS and pair not in self._known
        if waits and self._lines[here] >= QUEUE_LENGTH:
            raise TooManyAttempts(round(QUEUE_LENGTH * PAUSE_S))
        for key in (pair, of_name, here):
            self._put(key, self._level(key) + 1)
        if waits:
            await self._wait(here)

    def succeeded(self, peer: str, name: str) -> None:
        """Remove the failure that this attempt counted, and no other."""
        keys = _keys(peer, name)
        for key in keys:
            self._put(key, max(0.0, self._level(key) - 1))
        keep_newest(self._known, keys[0], None, KEPT)

    async def _wait(self, here: str) -> None:
        self._lines[here] += 1
        try:
            async with self._turns.setdefault(here, asyncio.Lock()):
                await self._clock.sleep(PAUSE_S)
        finally:
            self._lines[here] -= 1
            if not self._lines[here]:
                del self._lines[here], self._turns[here]

    def _level(self, key: str) -> float:
        level, at = self._failures.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock.monotonic() - at) / FORGET_S)

    def _put(self, key: str, level: float) -> None:
        keep_newest(self._failures, key, (level, self._clock.monotonic()), KEPT)


def _keys(peer: str, name: str) -> tuple[str, str, str]:
    # Hashed, so that a stored name has a fixed size, whatever was sent.
    here, who = _network(peer), digest(name)
    return f"{who} from {here}", f"as {who}", f"from {here}"


def _network(peer: str) -> str:
    """Return the address, or the /64 network of an IPv6 address: a customer has 2^64 of them, which count as one."""
    own = address(peer)
    if own and isinstance(ip_address(own), IPv6Address):
        return str(ip_network(f"{own}/64", strict=False))
    return own
