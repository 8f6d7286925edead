"""What a server does for its socket protocols: it keeps their state for a client's next socket, and lets time pass."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.sockets import KeepState, KeptState, Pause, RecallState
from fairlead.system.clock import Clock, Timer

KEPT_S: Final = 300.0
"""Seconds for which a state is kept after its socket has closed."""
KEPT_STATES: Final = 128
KEPT_PER_CREDENTIAL: Final = 32
"""States that are kept at a time, those of open sockets included."""

_Key = tuple[str, str]
"""A credential, and the protocol's own key."""


@dataclass(eq=False, repr=False, slots=True)
class KeptEntry:
    """One kept state. `timer`: its socket has closed."""

    key: _Key
    state: KeptState
    timer: Timer | None = None


class SocketServices:
    """The kept states of one server, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[_Key, KeptEntry] = {}

    def handlers(self) -> ServiceHandlers:
        return {RecallState: self._recall, Pause: self._pause}

    def keep(self, who: Identity, effect: KeepState) -> KeptEntry:
        entry = KeptEntry((who.credential, effect.key), effect.state)
        if (before := self._kept.get(entry.key)) is not None:
            self.drop(before)
        self._kept[entry.key] = entry
        own = [kept for kept in self._kept.values() if kept.key[0] == who.credential]
        if len(own) > KEPT_PER_CREDENTIAL:
            self.drop(_oldest(own))
        elif len(self._kept) > KEPT_STATES:
            self.drop(_oldest([*self._kept.values()]))
        return entry

    def leave(self, entry: KeptEntry) -> None:
        """The socket of this state has closed: forget the state after a while."""
        if self._kept.get(entry.key) is entry:
            entry.timer = self._clock.call_later(KEPT_S, partial(self.drop, entry))

    def drop(self, entry: KeptEntry) -> None:
        if self._kept.get(entry.key) is entry:
            del self._kept[entry.key]
            if entry.timer is not None:
                entry.timer.cancel()
            entry.state.forget()

    async def _recall(self, who: Identity, call: RecallState) -> KeptState | None:
        entry = self._kept.get((who.credential, call.key))
        return None if entry is None else entry.state

    async def _pause(self, who: Identity, call: Pause) -> None:
        await self._clock.sleep(call.seconds)


def _oldest(entries: list[KeptEntry]) -> KeptEntry:
    """The one to drop: those whose socket has closed come first, and never the newest."""
    return min(entries[:-1], key=lambda entry: entry.timer is None)
