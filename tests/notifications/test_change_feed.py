"""The feed: order, one encoding for all, peers that lag or were away, and the removal of peers that have left."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.clients.cognova.notifications import NotificationCodec
from fairlead.model.ids import SessionId
from fairlead.notifications.api.feed import Change, FeedEntry, FeedNotice, read_cursor
from fairlead_testing.notifications_client import NotificationsClient
from notifications.harness import NotificationsHarness, Socket, open_harness
from patience import PATIENCE

SESSION = SessionId("11111111-2222-3333-4444-555555555555")


def task(name: str) -> Change:
    return Change(resource="task", action="create", id=name, name=name)


def turn() -> FeedNotice:
    return FeedNotice(topic="turn", kind="turn.completed", session=SESSION, title="Turn finished", message="m")


def names(socket: Socket) -> list[str]:
    return [one["resourceName"] for one in socket.frames if one["type"] == "resource_change"]


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0)


def folded(client: NotificationsClient, socket: Socket) -> None:
    for frame in socket.frames:
        client.receive(frame)
    client.closed()


class CountingCodec(NotificationCodec):
    def __init__(self) -> None:
        self.encoded = 0

    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        self.encoded += 1
        return super().entry(entry, cursor)


@pytest.mark.rules("S002-084", "S002-128", "S002-132")
async def test_a_silent_peer_receives_every_change_after_connected(harness: NotificationsHarness) -> None:
    sockets = [harness.peer()[1] for _ in range(3)]
    await harness.service.feed.write(task("a"))
    for socket in sockets:
        assert socket.kinds() == ["connected", "resource_change"]
        assert names(socket) == ["a"]


async def test_one_change_for_a_thousand_peers_is_encoded_once(harness: NotificationsHarness) -> None:
    codec = CountingCodec()
    sockets = [harness.peer(codec)[1] for _ in range(1000)]
    await harness.service.feed.write(task("a"))
    assert codec.encoded == 1
    assert all(names(socket) == ["a"] for socket in sockets)


@pytest.mark.rules("S002-129")
async def test_changes_come_in_the_order_in_which_they_happened(harness: NotificationsHarness) -> None:
    _, socket = harness.peer()
    await asyncio.gather(*(harness.service.feed.write(task(str(number))) for number in range(50)))
    page = await harness.service.feed.read(0, 100)
    assert names(socket) == [entry.item.name for entry in page.entries if isinstance(entry.item, Change)]
    assert [entry.seq for entry in page.entries] == list(range(1, 51))


@pytest.mark.rules("S002-130", "S002-131")
async def test_a_peer_that_has_left_is_removed(harness: NotificationsHarness) -> None:
    for _ in range(1000):
        peer, _ = harness.peer()
        peer.detached(1006, "")
    assert harness.service.feed.subscribers == set()
    await harness.service.feed.write(task("a"))


async def test_notices_go_to_peers_subscribed_to_their_topic(harness: NotificationsHarness) -> None:
    (asking, asked), (other, elsewhere), (_, silent) = harness.peer(), harness.peer(), harness.peer()
    harness.say(asking, type="subscribe", topics=["turn"])
    harness.say(other, type="subscribe", topics=["permission"])
    await until(lambda: len(asked.frames) == 2 and len(elsewhere.frames) == 2)
    await harness.service.feed.write(turn(), task("a"))
    assert asked.kinds() == ["connected", "subscribed", "notice", "resource_change"]
    assert elsewhere.kinds() == ["connected", "subscribed", "resource_change"]
    assert silent.kinds() == ["connected", "resource_change"]
    assert [read_cursor(one["cursor"])[1] for one in asked.frames[1:]] == [0, 1, 2]  # type: ignore[index]  # all are
    assert "cursor" not in silent.frames[1]


async def test_a_returning_peer_receives_missed_items_and_then_new_ones(harness: NotificationsHarness) -> None:
    first, socket = harness.peer()
    harness.say(first, type="subscribe", topics=["turn"])
    await until(lambda: "subscribed" in socket.kinds())
    await harness.service.feed.write(task("a"))
    cursor = socket.frames[-1]["cursor"]
    first.detached(1000, "")
    await harness.service.feed.write(task("b"), turn(), task("c"))
    again, back = harness.peer()
    harness.say(again, type="subscribe", topics=["turn"], cursor=cursor)
    await harness.service.feed.write(task("d"))
    await until(lambda: names(back)[-1:] == ["d"])
    assert back.kinds() == ["connected", "subscribed", "resource_change", "notice", *["resource_change"] * 2]
    assert (back.frames[1]["verdict"], back.frames[1]["cursor"]) == ("ok", cursor)
    assert names(back) == ["b", "c", "d"]


@pytest.mark.parametrize("cursor", ["0000000000000000:1", "{feed}:99", "{feed}:0"])
async def test_an_invalid_or_dropped_cursor_is_a_gap(
    harness: NotificationsHarness, cursor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.stores.sqlite.resources.FEED_KEPT", 3)
    for number in range(6):
        # So few are stored here that the first ones are gone.
        await harness.store.resources.write(1, items=[task(str(number))])
    await harness.service.begin()
    peer, socket = harness.peer()
    harness.say(peer, type="subscribe", topics=[], cursor=cursor.format(feed=harness.service.feed.id))
    await until(lambda: len(socket.frames) == 2)
    assert socket.frames[1]["verdict"] == "gap"
    await harness.service.feed.write(task("new"))
    assert names(socket) == ["new"]


async def test_a_peer_that_does_not_read_is_skipped_and_catches_up_later(harness: NotificationsHarness) -> None:
    (slow, stuck), (_, quick) = harness.peer(), harness.peer()
    await harness.service.feed.write(task("a"))
    stuck.stuck = 1 << 20
    for name in "bcd":
        await harness.service.feed.write(task(name))
    assert (names(stuck), names(quick)) == (["a"], ["a", "b", "c", "d"])
    stuck.stuck = 0
    slow.drained()
    await harness.service.feed.write(task("e"))
    await until(lambda: names(stuck)[-1:] == ["e"])
    assert names(stuck) == ["a", "b", "c", "d", "e"]


async def test_a_peer_further_behind_than_the_stored_feed_must_reconnect(
    harness: NotificationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.stores.sqlite.resources.FEED_KEPT", 3)
    slow, stuck = harness.peer()
    stuck.stuck = 1 << 20
    await harness.service.feed.write(task("a"))
    for number in range(6):
        await harness.store.resources.write(1, items=[task(str(number))])
    await harness.service.begin()
    stuck.stuck = 0
    slow.drained()
    await until(lambda: stuck.closed)
    assert stuck.closed is not None and stuck.closed[0] == 1013


async def test_reading_from_a_peer_pauses_while_it_does_not_take_answers(harness: NotificationsHarness) -> None:
    peer, socket = harness.peer()
    socket.stuck = 1 << 20
    harness.say(peer, type="ping")
    assert socket.paused
    socket.stuck = 0
    peer.drained()
    assert not socket.paused


async def test_subscriptions_are_handled_one_at_a_time(harness: NotificationsHarness) -> None:
    """Each may read the store: a client that sends many waits for its answers."""
    await harness.service.feed.write(task("a"))
    peer, socket = harness.peer()
    harness.say(peer, type="subscribe", topics=[], cursor=f"{harness.service.feed.id}:0")
    assert socket.paused
    await until(lambda: names(socket) == ["a"])
    assert not socket.paused


async def test_an_unpublished_stored_item_is_sent_with_the_next(harness: NotificationsHarness) -> None:
    """Covers a request that was cut off between the store and the peers."""
    _, socket = harness.peer()
    await harness.store.resources.write(1, items=[task("a")])
    await harness.service.feed.write(task("b"))
    await until(lambda: len(names(socket)) == 2)
    assert names(socket) == ["a", "b"]


@settings(max_examples=15, deadline=None)
@given(before=st.integers(0, 4), missed=st.integers(0, 5), later=st.integers(0, 3))
def test_a_cut_and_a_resume_give_the_same_as_staying(
    tmp_path_factory: pytest.TempPathFactory, before: int, missed: int, later: int
) -> None:
    async def scenario() -> None:
        async with open_harness(tmp_path_factory.mktemp("law")) as harness:
            whole, client = NotificationsClient(), NotificationsClient()
            staying, all_of_it = harness.peer()
            leaving, first = harness.peer()
            harness.say(staying, **whole.subscribe("turn"))
            harness.say(leaving, **client.subscribe("turn"))
            await until(lambda: "subscribed" in first.kinds() and "subscribed" in all_of_it.kinds())
            for number in range(before):
                await harness.service.feed.write(task(f"before {number}"), turn())
            leaving.detached(1006, "")
            folded(client, first)
            for number in range(missed):
                await harness.service.feed.write(task(f"missed {number}"), turn())
            again, second = harness.peer()
            harness.say(again, **client.subscribe("turn"))
            for number in range(later):
                await harness.service.feed.write(task(f"later {number}"), turn())
            await until(lambda: len(second.frames) == 2 + 2 * (missed + later))
            folded(client, second)
            folded(whole, all_of_it)
            assert (client.changes, client.notices) == (whole.changes, whole.notices)
            assert (client.cursor, client.stale) == (whole.cursor, False)

    asyncio.run(scenario())


async def test_cursors_stay_valid_after_a_restart(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.service.feed.write(task("a"))
        cursor = f"{harness.service.feed.id}:0"
    async with open_harness(tmp_path) as harness:
        peer, socket = harness.peer()
        harness.say(peer, type="subscribe", topics=[], cursor=cursor)
        await until(lambda: names(socket) == ["a"])
