"""The output queue of one watcher of a terminal. When it grows too large it is dropped, and the watcher gets a redraw
of the whole screen when it next reads."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from fairlead.terminals.api import FoundUrl

MOST_URLS: Final = 64
"""URLs that may wait for one watcher, or are sent to a watcher that joins late."""
WAITING_BYTES: Final = 256 * 1024
"""Limit of one watcher's queue: a redraw with all of its history is no larger."""
LAGGING_BYTES: Final = WAITING_BYTES // 2
"""A watcher lags above this: a shell starts to wait for it while its queue still has room."""


class TerminalSubscriber:
    """Output on its way to one watcher. `behind`: its queue was dropped, so it needs a redraw. `given_up`: it has read
    nothing for so long that the shell no longer waits for it, until it reads again."""

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

    def add_urls(self, urls: Sequence[FoundUrl]) -> None:
        """Queue found URLs, even from output that is dropped; if there are too many, the first ones."""
        self.urls += urls[: MOST_URLS - len(self.urls)]

    def take_urls(self) -> tuple[FoundUrl, ...]:
        urls = tuple(self.urls)
        self.urls.clear()
        return urls

    def caught_up(self) -> None:
        """Note that the watcher has read its queue, or gets a redraw."""
        self.behind = False
        self.given_up = False
