"""A gateway on one machine has no peers."""

import pytest

from fairlead.model.errors import NodeAway
from fairlead.model.store.peers import Alone, Node, NodeInfo


async def test_a_gateway_alone_knows_only_itself() -> None:
    peers = Alone("a")
    peers.describe(NodeInfo(version="1", max_agents=3))
    assert peers.nodes() == (Node(name="a", info=NodeInfo(version="1", max_agents=3)),)
    assert (peers.lives("a"), peers.lives("b"), peers.leads(), peers.suspended) == (True, False, True, False)


async def test_a_gateway_alone_reaches_nobody() -> None:
    peers = Alone("a")

    async def answer(node: str, body: bytes) -> bytes:
        raise AssertionError

    async def accepted(node: str, hello: bytes, channel: object) -> None:
        raise AssertionError

    stops = [
        peers.serve("topic", answer),
        peers.hear("topic", lambda node, body: pytest.fail("nobody sends")),
        peers.accept("topic", accepted),
        peers.on_change(lambda: pytest.fail("nothing changes")),
    ]
    peers.tell("topic", b"x")
    with pytest.raises(NodeAway) as away:
        await peers.ask("b", "topic", b"x")
    assert away.value.data == {"node": "b", "since": 0}
    with pytest.raises(NodeAway):
        await peers.dial("b", "topic", b"x")
    for stop in stops:
        stop()
