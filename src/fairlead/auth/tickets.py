"""Tickets: a browser opens a WebSocket with one, because it cannot set a header there. Single use, 30 s.

A ticket is signed and not stored: `<id>.<expires>.<credential>.<mac>`. So every gateway that has the key checks one
without waiting, and issuing tickets needs no memory. The signature depends on the secret of the credential (`binding`):
revoking it, or changing a password, invalidates its tickets.

A gateway remembers the tickets that were redeemed here; nodes of a cluster also agree on it in the store (`spend`).
Without a key of a cluster the key belongs to this process, and a restart invalidates the tickets; a client simply
requests another.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from fairlead.auth.api.credentials import Ticket
from fairlead.auth.tokens import Random, encode_base32
from fairlead.model.store import Documents
from fairlead.system.clock import Clock

LIFETIME_MS: Final = 30_000
SKEW_MS: Final = 5_000
"""How far the clocks of two gateways may differ."""
SPENT: Final = "spent"
SPENT_S: Final = 60.0
"""Document space of redeemed tickets, and how long they are remembered: longer than any of them is valid."""
_ID_BYTES: Final = 16
_FORM: Final = re.compile(r"([a-z2-7]{26})\.([0-9]{1,15})\.([a-z0-9:]{1,40})\.([0-9a-f]{64})")


class Tickets:
    """`key` signs; `binding` returns what only the holder of a valid credential has the hash of, None for others.
    `documents`: other nodes accept the tickets too."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        key: Callable[[], bytes],
        binding: Callable[[str], str | None],
        documents: Documents | None = None,
    ) -> None:
        self._clock = clock
        self._random = random
        self._key = key
        self._binding = binding
        self._documents = documents
        self._spent: dict[str, int] = {}
        """Ids of redeemed tickets, the oldest first, with the time until which they are remembered."""

    def issue(self, credential: str) -> Ticket:
        expires = self._clock.now_ms() + LIFETIME_MS
        front = f"{encode_base32(self._random(_ID_BYTES))}.{expires}.{credential}"
        return Ticket(ticket=f"{front}.{self._mac(front, self._binding(credential) or '')}", expires=expires)

    def owner(self, ticket: str) -> str | None:
        """Return the credential of a ticket without spending it."""
        found = _FORM.fullmatch(ticket)
        if found is None or found[1] in self._spent:
            return None
        expires, credential, mac = int(found[2]), found[3], found[4]
        binding = self._binding(credential)
        if binding is None or not hmac.compare_digest(mac, self._mac(ticket.rpartition(".")[0], binding)):
            return None
        now = self._clock.now_ms()
        return credential if now < expires <= now + LIFETIME_MS + SKEW_MS else None

    def redeem(self, ticket: str) -> bool:
        """Spend a ticket in this process. Returns True for the first caller."""
        live = self.owner(ticket) is not None
        if live:
            now = self._clock.now_ms()
            while self._spent and self._spent[oldest := next(iter(self._spent))] <= now:
                del self._spent[oldest]
            self._spent[ticket.partition(".")[0]] = now + LIFETIME_MS + SKEW_MS
        return live

    async def spend(self, ticket: str) -> bool:
        """Spend a redeemed ticket on all nodes. Returns True for exactly one of them."""
        if self._documents is None:
            return True
        return await self._documents.add(SPENT, ticket.partition(".")[0], True, ttl_s=SPENT_S)

    def _mac(self, front: str, binding: str) -> str:
        # Neither part can contain a line break.
        return hmac.new(self._key(), f"{front}\n{binding}".encode(), hashlib.sha256).hexdigest()
