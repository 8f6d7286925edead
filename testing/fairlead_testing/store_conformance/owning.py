"""The part of the suite about ownership of logs, and forks."""

import asyncio

from fairlead.model.errors import Conflict, Fenced, NotFound, OwnedElsewhere
from fairlead.model.store import ForkPoint, Lease
from fairlead_testing.store_conformance.helping import (
    Stores,
    assert_chained,
    batch,
    new_session,
    read_all,
    refusal,
    seqs,
)


class Owning:
    # --- ownership

    async def test_one_of_many_claimers_wins(self, make_store: Stores) -> None:
        stores, session = [await make_store(name) for name in "abcd"], new_session()
        outcomes = await asyncio.gather(*(store.claim(session) for store in stores), return_exceptions=True)
        winners = [outcome[0] for outcome in outcomes if isinstance(outcome, tuple)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, OwnedElsewhere)]
        assert (len(winners), len(losers)) == (1, 3)
        assert {loser.data["node"] for loser in losers} == {winners[0].node}
        assert await stores["abcd".index(winners[0].node)].append(winners[0], batch(1), 0) == 1

    async def test_the_same_node_claims_again_with_a_later_epoch(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        head = await store.append(lease, batch(1), head)
        newer, same, now = await store.claim(session)
        assert newer.epoch > lease.epoch
        assert (same, now) == (log_id, 1)
        await refusal(Fenced, store.append(lease, batch(2), head))
        await refusal(Fenced, store.append(lease, batch(), head))
        assert await store.append(newer, batch(2), head) == 2

    async def test_a_dead_node_is_followed_and_fenced(self, make_store: Stores) -> None:
        dead, heir, session = await make_store("a"), await make_store("b"), new_session()
        lease, log_id, head = await dead.claim(session)
        head = await dead.append(lease, batch(1, 2), head)
        assert (await refusal(OwnedElsewhere, heir.claim(session))).data["node"] == "a"
        await make_store.expire("a")
        newer, same, now = await heir.claim(session)
        assert newer.epoch > lease.epoch
        assert newer.node == "b"
        assert (same, now) == (log_id, 2)
        await refusal(Fenced, dead.append(lease, batch(3), head))
        assert await heir.append(newer, batch(3), now) == 3
        assert seqs(await read_all(heir, session)) == [1, 2, 3]

    async def test_a_live_node_keeps_its_logs(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        await store.claim(session)
        await make_store.expire("b")
        await refusal(OwnedElsewhere, other.claim(session))

    async def test_a_released_log_is_free_at_once(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await store.claim(session)
        await store.release(lease)
        await store.release(lease)
        await refusal(Fenced, store.append(lease, batch(1), head))
        newer, _, head = await other.claim(session)
        assert newer.epoch > lease.epoch
        await store.release(lease)
        assert await other.append(newer, batch(1), head) == 1

    async def test_a_made_up_lease_owns_nothing(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        await refusal(Fenced, store.append(Lease(session, "a", 1), batch(1), 0))
        lease, _, head = await store.claim(session)
        await refusal(Fenced, store.append(Lease(session, "b", lease.epoch), batch(1), head))
        await refusal(Fenced, store.append(Lease(session, "a", lease.epoch + 1), batch(1), head))

    async def test_the_sessions_of_a_node_are_those_it_owns_now(self, make_store: Stores) -> None:
        store, kept, freed, gone = await make_store("a"), new_session(), new_session(), new_session()
        assert store.node == "a"
        await store.claim(kept)
        lease, _, _ = await store.claim(freed)
        await store.claim(gone)
        assert await store.owned_by("a") == [kept, freed, gone]
        await store.release(lease)
        await store.erase(gone)
        assert await store.owned_by("a") == [kept]
        assert await store.owned_by("b") == []

    async def test_who_has_caught_up_reads_what_was_acknowledged(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await store.claim(session)
        head = await store.append(lease, batch(1, 2), head)
        await other.caught_up(session, head)
        assert seqs(await read_all(other, session)) == [1, 2]
        await store.append(lease, batch(3), head)
        await other.caught_up(session)
        assert seqs(await read_all(other, session)) == [1, 2, 3]
        await other.caught_up(new_session())

    # --- forks

    async def test_a_fork_begins_with_its_parents_entries(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, log_id, head = await store.claim(parent)
        head = await store.append(lease, batch(1, 2, 3, 4, 5), head)
        forked, own_id, start = await store.claim(fork, ForkPoint(parent, 3))
        assert start == 3
        assert own_id != log_id
        assert seqs(await read_all(store, fork)) == [1, 2, 3]
        assert await store.append(forked, batch(4, 6), 3) == 6
        await store.append(lease, batch(6, 7), head)
        entries = await read_all(store, fork, limit=2)
        assert seqs(entries) == [1, 2, 3, 4, 6]
        assert_chained(entries)
        assert seqs(await read_all(store, parent)) == [1, 2, 3, 4, 5, 6, 7]
        tail = await store.tail(fork, None, 4)
        assert seqs(tail) == [2, 3, 4, 6]
        assert_chained(tail.entries, 1)
        assert seqs(await store.tail(fork, 4, 2)) == [2, 3]

    async def test_a_fork_of_a_fork_begins_in_either(self, make_store: Stores) -> None:
        store, first = await make_store(), new_session()
        lease, _, head = await store.claim(first)
        await store.append(lease, batch(1, 2, 3), head)
        second, third, fourth, empty = (new_session() for _ in range(4))
        lease, _, head = await store.claim(second, ForkPoint(first, 2))
        await store.append(lease, batch(5, 6), head)
        lease, _, head = await store.claim(third, ForkPoint(second, 5))
        assert head == 5
        await store.append(lease, batch(8), head)
        _, _, head = await store.claim(fourth, ForkPoint(third, 1))
        assert head == 1
        _, _, head = await store.claim(empty, ForkPoint(third, 0))
        assert head == 0
        assert seqs(await read_all(store, third)) == [1, 2, 5, 8]
        assert_chained(await read_all(store, third, limit=1))
        assert seqs(await store.tail(third, None, 3)) == [2, 5, 8]
        assert seqs(await read_all(store, fourth)) == [1]
        assert await read_all(store, empty) == []

    async def test_a_fork_needs_a_place_in_its_parent(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        await refusal(NotFound, store.claim(fork, ForkPoint(parent, 0)))
        lease, _, head = await store.claim(parent)
        await store.append(lease, batch(1), head)
        await refusal(Conflict, store.claim(fork, ForkPoint(parent, 2)))
        await refusal(NotFound, store.read(fork, 0, 1))

    async def test_claiming_a_fork_again_changes_nothing_of_it(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        await store.append(lease, batch(1, 2), head)
        _, log_id, _ = await store.claim(fork, ForkPoint(parent, 1))
        _, same, head = await store.claim(fork, ForkPoint(parent, 2))
        assert (same, head) == (log_id, 1)

    async def test_what_a_fork_shows_stays_when_its_parent_drops_or_goes(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        head = await store.append(lease, batch(1, 2, 3, 4), head)
        await store.claim(fork, ForkPoint(parent, 3))
        await store.append(lease, batch(5, drop=(2, 3, 4)), head)
        assert seqs(await read_all(store, fork)) == [1, 2, 3]
        await store.erase(parent)
        await refusal(NotFound, store.read(parent, 0, 10))
        assert seqs(await read_all(store, fork)) == [1, 2, 3]
        assert_chained(await read_all(store, fork))
        nested, _, _ = await store.claim(new_session(), ForkPoint(fork, 2))
        await store.erase(fork)
        assert seqs(await read_all(store, nested.session)) == [1, 2]
        await store.erase(nested.session)
        await refusal(NotFound, store.read(nested.session, 0, 10))
