"""A timer that tests advance by hand, also for a loop that runs in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class HandTimer:
    """Pass `later` to a Keepalive. `advance` runs the calls that are due, in the loop that scheduled them, if any."""

    def __init__(self) -> None:
        self.now = 0.0
        self.entries: list[Entry] = []
        self.loop: asyncio.AbstractEventLoop | None = None

    def later(self, delay: float, call: Callable[[], None]) -> Entry:
        try:
            self.loop = asyncio.get_running_loop()
        except RuntimeError:
            self.loop = None
        entry = Entry(self, self.now + delay, call)
        self.entries.append(entry)
        return entry

    def advance(self, seconds: float) -> None:
        if self.loop is None:
            self._advance(seconds)
            return
        done = threading.Event()

        def step() -> None:
            self._advance(seconds)
            done.set()

        self.loop.call_soon_threadsafe(step)
        assert done.wait(10)

    def _advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [entry for entry in self.entries if entry.at <= end + 1e-6]:
            entry = min(due, key=lambda one: one.at)
            self.entries.remove(entry)
            self.now = entry.at
            entry.call()
        self.now = end


class Entry:
    def __init__(self, timer: HandTimer, at: float, call: Callable[[], None]) -> None:
        self.timer = timer
        self.at = at
        self.call = call

    def cancel(self) -> None:
        if self in self.timer.entries:
            self.timer.entries.remove(self)
