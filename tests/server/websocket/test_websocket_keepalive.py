"""One timer pings all peers and closes those that do not answer. The tests advance the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.server.websocket.keepalive import Keepalive
from server.websocket.handtimer import HandTimer
from server.websocket.harness import RunningServer
from server.websocket.rawclient import RawClient, wait_until

PING, PONG, TEXT = 0x89, 0xA, 0x1


class Member:
    def __init__(self) -> None:
        self.turns = 0

    def keep_alive(self) -> None:
        self.turns += 1


@pytest.fixture
def timer() -> HandTimer:
    return HandTimer()


@pytest.fixture(params=["uvloop", "asyncio"])
def server(request: pytest.FixtureRequest, timer: HandTimer) -> Iterator[RunningServer]:
    running = RunningServer(request.param, keepalive=Keepalive(30, timer.later))
    yield running
    running.stop()


def test_a_member_has_its_turn_once_an_interval(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)
    member = Member()
    keepalive.add(member)
    timer.advance(29)
    assert member.turns == 0
    for turn in range(1, 5):
        timer.advance(30)
        assert member.turns == turn


def test_member_that_joins_later_also_waits_almost_a_whole_interval(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)
    first, second = Member(), Member()
    keepalive.add(first)
    timer.advance(17.5)
    keepalive.add(second)
    timer.advance(28.5)
    assert (first.turns, second.turns) == (1, 0)
    timer.advance(1.5)
    assert (first.turns, second.turns) == (1, 1)


def test_there_is_one_timer_however_many_members(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)
    for _ in range(100):
        keepalive.add(Member())
    timer.advance(45)
    assert len(timer.entries) == 1


def test_the_timer_stops_with_the_last_member_and_starts_again(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)
    member = Member()
    keepalive.add(member)
    keepalive.discard(member)
    assert timer.entries == []
    keepalive.discard(member)
    keepalive.add(member)
    timer.advance(30)
    assert member.turns == 1


def test_a_member_may_leave_in_its_turn(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)

    class Leaver(Member):
        def keep_alive(self) -> None:
            super().keep_alive()
            keepalive.discard(self)

    leavers = [Leaver() for _ in range(3)]
    for leaver in leavers:
        keepalive.add(leaver)
    timer.advance(90)
    assert [leaver.turns for leaver in leavers] == [1, 1, 1]
    assert timer.entries == []


def test_burst_of_connections_is_spread_over_the_interval(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)
    members = [Member() for _ in range(5000)]
    for member in members:
        keepalive.add(member)
    most = done = 0
    for _ in range(30):
        timer.advance(1)
        turns = sum(member.turns for member in members)
        most, done = max(most, turns - done), turns
    assert done == 5000
    assert most <= 256


def test_more_members_than_slots_are_all_served(timer: HandTimer) -> None:
    keepalive = Keepalive(30, timer.later)
    members = [Member() for _ in range(8000)]
    for member in members:
        keepalive.add(member)
    timer.advance(30)
    assert {member.turns for member in members} == {1}


@pytest.mark.rules("S000-147")
def test_a_peer_that_answers_is_pinged_every_interval(server: RunningServer, timer: HandTimer) -> None:
    with RawClient(server.port, "/echo") as client:
        wait_until(lambda: bool(timer.entries), "the connection's place in the keepalive")
        for _ in range(4):
            timer.advance(30)
            assert client.frame() == (PING, b"")
            client.send(PONG)
            client.send(TEXT, b"x")
            assert client.frame() == (0x81, b"x")  # so the pong was read too


def test_a_silent_peer_is_closed_with_1011_after_the_next_interval(server: RunningServer, timer: HandTimer) -> None:
    with RawClient(server.port, "/echo") as client:
        wait_until(lambda: bool(timer.entries), "the connection's place in the keepalive")
        timer.advance(30)
        timer.advance(30)
        assert client.frame() == (PING, b"")
        assert client.close_code() == 1011
        assert client.at_eof()
    wait_until(lambda: ("echo", 1011) in server.hub.closes, "on_close")
    assert timer.entries == []


def test_one_silent_peer_does_not_disturb_another(server: RunningServer, timer: HandTimer) -> None:
    with RawClient(server.port, "/echo") as silent, RawClient(server.port, "/echo") as talking:
        wait_until(lambda: server.hub.seen["echo open"] == 2, "both connections")
        timer.advance(30)
        talking.send(PONG)
        talking.send(TEXT, b"x")
        assert talking.frame() == (PING, b"")
        assert talking.frame() == (0x81, b"x")
        timer.advance(30)
        assert silent.close_code() == 1011
        assert talking.frame() == (PING, b"")
        talking.send(TEXT, b"still here")
        assert talking.frame() == (0x81, b"still here")


def test_peer_whose_reading_is_paused_does_not_count_as_silent(server: RunningServer, timer: HandTimer) -> None:
    with RawClient(server.port, "/valve") as client:
        client.send(TEXT, b"stop")
        assert client.frame() == (0x81, b"seen")
        for _ in range(4):
            timer.advance(30)
            assert client.frame() == (PING, b"")
