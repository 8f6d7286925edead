"""Who is alive: only a node that hears itself judges another."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead.stores.nats.lease import Leases, LeaseTimes

TIMES = LeaseTimes()


def leases(now: float = 0.0) -> Leases:
    return Leases("a", TIMES, now)


def hear(found: Leases, nodes: str, start: int, end: int) -> None:
    """Renewals of these nodes, every five seconds."""
    for now in range(start, end, 5):
        for node in nodes:
            found.heard(node, now)


def test_a_node_is_dead_that_was_not_heard_for_the_whole_lease() -> None:
    found = leases()
    hear(found, "ab", 0, 11)
    hear(found, "a", 15, 60)
    assert found.lives("b", 40)
    assert not found.lives("b", 41)
    found.heard("b", 42)
    assert found.lives("b", 42)


def test_a_node_that_hears_nothing_judges_nobody() -> None:
    found = leases()
    hear(found, "ab", 0, 11)
    assert found.lives("b", 1000)


def test_after_silence_the_time_of_the_others_begins_anew() -> None:
    found = leases()
    hear(found, "ab", 0, 11)
    hear(found, "a", 60, 200)
    assert found.lives("b", 60)
    assert found.lives("b", 89)
    assert not found.lives("b", 91)


def test_who_said_goodbye_is_dead_at_once_and_the_own_node_never() -> None:
    found = leases()
    found.heard("b", 1)
    found.gone("b")
    assert not found.lives("b", 1)
    assert not found.lives("never heard", 1)
    assert found.lives("a", 10_000)


def test_the_own_lease_counts_from_the_sending_of_an_acknowledged_renewal() -> None:
    found = leases()
    assert not found.suspended(20)
    assert found.suspended(20.1)
    found.renewed(15)
    found.renewed(10)
    assert not found.suspended(35)
    assert found.suspended(35.1)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 20)), max_size=60), st.floats(0, 60))
def test_a_node_is_never_dead_before_its_own_lease_has_ended(steps: list[tuple[str, float]], wait: float) -> None:
    """Whatever is heard when: a successor takes over only after the other node has stopped to believe, though its
    renewals travel in no time and are acknowledged late."""
    judge, other = leases(), Leases("b", TIMES, 0)
    now = 0.0
    judge.heard("b", 0)
    for node, pause in steps:
        now += pause
        judge.heard(node, now)
        if node == "b":
            other.renewed(now)
        if not judge.lives("b", now + wait):
            assert other.suspended(now + wait)
