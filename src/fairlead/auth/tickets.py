"""Tickets: a browser opens a WebSocket with one, because it cannot set a header there. Single use, 30 s, in memory.

Limited in total and per credential: one credential cannot push out another's tickets by requesting many. A restart
drops them all; a client simply requests another.
"""

from collections import Counter, OrderedDict
from typing import Final

from fairlead.auth.api.credentials import Ticket
from fairlead.auth.tokens import SECRET_BYTES, Random, digest, encode_base32
from fairlead.system.clock import Clock

LIFETIME_S: Final = 30.0
PER_CREDENTIAL: Final = 64
IN_ALL: Final = 4096


class Tickets:
    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        # By hash: the duration of a lookup reveals nothing about a ticket. The oldest comes first, and expires first.
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._count: Counter[str] = Counter()

    def issue(self, credential: str) -> Ticket:
        now = self._clock.monotonic()
        while self._open and (oldest := next(iter(self._open))) and self._open[oldest][1] <= now:
            self._remove(oldest)
        if self._count[credential] >= PER_CREDENTIAL:
            self._remove(next(key for key, (owner, _) in self._open.items() if owner == credential))
        elif len(self._open) >= IN_ALL:
            self._remove(next(iter(self._open)))
        ticket = encode_base32(self._random(SECRET_BYTES))
        self._open[digest(ticket)] = (credential, now + LIFETIME_S)
        self._count[credential] += 1
        return Ticket(ticket=ticket, expires=self._clock.now_ms() + round(LIFETIME_S * 1000))

    def owner(self, ticket: str) -> str | None:
        """Return the credential of a ticket without spending it."""
        found = self._open.get(digest(ticket))
        return None if found is None or self._clock.monotonic() >= found[1] else found[0]

    def redeem(self, ticket: str) -> bool:
        """Spend a ticket. Returns True for the first caller."""
        live = self.owner(ticket) is not None
        self._remove(digest(ticket))
        return live

    def drop(self, credential: str) -> None:
        for key in [key for key, (owner, _) in self._open.items() if owner == credential]:
            self._remove(key)

    def _remove(self, key: str) -> None:
        credential, _ = self._open.pop(key, ("", 0.0))
        self._count[credential] -= 1
        if self._count[credential] <= 0:
            del self._count[credential]
