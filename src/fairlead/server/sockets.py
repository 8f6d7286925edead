"""One open socket: connects a client protocol's `SocketProtocol` to the core. The only place where the two meet.

Messages are delivered as they arrive, writes are joined per read, flows run in their lanes (`flows`), and a
subscription's bytes go straight from the core to the connection. Whatever a client does, the number of flows in
progress, of unread answer bytes and of subscriptions is bounded.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, assert_never

from fairlead.model.auth import Identity
from fairlead.model.errors import Busy, FairleadError, TooMany
from fairlead.model.gateway import SubscriptionHandle
from fairlead.model.ids import SessionId
from fairlead.model.web.broadcast import BroadcastChannel, ChannelSubscription
from fairlead.model.web.sockets import (
    AttachOwner,
    CloseSocket,
    Effect,
    EnterChannel,
    HoldSubscriptions,
    KeepState,
    RunFlow,
    Signal,
    SocketOwner,
    SocketProtocol,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Write,
)
from fairlead.server.dispatch import Dispatcher
from fairlead.server.errors import unexpected
from fairlead.server.flows import FlowRunner, LongEffect, SocketClosed
from fairlead.server.limits import ServerLimits, TokenBucket
from fairlead.server.socket_services import KeptEntry, SocketServices
from fairlead.server.websocket.connection import Connection
from fairlead.server.websocket.frames import ABNORMAL
from fairlead.server.websocket.sinks import ConnectionSink, SendGate, TrackedSink, send_packed
from fairlead.system.clock import Clock

log = logging.getLogger("fairlead.server")

REVOKED = 4401
"""Close code of a socket whose credential was revoked: like 401, in the range for applications."""

RECONNECT = 1012
"""Close code of a socket whose credential could see more when it was opened. It asks the client to connect again, and
is from RFC 6455's registry."""

FAILED = 1011
"""Close code of a socket with a subscription that can no longer be read: RFC 6455's internal error."""

_Watched = tuple[SessionId, str]
"""A session and the name of one of its projections; the name is empty for the session's log."""


@dataclass(frozen=True, slots=True)
class SocketHost:
    """Dependencies shared by all sockets of a server."""

    dispatcher: Dispatcher
    clock: Clock
    limits: ServerLimits
    fresh: Callable[[], str]
    services: SocketServices


@dataclass(eq=False, repr=False, slots=True)
class SocketEndpoint:
    """Implements `server.websocket.Endpoint`. `name` and `peer` are for the log."""

    _conversation: SocketProtocol
    _who: Identity
    _host: SocketHost
    _: KW_ONLY
    name: str
    peer: str
    compress: bool = False
    _bucket: TokenBucket = field(init=False)
    _flows: FlowRunner = field(init=False)
    _connection: Connection | None = None
    _out: list[bytes] = field(default_factory=list)
    _watches: dict[_Watched, SubscriptionHandle] = field(default_factory=dict)
    _changing: dict[_Watched, asyncio.Future[None]] = field(default_factory=dict)
    """The end of the last change of each subscription that is being changed."""
    _running: int = 0
    _revoked: bool = False
    _paused: bool = False
    _messages: int = 0
    _owner: SocketOwner | None = None
    _members: list[ChannelSubscription] = field(default_factory=list)
    _begin: Sequence[Effect] | None = None
    _kept: KeptEntry | None = None
    _gate: SendGate | None = None

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(self._host.clock, self._host.limits.commands_per_s)
        self._flows = FlowRunner(self)

    def begin_with(self, effects: Sequence[Effect]) -> None:
        """Run these effects on open, instead of those that the protocol's `opened` returns."""
        self._begin = effects

    def abandon(self) -> None:
        """Notify the owner that was to get the socket if the client left before it was open."""
        begin, self._begin = self._begin, None
        for effect in begin or ():
            if isinstance(effect, AttachOwner):
                effect.owner.detached(ABNORMAL, "")

    def on_revoked(self) -> None:
        """Close the socket because its credential is no longer valid."""
        self._revoked = True
        if self._connection is not None:
            self._hang_up(REVOKED, "the credential was revoked")

    def ask_to_reconnect(self) -> None:
        """Close the socket because its credential sees less than before; the client is to reconnect."""
        self._hang_up(RECONNECT, "what you may see has changed: connect again")

    # --- callbacks of the connection

    def on_open(self, conn: Connection) -> None:
        self._log("connect")
        self._connection = conn
        if self._revoked:
            self._hang_up(REVOKED, "the credential was revoked")
            return
        begin, self._begin = self._begin, None
        self._apply_all(self._conversation.opened() if begin is None else begin)
        self.flush()

    def on_message(self, conn: Connection, data: bytes, text: bool) -> None:
        self._messages += 1
        if self._owner is not None:
            self._owner.received(data, text)
        elif self._bucket.take():
            self._apply_all(self._conversation.received(data, text))
        else:
            error = TooMany(f"At most {self._host.limits.commands_per_s:g} messages per second are accepted.")
            self._apply_all(self._conversation.throttled(data, text, error))

    def on_batch_end(self, conn: Connection) -> None:
        self.flush()

    def on_drain(self, conn: Connection) -> None:
        self._read_on()
        if self._owner is not None:
            self._owner.drained()
        for watch in tuple(self._watches.values()):
            watch.drained()
        for member in self._members:
            member.drained()

    def on_close(self, conn: Connection, code: int) -> None:
        """Release everything that the socket held.

        Commands in progress are not cancelled: they take effect, only their answers are dropped. Queries are
        cancelled, because no client is left to receive the answer.
        """
        self._log("disconnect", code=code, messages=self._messages)
        self._connection = None
        self._out.clear()
        self._flows.cancel_queries()
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.detached(code, conn.reason)
        for member in self._members:
            member.leave()
        self._members.clear()
        watches = tuple(self._watches.values())
        self._watches.clear()
        for watch in watches:
            watch.close()
        if self._kept is not None:
            self._host.services.leave(self._kept)

    def _log(self, event: str, **more: Any) -> None:
        who = {"who": self._who.name, "credential": self._who.credential}
        log.info(event, extra={"peer": self.peer, "socket": self.name, **who, **more})

    # --- effects

    def _apply_all(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            try:
                self.apply(effect)
            except FairleadError as error:
                self.fail(error)

    def apply(self, effect: Effect) -> None:
        match effect:
            case Write(frames=frames):
                self._out.append(frames)
            case RunFlow():
                self._flows.run(effect)
            case Signal():
                self._signal(effect)
            case CloseSocket(code=code, reason=reason):
                self._hang_up(code, reason)
            case AttachOwner(owner=owner, early=early):
                self._attach(owner, early)
            case EnterChannel(channel=channel):
                self._enter(channel)
            case HoldSubscriptions(held=held):
                self._hold(held)
            case KeepState():
                self._keep(effect)
            case _:
                assert_never(effect)

    def fail(self, error: Exception) -> None:
        """Let the protocol answer an error that a flow did not handle."""
        self._apply_all(self._conversation.failed(self._known(error, self.name)))

    def flush(self) -> None:
        connection = self._connection
        if connection is None or not self._out:
            return
        frames = b"".join(self._out)
        self._out.clear()
        if self.compress:
            send_packed(connection, frames)
        else:
            connection.send(frames)
        if connection.backlog() > self._host.limits.unread:
            self._pause()

    def _hang_up(self, code: int, reason: str) -> None:
        self.flush()
        if self._connection is not None:
            self._connection.close(code, reason)

    def _attach(self, owner: SocketOwner, early: Sequence[tuple[bytes, bool]]) -> None:
        self.flush()
        if self._connection is None:
            owner.detached(ABNORMAL, "")
            return
        self._owner = owner
        owner.attached(self._connection)
        for data, text in early:
            owner.received(data, text)

    def _enter(self, channel: BroadcastChannel) -> None:
        if self._connection is not None:
            self._members.append(channel(ConnectionSink(self._connection, self.compress, lambda error: None)))

    def _hold(self, held: bool) -> None:
        if held:
            self._gate = self._gate or SendGate()
            self._gate.held = True
            return
        self.flush()
        if self._gate is not None and self._connection is not None:
            self._gate.release()
            for watch in tuple(self._watches.values()):
                watch.drained()

    def _keep(self, effect: KeepState) -> None:
        if self._connection is not None:
            services = self._host.services
            if self._kept is not None:
                services.drop(self._kept)
            self._kept = services.keep(self._who, effect)

    def _signal(self, signal: Signal) -> None:
        if not any(session == signal.session for session, _ in self._watches):
            raise Busy("Subscribe to the session first.", session=signal.session)
        self._host.dispatcher.gateway.signal(self._who, signal.session, signal.kind, signal.data)

    async def perform(self, effect: LongEffect) -> tuple[Any, Callable[[], None] | None]:
        """Return the answer, and a call for the time when the flow has reacted to it. Raises a FairleadError or
        SocketClosed."""
        try:
            match effect:
                case Subscribe() | Unsubscribe():
                    return await self._change_subscription(effect)
                case _:
                    return await self._host.dispatcher.dispatch(self._who, effect), None
        except (FairleadError, SocketClosed):
            raise
        except Exception as error:
            raise self._known(error, type(effect).__name__) from None

    def _known(self, error: Exception, what: str) -> FairleadError:
        return error if isinstance(error, FairleadError) else unexpected(error, self._host.fresh(), what)

    async def _change_subscription(
        self, effect: Subscribe | Unsubscribe
    ) -> tuple[Subscribed | None, Callable[[], None] | None]:
        """Apply the changes of one subscription one after another."""
        watched = (effect.session, effect.view)
        before, done = self._changing.get(watched), asyncio.get_running_loop().create_future()
        self._changing[watched] = done
        try:
            if before is not None:
                await asyncio.wait({before})
            if isinstance(effect, Subscribe):
                return await self._subscribe(effect, watched)
            self._stop_watching(watched)
            return None, None
        finally:
            done.set_result(None)
            if self._changing[watched] is done:
                del self._changing[watched]

    async def _subscribe(self, wanted: Subscribe, watched: _Watched) -> tuple[Subscribed, Callable[[], None]]:
        before = self._stop_watching(watched)
        cursor = before.cursor if wanted.keep and before is not None else wanted.cursor
        if len(self._watches) >= self._host.limits.watches_per_socket:
            raise TooMany(f"One socket watches at most {self._host.limits.watches_per_socket} sessions.")
        connection = self._connection
        if connection is None:
            raise SocketClosed
        plain = ConnectionSink(connection, self.compress, partial(self._watch_failed, wanted))
        tracked = TrackedSink(plain, self._gate, wanted.sent) if self._gate or wanted.sent else None
        watch = await self._host.dispatcher.gateway.watch(
            self._who, wanted.session, cursor, wanted.variant, tracked or plain, wanted.view
        )
        if self._connection is None:
            watch.close()
            raise SocketClosed
        if tracked is not None:
            tracked.watch = watch
        self._watches[watched] = watch
        self._log("subscribe", session=wanted.session, view=wanted.view, verdict=watch.verdict, head=watch.head)

        def start() -> None:
            if self._watches.get(watched) is watch:
                watch.start()

        return Subscribed(wanted.session, watch.verdict, watch.log_id, watch.head), start

    def _watch_failed(self, wanted: Subscribe, error: FairleadError) -> None:
        """Let the protocol report the error, then close the socket so that the client reconnects."""
        self._watches.pop((wanted.session, wanted.view), None)
        if wanted.lost is not None:
            self._apply_all(wanted.lost(error))
        self._hang_up(FAILED, "the session cannot be read: connect again")

    def _stop_watching(self, watched: _Watched) -> SubscriptionHandle | None:
        watch = self._watches.pop(watched, None)
        if watch is not None:
            watch.close()
        return watch

    # --- the limit on work in flight

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._host.dispatcher.tasks.spawn(work)
        self._running += 1
        task.add_done_callback(self._finished)
        if self._running >= self._host.limits.in_flight:
            self._pause()
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running -= 1
        self._read_on()

    def _pause(self) -> None:
        if self._connection is not None and not self._paused:
            self._paused = True
            self._connection.pause()

    def _read_on(self) -> None:
        connection = self._connection
        if not self._paused or connection is None:
            return
        if self._running < self._host.limits.in_flight and connection.backlog() <= self._host.limits.unread:
            self._paused = False
            connection.resume()
