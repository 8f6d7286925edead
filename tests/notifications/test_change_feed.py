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
from notifications.harness import NotificationsHarness, Socket, rigged
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
async def test_a_silent_peer_receives_every_change_after_connected(rig: NotificationsHarness) -> None:
    sockets = [rig.peer()[1] for _ in range(3)]
    await rig.room.feed.write(task("a"))
    for socket in sockets:
        assert socket.kinds() == ["connected", "resource_change"]
        assert names(socket) == ["a"]


async def test_one_change_for_a_thousand_peers_is_encoded_once(rig: NotificationsHarness) -> None:
    codec = CountingCodec()
    sockets = [rig.peer(codec)[1] for _ in range(1000)]
    await rig.room.feed.write(task("a"))
    assert codec.encoded == 1
    assert all(names(socket) == ["a"] for socket in sockets)


@pytest.mark.rules("S002-129")
async def test_changes_come_in_the_order_in_which_they_happened(rig: NotificationsHarness) -> None:
    _, socket = rig.peer()
    await asyncio.gather(*(rig.room.feed.write(task(str(number))) for number in range(50)))
    page = await rig.room.feed.read(0, 100)
    assert names(socket) == [entry.item.name for entry in page.entries if isinstance(entry.item, Change)]
    assert [entry.seq for entry in page.entries] == list(range(1, 51))


@pytest.mark.rules("S002-130", "S002-131")
async def test_a_peer_that_has_left_is_removed(rig: NotificationsHarness) -> None:
    for _ in range(1000):
        peer, _ = rig.peer()
        peer.detached(1006)
    assert rig.room.feed.subscribers == set()
    await rig.room.feed.write(task("a"))


async def test_notices_go_to_peers_subscribed_to_their_topic(rig: NotificationsHarness) -> None:
    (asking, asked), (other, elsewhere), (_, silent) = rig.peer(), rig.peer(), rig.peer()
    rig.say(asking, type="subscribe", topics=["turn"])
    rig.say(other, type="subscribe", topics=["permission"])
    await until(lambda: len(asked.frames) == 2 and len(elsewhere.frames) == 2)
    await rig.room.feed.write(turn(), task("a"))
    assert asked.kinds() == ["connected", "subscribed", "notice", "resource_change"]
    assert elsewhere.kinds() == ["connected", "subscribed", "resource_change"]
    assert silent.kinds() == ["connected", "resource_change"]
    assert [read_cursor(one["cursor"])[1] for one in asked.frames[1:]] == [0, 1, 2]  # type: ignore[index]  # all are
    assert "cursor" not in silent.frames[1]


async def test_a_returning_peer_receives_missed_items_and_then_new_ones(rig: NotificationsHarness) -> None:
    first, socket = rig.peer()
    rig.say(first, type="subscribe", topics=["turn"])
    await until(lambda: "subscribed" in socket.kinds())
    await rig.room.feed.write(task("a"))
    cursor = socket.frames[-1]["cursor"]
    first.detached(1000)
    await rig.room.feed.write(task("b"), turn(), task("c"))
    again, back = rig.peer()
    rig.say(again, type="subscribe", topics=["turn"], cursor=cursor)
    await rig.room.feed.write(task("d"))
    await until(lambda: names(back)[-1:] == ["d"])
    assert back.kinds() == ["connected", "subscribed", "resource_change", "notice", *["resource_change"] * 2]
    assert (back.frames[1]["verdict"], back.frames[1]["cursor"]) == ("ok", cursor)
    assert names(back) == ["b", "c", "d"]


@pytest.mark.parametrize("cursor", ["0000000000000000:1", "{feed}:99", "{feed}:0"])
async def test_an_invalid_or_dropped_cursor_is_a_gap(
    rig: NotificationsHarness, cursor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.stores.sqlite.resources.FEED_KEPT", 3)
    for number in range(6):
        # So few are stored here that the first ones are gone.
        await rig.store.resources.write(1, items=[task(str(number))])
    await rig.room.begin()
    peer, socket = rig.peer()
    rig.say(peer, type="subscribe", topics=[], cursor=cursor.format(feed=rig.room.feed.id))
    await until(lambda: len(socket.frames) == 2)
    assert socket.frames[1]["verdict"] == "gap"
    await rig.room.feed.write(task("new"))
    assert names(socket) == ["new"]


async def test_a_peer_that_does_not_read_is_skipped_and_catches_up_later(rig: NotificationsHarness) -> None:
    (slow, stuck), (_, quick) = rig.peer(), rig.peer()
    await rig.room.feed.write(task("a"))
    stuck.stuck = 1 << 20
    for name in "bcd":
        await rig.room.feed.write(task(name))
    assert (names(stuck), names(quick)) == (["a"], ["a", "b", "c", "d"])
    stuck.stuck = 0
    slow.drained()
    await rig.room.feed.write(task("e"))
    await until(lambda: names(stuck)[-1:] == ["e"])
    assert names(stuck) == ["a", "b", "c", "d", "e"]


async def test_a_peer_further_behind_than_the_stored_feed_must_reconnect(
    rig: NotificationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.stores.sqlite.resources.FEED_KEPT", 3)
    slow, stuck = rig.peer()
    stuck.stuck = 1 << 20
    await rig.room.feed.write(task("a"))
    for number in range(6):
        await rig.store.resources.write(1, items=[task(str(number))])
    await rig.room.begin()
    stuck.stuck = 0
    slow.drained()
    await until(lambda: stuck.closed)
    assert stuck.closed is not None and stuck.closed[0] == 1013


async def test_reading_from_a_peer_pauses_while_it_does_not_take_answers(rig: NotificationsHarness) -> None:
    peer, socket = rig.peer()
    socket.stuck = 1 << 20
    rig.say(peer, type="ping")
    assert socket.paused
    socket.stuck = 0
    peer.drained()
    assert not socket.paused


async def test_subscriptions_are_handled_one_at_a_time(rig: NotificationsHarness) -> None:
    """Each may read the store: a client that sends many waits for its answers."""
    await rig.room.feed.write(task("a"))
    peer, socket = rig.peer()
    rig.say(peer, type="subscribe", topics=[], cursor=f"{rig.room.feed.id}:0")
    assert socket.paused
    await until(lambda: names(socket) == ["a"])
    assert not socket.paused


async def test_an_unpublished_stored_item_is_sent_with_the_next(rig: NotificationsHarness) -> None:
    """Covers a request that was cut off between the store and the peers."""
    _, socket = rig.peer()
    await rig.store.resources.write(1, items=[task("a")])
    await rig.room.feed.write(task("b"))
    await until(lambda: len(names(socket)) == 2)
    assert names(socket) == ["a", "b"]


@settings(max_examples=15, deadline=None)
@given(before=st.integers(0, 4), missed=st.integers(0, 5), later=st.integers(0, 3))
def test_a_cut_and_a_resume_give_the_same_as_staying(
    tmp_path_factory: pytest.TempPathFactory, before: int, missed: int, later: int
) -> None:
    async def scenario() -> None:
        async with rigged(tmp_path_factory.mktemp("law")) as rig:
            whole, client = NotificationsClient(), NotificationsClient()
            staying, all_of_it = rig.peer()
            leaving, first = rig.peer()
            rig.say(staying, **whole.subscribe("turn"))
            rig.say(leaving, **client.subscribe("turn"))
            await until(lambda: "subscribed" in first.kinds() and "subscribed" in all_of_it.kinds())
            for number in range(before):
                await rig.room.feed.write(task(f"before {number}"), turn())
            leaving.detached(1006)
            folded(client, first)
            for number in range(missed):
                await rig.room.feed.write(task(f"missed {number}"), turn())
            again, second = rig.peer()
            rig.say(again, **client.subscribe("turn"))
            for number in range(later):
                await rig.room.feed.write(task(f"later {number}"), turn())
            await until(lambda: len(second.frames) == 2 + 2 * (missed + later))
            folded(client, second)
            folded(whole, all_of_it)
            assert (client.changes, client.notices) == (whole.changes, whole.notices)
            assert (client.cursor, client.stale) == (whole.cursor, False)

    asyncio.run(scenario())


async def test_cursors_stay_valid_after_a_restart(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.room.feed.write(task("a"))
        cursor = f"{rig.room.feed.id}:0"
    async with rigged(tmp_path) as rig:
        peer, socket = rig.peer()
        rig.say(peer, type="subscribe", topics=[], cursor=cursor)
        await until(lambda: names(socket) == ["a"])
