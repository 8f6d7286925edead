"""What one credential may have of the server: how much it has open at once, and how much may wait for it to be read.

Rule: whatever clients do, what is kept for one credential is bounded, over all its connections and every protocol. When
too much waits, the connection that holds most of it is closed: those that read are not harmed by those that do not.
Bytes below the mark where a connection counts as congested are not counted: one that is read has some at times.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.model.auth import Identity
from fairlead.model.errors import TooMany

log = logging.getLogger("fairlead.server")

_ROOM: Final = 3 / 4
"""From this part of the limit on, holders are told to go; at the limit itself they are cut off, with their bytes."""


class ShareHolder(Protocol):
    """A connection for which bytes wait."""

    def waiting_bytes(self) -> int: ...
    def too_slow(self) -> None:
        """Close it, in a way that the peer can see if it reads after all."""
        ...

    def cut(self) -> None:
        """At once."""
        ...


class Carrier(Protocol):
    """The connection that an answer goes out on."""

    @property
    def congested(self) -> bool: ...
    def cut(self) -> None: ...


@dataclass(slots=True)
class _Held:
    size: int
    told: bool = False


class CredentialShare:
    """Of one credential. Not asynchronous: it is asked at every send to a connection that is behind."""

    __slots__ = ("_held", "_most", "_total", "open")

    def __init__(self, most: int) -> None:
        self.open = 0
        self._most = most
        self._held: dict[ShareHolder, _Held] = {}
        self._total = 0

    @property
    def held(self) -> int:
        return self._total

    def note(self, holder: ShareHolder, size: int) -> None:
        """So much waits for `holder` now; others, or itself, may have to go for it."""
        held = self._held.setdefault(holder, _Held(0))
        self._total += size - held.size
        held.size = size
        if self._total > self._most * _ROOM:
            self._make_room()

    def forget(self, holder: ShareHolder) -> None:
        """It has read what waited, or is gone."""
        held = self._held.pop(holder, None)
        if held is not None:
            self._total -= held.size

    def _make_room(self) -> None:
        # What was noted may have been read since.
        for holder, held in self._held.items():
            held.size = holder.waiting_bytes()
        self._total = sum(held.size for held in self._held.values())
        by_size = sorted(self._held.items(), key=lambda item: -item[1].size)
        staying = sum(held.size for held in self._held.values() if not held.told)
        for holder, held in by_size:
            if staying > self._most * _ROOM and not held.told:
                held.told = True
                staying -= held.size
                log.warning("a connection is too slow", extra={"bytes": held.size, "all": self._total})
                holder.too_slow()
        for holder, held in by_size:
            if self._total > self._most and held.told:
                self.forget(holder)
                holder.cut()


class CredentialShares:
    """`most_open` and `most_bytes` of one credential."""

    def __init__(self, most_open: int, most_bytes: int) -> None:
        self._most_open = most_open
        self._most_bytes = most_bytes
        self._shares: dict[str, CredentialShare] = {}

    def take(self, who: Identity) -> tuple[CredentialShare, Callable[[], None]]:
        """One more connection in use, and how to give it back. TooMany. Nobody's have no end here: they are counted
        where they wait."""
        share = self._shares.get(who.credential)
        if share is None:
            share = self._shares[who.credential] = CredentialShare(self._most_bytes)
        if who.credential and share.open >= self._most_open:
            raise TooMany(f"One credential has at most {self._most_open} sockets and requests open at once.")
        share.open += 1

        def give_back() -> None:
            share.open -= 1
            if not share.open and self._shares.get(who.credential) is share:
                del self._shares[who.credential]

        return share, give_back

    def __len__(self) -> int:
        return len(self._shares)


class HeldBody:
    """The rest of a large answer, as a share counts it while the client is behind with it. A client that is too slow
    gets no more of it."""

    def __init__(self, share: CredentialShare, carrier: Carrier | None) -> None:
        self._share = share
        self._carrier = carrier
        self._left = 0

    def __enter__(self) -> "HeldBody":
        return self

    def __exit__(self, *_: object) -> None:
        self._share.forget(self)

    def left(self, size: int) -> None:
        self._left = size
        if self._carrier is not None and self._carrier.congested:
            self._share.note(self, size)
        else:
            self._share.forget(self)

    def too_slow(self) -> None:
        self.cut()

    def cut(self) -> None:
        if self._carrier is not None:
            self._carrier.cut()

    def waiting_bytes(self) -> int:
        return self._left
