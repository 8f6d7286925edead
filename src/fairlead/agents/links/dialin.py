"""The dial-in link: an agent that connects to us. Its sockets come and go; the driver sees one stream of bytes.

Incoming frames are passed on in order, with a mark where the agent reconnected. Each outgoing frame ends with one
newline; lines that the agent may not have received when its socket dropped are resent on the next socket. An agent
that we started is still our child process, and we reap it; an agent that a person started has no process here and
counts as gone when it does not reconnect.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from fairlead.agents.links.dialin_state import ACCEPTING, TABLE, DialInSignal, DialInState, UnconfirmedLines
from fairlead.agents.links.stdio import WRITE_SECONDS
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, AgentTimeout, Busy
from fairlead.model.formats.frames import text_frame
from fairlead.model.web.sockets import SocketHandle
from fairlead.system.clock import Clock, Timer, ends_within
from fairlead.system.pipes import Take
from fairlead.system.process import ChildProcess, StopTimeouts

logger = logging.getLogger("fairlead.agents.dialin")

UNREAD_BYTES = 1 << 20
"""Bytes that may wait here for the core before we stop reading the socket; one more read may exceed this limit."""
UNSENT_BYTES = 1 << 20
"""Bytes that may wait in the socket before `send` blocks: far below the server's own limit."""
SOCKET_END_SECONDS = 10.0
"""How long we wait for the socket to close after its process has ended."""
PLAIN_CLOSE = 1000


class DialInLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of the agent's version: how long it tries to reconnect, and the close code that ends it, if any."""

    tries_s: float
    close_code: int | None = None
    patience: StopTimeouts = StopTimeouts()


class DialInConnection(msgspec.Struct, frozen=True):
    """The agent opened a socket. `again`: it is not the first one; `last`: the id of the last message that the agent
    says it has written."""

    again: bool
    last: str = ""


Arrived = Callable[[DialInConnection], Awaitable[None]]


class DialInLink:
    """Implements `Link`, except for the second argument of `receive`. `ended` is called once, when the link closes."""

    def __init__(
        self, clock: Clock, terms: DialInLimits, child: ChildProcess | None, ended: Callable[[], None] = lambda: None
    ) -> None:
        self.state = DialInState.IDLE
        self._clock = clock
        self._terms = terms
        self.child = child
        self.pid = 0 if child is None else child.pid
        """0 for an agent that a person started."""
        self._ended = ended
        self._outbox = UnconfirmedLines()
        self._inbox: deque[bytes | DialInConnection] = deque()
        self._unread = 0
        self._socket: _Socket | None = None
        self._arrivals = 0
        self.posts = 0
        """How many posts the agent has sent over HTTP instead of its socket."""
        self._changed = asyncio.Event()
        self._timer: Timer | None = None
        self._watching: asyncio.Task[None] | None = None

    def expect(self) -> None:
        """Expect the agent to connect. A child needs no input: it reads from its socket."""
        self._signal(DialInSignal.EXPECTED)
        if self.child is not None:
            self.child.close_input()
            self._watching = asyncio.create_task(self._watch(self.child))

    # --- the `Link` side

    @property
    def running(self) -> bool:
        return self.state in ACCEPTING

    async def receive(self, take: Take, arrived: Arrived) -> None:
        """Pass bytes to `take` and new connections to `arrived`, in order, until the link is closed."""
        while True:
            while self._inbox:
                item = self._inbox.popleft()
                if isinstance(item, DialInConnection):
                    await arrived(item)
                else:
                    self._unread -= len(item)
                    self._read_on()
                    await take(item)
            if self.state is DialInState.CLOSED:
                return
            await self._change()

    async def send(self, data: bytes) -> None:
        """Return when the line is on its way, or is queued until the agent reconnects.

        Raises AgentNotRunning, AgentTimeout."""
        if not await ends_within(self._clock, WRITE_SECONDS, self._until(self._has_room)):
            raise AgentTimeout("The agent does not read its input: interrupt or close the session.")
        if not self.running:
            raise AgentNotRunning("The agent does not read its input any more: it has exited or is about to.")
        self._outbox.add(data)
        if self._socket is not None:
            self._socket.send([data], self._outbox.last)
        else:
            logger.info("line queued for a disconnected agent", extra={"pid": self.pid, "bytes": len(data)})

    def send_if_connected(self, data: bytes) -> None:
        """Send a line that matters only now; drop it if the agent is disconnected."""
        if self._socket is not None and self.running:
            self._socket.send([data], 0)

    async def stop(self) -> Exit:
        """Stop the agent with the close code, where its version knows one, else with signals; return its exit."""
        polite = self._socket is not None and self._terms.close_code is not None
        self._signal(DialInSignal.STOPPED)
        if self._socket is not None:
            self._socket.close(self._terms.close_code or PLAIN_CLOSE, "the session is closed")
        if self.child is None or self._watching is None:
            self._signal(DialInSignal.ENDED)
            return Exit()
        patience = self._terms.patience
        # A version that treats every close as a broken connection ends only on a signal.
        hurried = patience if polite else StopTimeouts(close=0.0, terminate=patience.terminate, kill=patience.kill)
        ended = await self.child.end(hurried)
        await asyncio.shield(self._watching)
        return ended

    # --- the side that sockets and posts connect to

    def accept_socket(self, last: str) -> "_Socket":
        """Return the owner for an accepted socket. Raises Busy when no agent is expected any more."""
        if not self.running:
            raise Busy("This session expects no agent now.")
        return _Socket(self, last)

    async def post(self, data: bytes) -> None:
        """Accept output that the agent posts over HTTP. Raises Busy while too much is unread; the agent may retry."""
        if not self.running:
            raise Busy("This session expects no agent now.")
        if self._unread > UNREAD_BYTES:
            raise Busy("The agent's earlier output is still being stored.")
        self.posts += 1
        self._put(data)

    async def connected(self) -> None:
        """Return when the agent has connected for the first time, or will not connect any more."""
        await self._until(lambda: self.state is not DialInState.CONNECTING)

    def _signal(self, signal: DialInSignal) -> None:
        before, self.state = self.state, TABLE[self.state, signal]
        if before is not self.state:
            logger.debug("link", extra={"pid": self.pid, "state": self.state, "because": signal})
        if self.state is not DialInState.RECONNECTING and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state is DialInState.CLOSED and before is not DialInState.CLOSED:
            self._ended()
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await self._change()

    def on_open(self, socket: "_Socket", last: str) -> None:
        if self.state not in ACCEPTING:
            socket.close(PLAIN_CLOSE, "this session expects no agent now")
            return
        before, self._socket = self._socket, socket
        if before is not None:
            before.close(PLAIN_CLOSE, "the agent has opened another socket")
        self._arrivals += 1
        self._signal(DialInSignal.OPENED)
        self._inbox.append(DialInConnection(self._arrivals > 1, last))
        lacking = self._outbox.unconfirmed()
        fields = {"pid": self.pid, "again": self._arrivals > 1, "resent": len(lacking)}
        logger.info("the agent has connected", extra=fields)
        if lacking:
            socket.send(lacking, self._outbox.last)

    def on_data(self, socket: "_Socket", data: bytes) -> None:
        """Queue received bytes, also from a replaced socket: the agent sent them before it opened the new one."""
        self._put(data)
        if self._unread > UNREAD_BYTES:
            socket.pause()

    def confirm(self, number: int) -> None:
        self._outbox.confirm(number)

    def on_drain(self) -> None:
        self._changed.set()

    def on_drop(self, socket: "_Socket", code: int) -> None:
        if self._socket is not socket:
            return
        self._socket = None
        logger.info("the agent's socket was disconnected", extra={"pid": self.pid, "code": code})
        self._signal(DialInSignal.DROPPED)
        if self.state is DialInState.RECONNECTING:
            self._timer = self._clock.call_later(self._terms.tries_s, self._give_up)

    def _give_up(self) -> None:
        logger.info("the agent did not reconnect", extra={"pid": self.pid})
        self._signal(DialInSignal.GAVE_UP)

    def _put(self, data: bytes) -> None:
        self._inbox.append(data)
        self._unread += len(data)
        self._changed.set()

    def _read_on(self) -> None:
        if self._socket is not None and self._unread <= UNREAD_BYTES // 2:
            self._socket.resume()

    def _has_room(self) -> bool:
        return self._socket is None or self._socket.backlog() <= UNSENT_BYTES or not self.running

    async def _watch(self, child: ChildProcess) -> None:
        """Read the child's stdout all the time, since a full pipe would block it, and wait for its end.

        The output is passed on only if the agent never connected."""
        output = bytearray()

        async def keep(data: bytes) -> None:
            output.extend(data)
            del output[: -64 * 1024]

        await child.read(keep)
        await child.wait()
        if self._arrivals == 0 and output:
            self._put(bytes(output))
        await ends_within(self._clock, SOCKET_END_SECONDS, self._until(lambda: self._socket is None))
        self._signal(DialInSignal.ENDED)


class _Socket:
    """One socket of the agent. Implements `model.web.sockets.SocketOwner`."""

    def __init__(self, link: DialInLink, last: str) -> None:
        self._link = link
        self._last = last
        self._wire: SocketHandle | None = None
        self._paused = False
        self._whole = True

    # called by the server

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire
        self._link.on_open(self, self._last)

    def received(self, data: bytes, text: bool) -> None:
        if data:
            self._whole = data.endswith(b"\n")
            self._link.on_data(self, data)

    def drained(self) -> None:
        self._link.on_drain()

    def detached(self, code: int, reason: str) -> None:
        self._wire = None
        if not self._whole:
            # Frames arrive whole: bytes without a newline when the socket ends are a last line, not half of one.
            self._link.on_data(self, b"\n")
        self._link.on_drop(self, code)

    # called by the link

    def send(self, lines: Sequence[bytes], number: int) -> None:
        if self._wire is not None:
            self._wire.send(b"".join(map(text_frame, lines)))
            self._wire.probe(lambda: self._link.confirm(number))

    def backlog(self) -> int:
        return 0 if self._wire is None else self._wire.backlog()

    def pause(self) -> None:
        if self._wire is not None and not self._paused:
            self._paused = True
            self._wire.pause()

    def resume(self) -> None:
        if self._wire is not None and self._paused:
            self._paused = False
            self._wire.resume()

    def close(self, code: int, reason: str) -> None:
        if self._wire is not None:
            self._wire.close(code, reason)
