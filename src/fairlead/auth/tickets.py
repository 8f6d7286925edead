"""Tickets: a browser opens a WebSocket with one, because it cannot set a header there. Single use, 30 s, in memory.

Limited in total and per credential: one credential cannot push out another's tickets by requesting many. A restart
drops them all; a client simply requests another.
"""

from collections import OrderedDict
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
        # By hash, oldest first: the duration of a lookup reveals nothing about a ticket.
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def issue(self, credential: str) -> Ticket:
        now = self._clock.monotonic()
        self._open = OrderedDict((key, kept) for key, kept in self._open.items() if kept[1] > now)
        own = [key for key, (owner, _) in self._open.items() if owner == credential]
        if len(own) >= PER_CREDENTIAL:
            del self._open[own[0]]
        elif len(self._open) >= IN_ALL:
            self._open.popitem(last=False)
        ticket = encode_base32(self._random(SECRET_BYTES))
        self._open[digest(ticket)] = (credential, now + LIFETIME_S)
        return Ticket(ticket=ticket, expires=self._clock.now_ms() + round(LIFETIME_S * 1000))

    def owner(self, ticket: str) -> str | None:
        """Return the credential of a ticket without spending it."""
        found = self._open.get(digest(ticket))
        return None if found is None or self._clock.monotonic() >= found[1] else found[0]

    def redeem(self, ticket: str) -> bool:
        """Spend a ticket. Returns True for the first caller."""
        live = self.owner(ticket) is not None
        self._open.pop(digest(ticket), None)
        return live

    def drop(self, credential: str) -> None:
        for key in [key for key, (owner, _) in self._open.items() if owner == credential]:
            del self._open[key]
