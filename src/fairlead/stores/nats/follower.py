"""Follows one stream: every message in order, once. Live messages come by republication, holes and the past by Direct
Get from any replica; there is no consumer on the servers.

Position = the sequence of the last applied message. A message that is `position + 1` is applied; after a hole (a new
leader, a reconnection), or if an acknowledgement named a sequence that does not come, the missing messages are read.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fairlead.model.errors import FairleadError, Unavailable
from fairlead.stores.nats.connection import TRANSIENT, JetStream, StoredMessage, stored_message

# Messages of one transaction, and of one read.
_GROUP: Final = 256
_READ: Final = 1024
# Seconds that a live message may be late before it is read; and after which the stream's end is looked up.
_LATE_S: Final = 0.03
_IDLE_S: Final = 5.0
_RETRY_S: Final = 0.1
# Limits of the messages that wait for the database; above them live messages are left out, and read later.
_WAITING: Final = 10_000
_WAITING_BYTES: Final = 64 << 20

Apply = Callable[[Sequence[StoredMessage]], Awaitable[None]]

_log = logging.getLogger(__name__)


class Follower:
    """`apply` stores a group of messages; if it fails, the same messages are given to it again."""

    def __init__(self, js: JetStream, stream: str, live: str, apply: Apply, position: int) -> None:
        self._js = js
        self._stream = stream
        self._live = live
        self._apply = apply
        self.position = position
        self.patience_s = 30.0
        """How long `reached` waits, unless its caller says otherwise."""
        self.repairs = 0
        """How often messages had to be read that did not come live."""
        self._target = position
        self._waiting: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._wake = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._subscription = await self._js.client.subscribe(self._live, cb=self._received)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._subscription is not None:
            with contextlib.suppress(*TRANSIENT):
                await self._subscription.unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(Unavailable("The store is closed."))

    async def reached(self, seq: int, timeout_s: float | None = None) -> None:
        """Wait until the message `seq` is applied. Unavailable if that takes too long."""
        if self.position >= seq:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((seq, waiter))
        self._target = max(self._target, seq)
        self._wake.set()
        try:
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the result.
            async with asyncio.timeout(self.patience_s if timeout_s is None else timeout_s):
                await waiter
        except TimeoutError:
            raise Unavailable(f"This node does not reach message {seq} of {self._stream}: it is behind.") from None

    async def _received(self, message: Msg) -> None:
        found = stored_message(message)
        if found.seq <= self.position:
            return
        self._target = max(self._target, found.seq)
        if len(self._waiting) < _WAITING and self._bytes < _WAITING_BYTES:
            self._waiting[found.seq] = found
            self._bytes += len(found.body)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except TRANSIENT as error:
                _log.debug("%s: %s", self._stream, error)
                await asyncio.sleep(_RETRY_S)
            except FairleadError as error:
                # The local database (a full disk): nothing is skipped, so nothing is lost.
                _log.warning("%s is not followed at the moment: %s", self._stream, error)
                await asyncio.sleep(_RETRY_S * 10)
            except Exception:
                _log.exception("%s is not followed at the moment", self._stream)
                await asyncio.sleep(_RETRY_S * 10)

    async def _step(self) -> None:
        self._wake.clear()
        group: list[StoredMessage] = []
        while len(group) < _GROUP and (found := self._waiting.get(self.position + 1 + len(group))) is not None:
            group.append(found)
        if group:
            await self._take(group)
        elif self._target > self.position:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LATE_S):
                    await self._wake.wait()
            if self.position + 1 not in self._waiting:
                await self._repair()
        else:
            try:
                async with asyncio.timeout(_IDLE_S):
                    await self._wake.wait()
            except TimeoutError:
                self._target = max(self._target, await self._js.last_seq(self._stream))

    async def _repair(self) -> None:
        self.repairs += 1
        found = await self._js.read(self._stream, self.position + 1, _READ)
        for start in range(0, len(found), _GROUP):
            await self._take(found[start : start + _GROUP])
        if not found and not await self._skip_removed():
            # This replica lags.
            await asyncio.sleep(_LATE_S)

    async def _skip_removed(self) -> bool:
        """Go on to the stream's end if the leader has no message after our position: the last ones were removed."""
        last = await self._js.last_seq(self._stream)
        if last <= self.position or await self._js.has_after(self._stream, self.position):
            return False
        self._advance(last)
        return True

    async def _take(self, group: Sequence[StoredMessage]) -> None:
        await self._apply(group)
        self._advance(group[-1].seq)

    def _advance(self, seq: int) -> None:
        for gone in range(self.position + 1, seq + 1) if seq - self.position < _WAITING else list(self._waiting):
            if gone <= seq and (found := self._waiting.pop(gone, None)) is not None:
                self._bytes -= len(found.body)
        self.position = seq
        left = []
        for wanted, waiter in self._waiters:
            if wanted > seq:
                left.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiters = left
