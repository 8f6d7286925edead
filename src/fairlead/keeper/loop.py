"""The keeper's event loop: callbacks for descriptors, timers and signals, on epoll (poll on other systems).

asyncio does this too, but at a higher price: its handles, contexts and transports take as much time for one line of an
agent as everything else that the keeper does for it, and more than 3 MB of memory.
"""

import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from fairlead.system.platform import PORTABLE

Callback = Callable[[], object]

# The numbers of epoll are those of poll.
_READ: Final = select.POLLIN
_WRITE: Final = select.POLLOUT
_ENDED: Final = select.POLLHUP | select.POLLERR
"""The other end is closed; reported to whoever waits, whatever it waits for."""


class _Poll:
    """poll(2) with the methods of epoll."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register, self.modify, self.unregister = self._poll.register, self._poll.modify, self._poll.unregister

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        return self._poll.poll(None if seconds is None else seconds * 1000)

    def close(self) -> None:
        pass


if sys.platform == "linux" and not PORTABLE:
    _poller: Callable[[], "select.epoll | _Poll"] = select.epoll
else:
    _poller = _Poll


class LoopTimer:
    """A callback at a later time. Cancelling it twice, or too late, does nothing."""

    __slots__ = ("_timers", "at", "callback")

    def __init__(self, at: float, callback: Callback, timers: "set[LoopTimer]") -> None:
        self.at = at
        self.callback = callback
        self._timers = timers
        timers.add(self)

    def cancel(self) -> None:
        self._timers.discard(self)


class KeeperLoop:
    """`on_error` is called in the handler of an exception that a callback has raised; the loop goes on."""

    def __init__(self, on_error: Callback) -> None:
        self._on_error = on_error
        self._poller = _poller()
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._timers: set[LoopTimer] = set()
        """Few: while a gateway is connected there is one for each process that is being stopped."""
        self._signals: dict[int, Callback] = {}
        self._wakeup: tuple[socket.socket, socket.socket] | None = None
        self._over = False

    def add_reader(self, fd: int, callback: Callback) -> None:
        """Call `callback` whenever there is something to read from this descriptor, or its other end is closed."""
        before = self._wanted(fd)
        self._readers[fd] = callback
        self._watch(fd, before)

    def add_writer(self, fd: int, callback: Callback) -> None:
        before = self._wanted(fd)
        self._writers[fd] = callback
        self._watch(fd, before)

    def remove_reader(self, fd: int) -> None:
        before = self._wanted(fd)
        self._readers.pop(fd, None)
        self._watch(fd, before)

    def remove_writer(self, fd: int) -> None:
        before = self._wanted(fd)
        self._writers.pop(fd, None)
        self._watch(fd, before)

    def _wanted(self, fd: int) -> int:
        return (_READ if fd in self._readers else 0) | (_WRITE if fd in self._writers else 0)

    def _watch(self, fd: int, before: int) -> None:
        wanted = self._wanted(fd)
        if wanted == before:
            return
        if not wanted:
            self._poller.unregister(fd)
        elif before:
            self._poller.modify(fd, wanted)
        else:
            self._poller.register(fd, wanted)

    def call_later(self, seconds: float, callback: Callback) -> LoopTimer:
        return LoopTimer(time.monotonic() + seconds, callback, self._timers)

    def add_signal_handler(self, number: signal.Signals, callback: Callback) -> None:
        """Call `callback` after one or more of these signals."""
        if not self._signals:
            woken, wakes = self._wakeup = socket.socketpair()
            woken.setblocking(False)
            wakes.setblocking(False)
            # If it takes no more bytes, a wakeup is under way already.
            signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
            self.add_reader(woken.fileno(), lambda: self._woken(woken))
        self._signals[number] = callback
        signal.signal(number, lambda *_: None)

    def _woken(self, woken: socket.socket) -> None:
        for number in set(woken.recv(4096)) & self._signals.keys():
            self._signals[number]()

    def stop(self) -> None:
        """Return from `run` when the present callback has ended."""
        self._over = True

    def close(self) -> None:
        self._poller.close()
        if self._wakeup is not None:
            signal.set_wakeup_fd(-1)
            for each in self._wakeup:
                each.close()

    def run(self) -> None:
        poll, readers, writers = self._poller.poll, self._readers, self._writers
        while not self._over:
            for fd, events in poll(self._wait() if self._timers else None):
                try:
                    # A callback before this one may have removed it.
                    if events & ~_WRITE and fd in readers:
                        readers[fd]()
                    if events & (_WRITE | _ENDED) and fd in writers:
                        writers[fd]()
                except Exception:
                    self._on_error()
            if self._timers:
                self._ring()

    def _wait(self) -> float:
        """Return the seconds until the next timer."""
        return max(0.0, min(timer.at for timer in self._timers) - time.monotonic())

    def _ring(self) -> None:
        now = time.monotonic()
        for timer in sorted((timer for timer in self._timers if timer.at <= now), key=lambda timer: timer.at):
            if timer in self._timers:  # a callback before this one may have cancelled it
                timer.cancel()
                try:
                    timer.callback()
                except Exception:
                    self._on_error()
