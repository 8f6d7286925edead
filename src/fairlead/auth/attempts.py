"""How often somebody may guess: attempts to sign in, counted by the address they come from and by the name they try.

Time is handed in. Bounded: the addresses and names that were tried longest ago are forgotten.
"""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from fairlead.auth.hosts import address
from fairlead.auth.tokens import digest
from fairlead.model.accounts import TooManyAttempts
from fairlead.system.clock import Clock

PER_ADDRESS: Final = 10
PER_NAME: Final = 30
"""More than one address has: a stranger at one address cannot keep the user out by failing for them."""
FORGET_S: Final = 30.0
"""One failure is forgotten every so many seconds."""
KEPT: Final = 4096


class Attempts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def begin(self, peer: str, name: str) -> None:
        """Counted as failed before it is tried: many at once are as many. TooManyAttempts."""
        keys = _keys(peer, name)
        wait = max(self._level(key) - (most - 1) for key, most in keys)
        if wait > 0:
            raise TooManyAttempts(max(1, round(wait * FORGET_S)))
        for key, _ in keys:
            self._put(key, self._level(key) + 1)

    def succeeded(self, peer: str, name: str) -> None:
        """Takes back what this one counted, and no other."""
        for key, _ in _keys(peer, name):
            self._put(key, max(0.0, self._level(key) - 1))

    def __len__(self) -> int:
        return len(self._failures)

    def _level(self, key: str) -> float:
        level, at = self._failures.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock.monotonic() - at) / FORGET_S)

    def _put(self, key: str, level: float) -> None:
        self._failures[key] = (level, self._clock.monotonic())
        self._failures.move_to_end(key)
        while len(self._failures) > KEPT:
            self._failures.popitem(last=False)


def _keys(peer: str, name: str) -> tuple[tuple[str, int], ...]:
    # By hash: what is kept of a name has one size, whatever was sent.
    return (f"from {_network(peer)}", PER_ADDRESS), (f"as {digest(name)}", PER_NAME)


def _network(peer: str) -> str:
    """An IPv6 customer has 2^64 addresses: they count as one."""
    own = address(peer)
    if own and isinstance(ip_address(own), IPv6Address):
        return str(ip_network(f"{own}/64", strict=False))
    return own
