"""What waits for one watcher of a terminal. When it becomes too much it is dropped, and the watcher is drawn the whole
screen when it comes for more."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from fairlead.terminals.api import FoundUrl

MOST_URLS: Final = 64
"""That wait for one watcher, or are told to one who comes late."""
WAITING_BYTES: Final = 256 * 1024
"""What may wait for one watcher: a redraw with all of its history is no larger."""
LAGGING_BYTES: Final = WAITING_BYTES // 2
"""What waits for one that lags: before it is dropped, there is room for those who wait for it."""


class TerminalSubscriber:
    """Bytes on their way to one watcher. `behind`: what it had is void, it needs a redraw. `given_up`: it has taken
    nothing for so long that nobody waits for it until it does."""

    __slots__ = ("behind", "bytes", "given_up", "pieces", "urls", "wake")

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self.bytes = 0
        self.behind = True
        self.given_up = False
        self.urls: list[FoundUrl] = []
        self.wake = asyncio.Event()

    @property
    def lags(self) -> bool:
        return not self.given_up and (self.behind or self.bytes > LAGGING_BYTES)

    def give(self, data: bytes) -> None:
        if not self.behind:
            self.pieces.append(data)
            self.bytes += len(data)
            if self.bytes > WAITING_BYTES:
                self.void()

    def void(self) -> None:
        self.behind = True
        self.pieces.clear()
        self.bytes = 0

    def take(self) -> bytes:
        data = b"".join(self.pieces)
        self.pieces.clear()
        self.bytes = 0
        return data

    def told(self, urls: Sequence[FoundUrl]) -> None:
        """Even of output that is dropped; of too many the first."""
        self.urls += urls[: MOST_URLS - len(self.urls)]

    def take_urls(self) -> tuple[FoundUrl, ...]:
        urls = tuple(self.urls)
        self.urls.clear()
        return urls

    def came(self) -> None:
        """It has taken what there was, or is being drawn everything."""
        self.behind = False
        self.given_up = False
