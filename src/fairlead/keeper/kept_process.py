"""A process that the keeper holds, as the gateway sees it: like a child of its own (system/process.py, system/pty.py),
but it survives the gateway.

Its output has offsets, counted from its start. The keeper has everything from `base` on, until `ack` says that it is
stored. Input may have a key: the keeper writes the input of one key once, however often it is sent.
"""

import asyncio
from collections.abc import Callable, Set
from typing import Final

import msgspec

from fairlead.keeper import messages as say
from fairlead.keeper.buffers import KEYS, STDERR_TAIL, WINDOW
from fairlead.keeper.frames import MalformedFrame
from fairlead.model.agents import Exit
from fairlead.system.pipes import WRITE_AHEAD, PipeClosed, Take
from fairlead.system.process_group import StopTimeouts, exit_status

ACK_SECONDS: Final = 0.5
ACK_BYTES: Final = 64 * 1024
"""How long, and for how many bytes, an acknowledgement waits for the next ones."""


class KeeperLost(PipeClosed):
    """The connection to the keeper ended: the process may run on, and its output may still be kept."""


class KeptProcess:
    """Created by `Keeper`."""

    def __init__(self, entry: say.Kept, send: Callable[[say.Message], None], forgotten: Callable[[int], None]) -> None:
        self.number = entry.process
        self.pid = self.group = entry.pid
        self.started = entry.started
        self.tag = entry.tag
        self.base = self._stored = entry.base
        self._ack_timer: asyncio.TimerHandle | None = None
        self.memo = say.memo_bytes(entry.memo)
        self.size = None if entry.size is None else (int(entry.size[0]), int(entry.size[1]))
        self.on_terminal = self.size is not None
        self._send = send
        self._forgotten = forgotten
        self._keys: dict[str, None] = dict.fromkeys(entry.keys)
        self._end = entry.end
        self._exit = None if entry.exit is None else exit_status(*entry.exit)
        self._exited = asyncio.Event()
        self._unkillable = asyncio.Event()
        self._stopping = 0
        self._lost = False
        self._stderr = b""
        # The reader.
        self._reading = False
        self._next = 0
        """The offset of the next output to receive."""
        self._received: list[bytes] = []
        self._more = asyncio.Event()
        self._refused = False
        # The writers.
        self._last = 0
        self._unconfirmed: dict[int, tuple[asyncio.Future[None], str, int]] = {}
        self._ahead = 0
        self._confirmed = asyncio.Event()
        self._input_open = self._exit is None
        if self._exit is not None:
            self._exited.set()

    @property
    def keys(self) -> Set[str]:
        """The keys of the input that the keeper has accepted, the last 1,000."""
        return self._keys.keys()

    @property
    def running(self) -> bool:
        return self._exit is None and not self._lost

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    # --- output

    async def read(self, take: Take, offset: int | None = None) -> None:
        """Pass its output from `offset` (default: `base`) on to `take`, batch by batch; each is awaited before more is
        taken. Return at the end of the output. Raises KeeperLost, and ValueError if the keeper has no such offset."""
        if self._reading:
            raise RuntimeError("the output has a reader already")
        self._reading = True
        position = reported = self._next = self.base if offset is None else offset
        self._received.clear()
        self._refused = False
        self._send(say.Attach(self.number, position))
        try:
            while True:
                if self._received:
                    batch = b"".join(self._received)
                    self._received.clear()
                    await take(batch)
                    position += len(batch)
                    if position - max(reported, self.base) >= WINDOW // 2:
                        reported = position
                        self._send(say.Taken(self.number, position))
                    # A `take` that never suspends must not block the event loop.
                    await asyncio.sleep(0)
                elif self._end is not None and position >= self._end:
                    return
                elif self._lost:
                    raise KeeperLost("the connection to the keeper was lost")
                elif self._refused:
                    raise ValueError(f"the keeper does not have the output of process {self.number} at {position}")
                else:
                    self._more.clear()
                    await self._more.wait()
        finally:
            self._reading = False
            self._received.clear()
            self._send(say.Detach(self.number))

    def ack(self, offset: int, memo: bytes | None = None) -> None:
        """Everything before `offset` is stored; the keeper drops it. `memo` is for the next gateway.

        Without a memo the keeper is told a moment later, together with the acknowledgements that follow: it may hold
        bytes for longer than needed, and each message costs it a wakeup."""
        self._stored = max(self._stored, offset)
        if memo is not None:
            self.memo = memo
            if offset < self._stored:
                self.flush_ack()
            self.base = self._stored
            self._send(say.Ack(self.number, offset, memo))
        elif self._stored - self.base >= ACK_BYTES:
            self.flush_ack()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_SECONDS, self.flush_ack)

    def flush_ack(self) -> None:
        """Tell the keeper now what is stored."""
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._stored > self.base:
            self.base = self._stored
            self._send(say.Ack(self.number, self._stored, None))

    # --- input

    async def write(self, data: bytes, key: str = "") -> None:
        """Return when the pipe took the bytes. Data with a key that was accepted before is not written again. Raises
        PipeClosed if the process no longer reads.

        If the caller is cancelled while it waits, the bytes are still sent: half a line would garble the next ones."""
        while self._ahead >= WRITE_AHEAD and self._input_open:
            self._confirmed.clear()
            await self._confirmed.wait()
        if not self._input_open:
            if key and key in self._keys and not self._lost:
                return
            raise self._closed()
        self._last = (self._last + 1) % (1 << 32)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send(say.WriteInput(self.number, self._last, key, data))
        self._unconfirmed[self._last] = done, key, len(data)
        self._ahead += len(data)
        await done

    def offer(self, data: bytes) -> None:
        """Write the data if no other data waits to be written, else drop it."""
        if self._input_open and not self._unconfirmed:
            self._send(say.OfferInput(self.number, data))

    def close_input(self) -> None:
        """Close it at once: what the pipe has not taken is dropped. Does nothing on a terminal."""
        if not self.on_terminal and self._input_open:
            self._input_open = False
            self._send(say.CloseInput(self.number))

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal; the system signals the foreground programs (SIGWINCH)."""
        if not say.is_size([columns, rows]):
            raise ValueError(f"no terminal has {columns} columns and {rows} rows")
        if self.running and self.on_terminal:
            self.size = columns, rows
            self._send(say.Resize(self.number, columns, rows))

    # --- end

    async def wait(self) -> Exit:
        """Wait for its end. Raises KeeperLost."""
        await self._exited.wait()
        if self._exit is None:
            raise KeeperLost("the connection to the keeper was lost")
        return self._exit

    async def end(self, patience: StopTimeouts) -> Exit:
        """Stop it in steps, each bounded; the last one kills it. Raises KeeperLost.

        The keeper makes the steps: they go on if the caller is cancelled, or this gateway ends."""
        if self.running:
            self._send(say.StopProcess(self.number, patience.close, patience.terminate, patience.kill))
        if not self._stopping:
            self._unkillable.clear()
        self._stopping += 1
        waits = [asyncio.ensure_future(event.wait()) for event in (self._exited, self._unkillable)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping -= 1
            for each in waits:
                each.cancel()
        status = await self.wait() if self._exited.is_set() else Exit()
        return status if self.on_terminal else msgspec.structs.replace(status, stderr=self.stderr)

    def forget(self) -> None:
        """Its exit is stored: the keeper drops the process."""
        self.flush_ack()
        self._send(say.Forget(self.number))
        self._forgotten(self.number)

    # --- what the keeper reports

    def receive(self, message: say.Message) -> None:
        match message:
            case say.Output(_, offset, data):
                self._receive_output(offset, data)
            case say.OutputEnd(_, offset):
                self._end = offset
                self._more.set()
            case say.Wrote(_, number, ok):
                self._confirm(number, ok)
            case say.Stderr(_, data):
                self._stderr = (self._stderr + data)[-STDERR_TAIL:]
            case say.Exited(_, code, monitor):
                self._exit = exit_status(code, monitor)
                self._ended()
            case say.Unkillable():
                self._unkillable.set()
            case say.AttachRefused():
                self._refused = True
                self._more.set()
            case _:
                raise MalformedFrame(f"a {type(message).__name__}, which only a gateway sends")

    def lose(self) -> None:
        """The connection to the keeper ended."""
        self._lost = True
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        self._ended()

    def _ended(self) -> None:
        self._input_open = False
        self._exited.set()
        self._more.set()
        for number in list(self._unconfirmed):
            self._confirm(number, False)
        self._confirmed.set()

    def _receive_output(self, offset: int, data: bytes) -> None:
        # What was sent for an earlier reader may still arrive, and may overlap with what is sent for this one.
        if self._reading and offset <= self._next < offset + len(data):
            self._received.append(data[self._next - offset :])
            self._next = offset + len(data)
            self._more.set()

    def _confirm(self, number: int, ok: bool) -> None:
        if number not in self._unconfirmed:
            return
        done, key, size = self._unconfirmed.pop(number)
        self._ahead -= size
        self._confirmed.set()
        if ok and key:
            self._keys[key] = None
            if len(self._keys) > KEYS:
                del self._keys[next(iter(self._keys))]
        elif not ok:
            self._input_open = False
        if done.done():  # its caller was cancelled
            return
        if ok:
            done.set_result(None)
        else:
            done.set_exception(self._closed())

    def _closed(self) -> PipeClosed:
        return KeeperLost("the connection to the keeper was lost") if self._lost else PipeClosed("the pipe is closed")
