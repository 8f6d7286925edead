"""Peers whose messages are sealed with a key that all nodes of a cluster have: another program with access to the
message server cannot act as a node.

The seal (HMAC) covers the kind of message, the topic, both nodes and the body. It does not hide the content.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable
from typing import Final

from fairlead.model.errors import NotAllowed
from fairlead.model.store.peers import Accept, Channel, Handler, Heard, Node, NodeInfo, Peers, Stop

_SIZE: Final = 32
_ALL: Final = "*"

log = logging.getLogger("fairlead.nodes")


class SealedPeers:
    """Implements `model.store.Peers` around the peers of a store."""

    def __init__(self, peers: Peers, key: bytes) -> None:
        self._peers = peers
        self._key = key
        self.nodes: Callable[[], tuple[Node, ...]] = peers.nodes
        self.lives: Callable[[str], bool] = peers.lives
        self.leads: Callable[[], bool] = peers.leads
        self.describe: Callable[[NodeInfo], None] = peers.describe
        self.on_change: Callable[[Callable[[], None]], Stop] = peers.on_change

    @property
    def node(self) -> str:
        return self._peers.node

    @property
    def suspended(self) -> bool:
        return self._peers.suspended

    async def ask(self, node: str, topic: str, body: bytes, timeout_s: float = 20.0) -> bytes:
        sealed = self._seal("ask", topic, self.node, node, body)
        answer = await self._peers.ask(node, topic, sealed, timeout_s)
        return self._open("answer", topic, node, self.node, answer)

    def serve(self, topic: str, handler: Handler) -> Stop:
        async def serve(node: str, sealed: bytes) -> bytes:
            answer = await handler(node, self._open("ask", topic, node, self.node, sealed))
            return self._seal("answer", topic, self.node, node, answer)

        return self._peers.serve(topic, serve)

    def tell(self, topic: str, body: bytes) -> None:
        self._peers.tell(topic, self._seal("tell", topic, self.node, _ALL, body))

    def hear(self, topic: str, heard: Heard) -> Stop:
        def hear(node: str, sealed: bytes) -> None:
            try:
                body = self._open("tell", topic, node, _ALL, sealed)
            except NotAllowed as error:
                log.warning("message without a valid seal", extra={"node": node, "topic": topic, "error": error.code})
                return
            heard(node, body)

        return self._peers.hear(topic, hear)

    async def dial(self, node: str, topic: str, hello: bytes) -> Channel:
        return await self._peers.dial(node, topic, self._seal("dial", topic, self.node, node, hello))

    def accept(self, topic: str, accepted: Accept) -> Stop:
        async def accept(node: str, sealed: bytes, channel: Channel) -> None:
            await accepted(node, self._open("dial", topic, node, self.node, sealed), channel)

        return self._peers.accept(topic, accept)

    def _mac(self, kind: str, topic: str, sender: str, receiver: str, body: bytes) -> bytes:
        # None of the names can contain a line break, so no two messages share these bytes.
        front = f"{kind}\n{topic}\n{sender}\n{receiver}\n".encode()
        return hmac.new(self._key, front + body, hashlib.sha256).digest()

    def _seal(self, kind: str, topic: str, sender: str, receiver: str, body: bytes) -> bytes:
        return self._mac(kind, topic, sender, receiver, body) + body

    def _open(self, kind: str, topic: str, sender: str, receiver: str, sealed: bytes) -> bytes:
        seal, body = sealed[:_SIZE], sealed[_SIZE:]
        if not hmac.compare_digest(seal, self._mac(kind, topic, sender, receiver, body)):
            raise NotAllowed(f"The message of {sender} is not sealed with the key of this cluster.", node=sender)
        return body
