"""The other nodes: questions, passing messages and channels over NATS, without storing them."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fairlead.model import errors
from fairlead.model.errors import FairleadError, NodeAway, Unavailable
from fairlead.model.store import Channel, Node, NodeInfo, Stop
from fairlead.model.store.peers import Accept, Handler, Heard
from fairlead.stores.nats.channels import NatsChannel
from fairlead.stores.nats.connection import TRANSIENT
from fairlead.stores.nats.names import Names
from fairlead.stores.nats.presence import Presence
from fairlead.stores.nats.sealing import Seal, Sealed
from fairlead.system.clock import Clock

_PART_BYTES: Final = 256 << 10
_DIAL_S: Final = 10.0

_log = logging.getLogger(__name__)


class _Failure(msgspec.Struct, array_like=True):
    """An error as it travels."""

    kind: str
    message: str
    data: dict[str, Any]


class NatsPeers:
    """Implements `model.store.Peers`."""

    def __init__(self, client: Client, names: Names, node: str, key: bytes, presence: Presence, clock: Clock) -> None:
        self.node = node
        self._client = client
        self._names = names
        self._seal = Seal(key)
        self._presence = presence
        self._clock = clock
        self._handlers: dict[str, Handler] = {}
        self._accepts: dict[str, Accept] = {}
        self._hears: dict[str, list[Heard]] = {}
        self._tells: dict[str, Subscription] = {}
        self._asked: dict[str, list[bytes]] = {}
        self._answers: dict[str, asyncio.Queue[Sealed | None]] = {}
        self._channels: dict[str, NatsChannel] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        self._subscription = await self._client.subscribe(self._names.node(self.node, ">"), cb=self._received)
        await self._client.flush()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        for channel in tuple(self._channels.values()):
            channel.lost()
        with contextlib.suppress(*TRANSIENT):
            if self._subscription is not None:
                await self._subscription.unsubscribe()

    # --- nodes

    @property
    def suspended(self) -> bool:
        return self._presence.suspended

    def nodes(self) -> tuple[Node, ...]:
        return self._presence.nodes()

    def lives(self, node: str) -> bool:
        return self._presence.lives(node)

    def leads(self) -> bool:
        return self._presence.leads()

    def describe(self, info: NodeInfo) -> None:
        self._presence.describe(info)

    def on_change(self, heard: Callable[[], None]) -> Stop:
        return self._presence.on_change(heard)

    # --- questions

    async def ask(self, node: str, topic: str, body: bytes, timeout_s: float = 20.0) -> bytes:
        id = uuid.uuid4().hex
        answers = self._answers[id] = asyncio.Queue()
        try:
            await self._send(self._names.node(node, "ask", topic), id, "ask", body, reply=self._reply_subject(id))
            parts: list[bytes] = []
            async with asyncio.timeout(timeout_s):
                while True:
                    answer = await answers.get()
                    if answer is None:
                        raise self._away(node)
                    parts.append(answer.body)
                    if answer.last:
                        break
        except TimeoutError:
            raise Unavailable(f"The node {node} did not answer in time: the outcome is unknown.", node=node) from None
        except TRANSIENT as error:
            raise Unavailable(f"The node {node} cannot be asked ({error}).", node=node) from error
        finally:
            del self._answers[id]
        if answer.kind == "failed":
            raise _error(msgspec.msgpack.decode(b"".join(parts), type=_Failure))
        return b"".join(parts)

    def serve(self, topic: str, handler: Handler) -> Stop:
        self._handlers[topic] = handler
        return lambda: None if self._handlers.get(topic) is not handler else self._handlers.__delitem__(topic)

    async def _answer(self, topic: str, asked: Sealed, reply: str, body: bytes) -> None:
        handler = self._handlers.get(topic)
        try:
            if handler is None:
                raise NodeAway(self.node)
            answer, kind = await handler(asked.sender, body), "answer"
        except FairleadError as error:
            failure = _Failure(type(error).__name__, error.message, error.data)
            answer, kind = msgspec.msgpack.encode(failure, enc_hook=str), "failed"
        except Exception:
            _log.exception("the question %s of node %s", topic, asked.sender)
            failure = _Failure("Unavailable", f"The node {self.node} could not answer.", {})
            answer, kind = msgspec.msgpack.encode(failure), "failed"
        with contextlib.suppress(*TRANSIENT):
            await self._send(reply, asked.id, kind, answer)

    # --- passing messages

    def tell(self, topic: str, body: bytes) -> None:
        self._spawn(self._send(self._names.tell(topic), uuid.uuid4().hex, "tell", body))

    def hear(self, topic: str, heard: Heard) -> Stop:
        listeners = self._hears.setdefault(topic, [])
        listeners.append(heard)
        if topic not in self._tells:
            self._spawn(self._subscribe(topic))

        def stop() -> None:
            if heard in listeners:
                listeners.remove(heard)
            if not listeners and self._hears.get(topic) is listeners:
                del self._hears[topic]
                if (subscription := self._tells.pop(topic, None)) is not None:
                    self._spawn(subscription.unsubscribe())

        return stop

    async def _subscribe(self, topic: str) -> None:
        async def received(message: Msg) -> None:
            found = self._seal.open(message.subject, message.data)
            if found is not None and found.sender != self.node:
                for heard in tuple(self._hears.get(topic, ())):
                    heard(found.sender, found.body)

        self._tells[topic] = await self._client.subscribe(self._names.tell(topic), cb=received)
        if topic not in self._hears:
            await self._tells.pop(topic).unsubscribe()

    # --- channels

    async def dial(self, node: str, topic: str, hello: bytes) -> Channel:
        id = uuid.uuid4().hex
        channel = self._make_channel(id, node, "dialed", "accepted")
        try:
            await self.ask(node, f"dial-{topic}", msgspec.msgpack.encode((id, hello)), _DIAL_S)
        except BaseException:
            channel.lost()
            raise
        return channel

    def accept(self, topic: str, accepted: Accept) -> Stop:
        async def dialed(node: str, body: bytes) -> bytes:
            id, hello = msgspec.msgpack.decode(body, type=tuple[str, bytes])
            channel = self._make_channel(id, node, "accepted", "dialed")
            self._spawn(self._serve_channel(accepted, node, hello, channel))
            return b""

        return self.serve(f"dial-{topic}", dialed)

    async def _serve_channel(self, accepted: Accept, node: str, hello: bytes, channel: NatsChannel) -> None:
        try:
            await accepted(node, hello, channel)
        except FairleadError as error:
            _log.debug("a channel of node %s: %s", node, error)
        except Exception:
            _log.exception("a channel of node %s", node)
        finally:
            await channel.close()

    def _make_channel(self, id: str, node: str, own: str, theirs: str) -> NatsChannel:
        subject = self._names.node(node, "chan", f"{id}-{theirs}")
        name = f"{id}-{own}"

        async def send(kind: str, number: int, body: bytes) -> None:
            message = Sealed(self.node, name, kind, number, True, body)
            await self._client.publish(subject, self._seal.close(subject, message))

        channel = NatsChannel(send, self._clock, ended=lambda: self._channels.pop(name, None))
        self._channels[name] = channel
        return channel

    # --- the own subjects

    async def _received(self, message: Msg) -> None:
        kind, _, rest = message.subject.removeprefix(self._names.node(self.node) + ".").partition(".")
        if kind == "reply" and (message.headers or {}).get("Status"):
            # Nobody listens at the node's subjects.
            if (answers := self._answers.get(rest)) is not None:
                answers.put_nowait(None)
            return
        found = self._seal.open(message.subject, message.data)
        if found is None:
            _log.warning("a message on %s is not of a node of this cell", message.subject)
        elif kind == "reply":
            if found.id == rest and (answers := self._answers.get(rest)) is not None:
                answers.put_nowait(found)
        elif kind == "chan":
            if (channel := self._channels.get(rest)) is not None:
                channel.received(found.kind, found.number, found.body)
        elif kind == "ask":
            parts = self._asked.setdefault(found.id, [])
            parts.append(found.body)
            if found.last:
                body = b"".join(self._asked.pop(found.id))
                reply = self._names.node(found.sender, "reply", found.id)
                self._spawn(self._answer(rest, found, reply, body))

    def _reply_subject(self, id: str) -> str:
        return self._names.node(self.node, "reply", id)

    async def _send(self, subject: str, id: str, kind: str, body: bytes, reply: str = "") -> None:
        size = min(_PART_BYTES, self._client.max_payload // 2)
        starts = range(0, max(len(body), 1), size)
        for number, start in enumerate(starts):
            part = body[start : start + size]
            message = Sealed(self.node, id, kind, number, start + size >= len(body), part)
            await self._client.publish(subject, self._seal.close(subject, message), reply=reply)

    def _away(self, node: str) -> NodeAway:
        since = next((found.since for found in self.nodes() if found.name == node), 0)
        return NodeAway(node, since)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except TRANSIENT as error:
        _log.debug("a message between nodes is lost: %s", error)


def _error(failure: _Failure) -> FairleadError:
    """The error as itself, if it is one of the model's; its message and data are those of the other node."""
    kind = getattr(errors, failure.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, FairleadError)):
        kind = Unavailable
    error = kind.__new__(kind)
    FairleadError.__init__(error, failure.message, **failure.data)
    return error
