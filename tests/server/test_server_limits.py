"""The rate limit of requests, and the number of connections that may wait unauthenticated."""

from functools import partial

from fairlead.server.limits import ServerLimits, TokenBucket, UnauthenticatedConnections
from fairlead_testing.clock import ManualClock


async def test_a_bucket_gives_its_rate_and_no_more() -> None:
    clock = ManualClock()
    bucket = TokenBucket(clock, 50)
    assert [bucket.take() for _ in range(51)] == [True] * 50 + [False]
    await clock.advance(0.1)
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
    await clock.advance(3600)
    assert [bucket.take() for _ in range(51)] == [True] * 50 + [False]


class ConnectionsHarness:
    def __init__(self, connections: UnauthenticatedConnections) -> None:
        self.connections = connections
        self.out: list[str] = []

    def connect(self, address: str, name: str) -> None:
        self.connections.add(address, partial(self.out.append, name))


async def test_connection_without_credential_is_closed_after_ten_seconds() -> None:
    clock = ManualClock()
    harness = ConnectionsHarness(UnauthenticatedConnections(clock))
    harness.connect("a", "first")
    leave = harness.connections.add("a", partial(harness.out.append, "good"))
    leave()
    leave()
    await clock.advance(9.4)
    assert harness.out == []
    await clock.advance(1.2)
    assert harness.out == ["first"]
    assert len(harness.connections) == 0
    assert clock.waiting == 0


async def test_burst_is_tolerated_and_silent_connections_are_then_cut_to_the_limit() -> None:
    clock = ManualClock()
    harness = ConnectionsHarness(UnauthenticatedConnections(clock, ServerLimits(waiting=10, waiting_per_address=4)))
    for number in range(40):
        harness.connect("flood", f"f{number}")
    assert harness.out == []
    await clock.advance(0.6)
    assert len(harness.connections) == 4
    assert harness.out == [f"f{number}" for number in range(36)]


async def test_other_addresses_keep_their_connections_when_one_address_floods() -> None:
    clock = ManualClock()
    harness = ConnectionsHarness(UnauthenticatedConnections(clock, ServerLimits(waiting=10, waiting_per_address=4)))
    harness.connect("good", "good")
    for number in range(20):
        harness.connect("flood", f"f{number}")
    await clock.advance(0.6)
    assert "good" not in harness.out
    assert len(harness.connections) == 5


async def test_many_addresses_share_the_total_limit() -> None:
    clock = ManualClock()
    harness = ConnectionsHarness(UnauthenticatedConnections(clock, ServerLimits(waiting=10, waiting_per_address=4)))
    for number in range(30):
        harness.connect(f"address {number}", str(number))
    await clock.advance(0.6)
    assert len(harness.connections) == 10
    assert harness.out == [str(number) for number in range(20)]


def test_oldest_connection_is_closed_at_once_above_the_hard_limit() -> None:
    harness = ConnectionsHarness(
        UnauthenticatedConnections(ManualClock(), ServerLimits(waiting=10, waiting_per_address=4))
    )
    for number in range(50):
        harness.connect("flood", str(number))
    assert len(harness.connections) == 40
    assert harness.out == [str(number) for number in range(10)]


async def test_exempt_proxy_address_has_no_limit_per_address() -> None:
    clock = ManualClock()
    harness = ConnectionsHarness(
        UnauthenticatedConnections(clock, ServerLimits(waiting=10, waiting_per_address=4), exempt=frozenset({"proxy"}))
    )
    for number in range(9):
        harness.connect("proxy", str(number))
    await clock.advance(0.6)
    assert len(harness.connections) == 9


async def test_new_connections_are_spared_until_the_next_check() -> None:
    clock = ManualClock()
    harness = ConnectionsHarness(UnauthenticatedConnections(clock, ServerLimits(waiting=10, waiting_per_address=2)))
    harness.connect("a", "old")
    await clock.advance(0.4)
    for number in range(4):
        harness.connect("a", f"young {number}")
    await clock.advance(0.2)
    assert harness.out == ["old"]
    await clock.advance(0.5)
    assert harness.out == ["old", "young 0", "young 1"]
