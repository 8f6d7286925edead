"""Limits per credential: how many connections it has open at once, and how many bytes may wait for its clients.

Rule: whatever clients do, the memory held for one credential is bounded, over all its connections and protocols. When
too many bytes wait, the connection with the most is closed: slow readers do not harm the others. Bytes below the mark
where a connection counts as congested are not counted: a connection with a normal reader has some at times.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead.model.auth import Identity
from fairlead.model.errors import TooMany

log = logging.getLogger("fairlead.server")

_ROOM: Final = 3 / 4
"""Above this fraction of the limit connections are asked to close; at the limit they are aborted, with their bytes."""


class ShareHolder(Protocol):
    """A connection with bytes that wait to be read."""

    def backlog(self) -> int: ...
    def too_slow(self) -> None:
        """Close the connection so that the peer learns the reason if it starts reading again."""

    def cut(self) -> None:
        """Abort the connection at once."""


class Carrier(Protocol):
    """The connection that sends a response."""

    @property
    def congested(self) -> bool: ...
    def cut(self) -> None: ...


@dataclass(slots=True)
class _Held:
    size: int
    closing: bool = False


@dataclass(eq=False, repr=False, slots=True)
class CredentialShare:
    """The share of one credential. Not asynchronous: it is called at every send to a congested connection."""

    _most: int
    open: int = 0
    _held: dict[ShareHolder, _Held] = field(default_factory=dict)
    held: int = 0

    def note(self, holder: ShareHolder, size: int) -> None:
        """Record that `size` bytes wait for `holder` now. This may close `holder` or other connections."""
        held = self._held.setdefault(holder, _Held(0))
        self.held += size - held.size
        held.size = size
        if self.held > self._most * _ROOM:
            self._make_room()

    def forget(self, holder: ShareHolder) -> None:
        """Stop counting `holder`: its peer has read the waiting bytes, or is gone."""
        held = self._held.pop(holder, None)
        if held is not None:
            self.held -= held.size

    def _make_room(self) -> None:
        # Some of the noted bytes may have been read since.
        for holder, held in self._held.items():
            held.size = holder.backlog()
        self.held = sum(held.size for held in self._held.values())
        by_size = sorted(self._held.items(), key=lambda item: -item[1].size)
        staying = sum(held.size for held in self._held.values() if not held.closing)
        for holder, held in by_size:
            if staying > self._most * _ROOM and not held.closing:
                held.closing = True
                staying -= held.size
                log.warning("a connection is too slow", extra={"bytes": held.size, "all": self.held})
                holder.too_slow()
        for holder, held in by_size:
            if self.held > self._most and held.closing:
                self.forget(holder)
                holder.cut()


class CredentialShares:
    """The shares of all credentials. `most_open` and `most_bytes` are the limits of each."""

    def __init__(self, most_open: int, most_bytes: int) -> None:
        self._most_open = most_open
        self._most_bytes = most_bytes
        self._shares: dict[str, CredentialShare] = {}

    def take(self, who: Identity) -> tuple[CredentialShare, Callable[[], None]]:
        """Count one more open connection; returns the share and a function that gives it back. Raises TooMany.

        Connections without a credential are not limited here: `UnauthenticatedConnections` counts them.
        """
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

    @property
    def open(self) -> int:
        """The number of open connections of all credentials."""
        return sum(share.open for name, share in self._shares.items() if name)


class HeldBody:
    """The unsent rest of a large response, counted by a share while the connection is congested. The connection of a
    client that is too slow is aborted."""

    def __init__(self, share: CredentialShare, carrier: Carrier | None) -> None:
        self._share = share
        self._carrier = carrier
        self._left = 0

    def __enter__(self) -> "HeldBody":
        return self

    def __exit__(self, *_: object) -> None:
        self._share.forget(self)

    def set_remaining(self, size: int) -> None:
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

    def backlog(self) -> int:
        return self._left
