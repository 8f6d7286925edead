"""A ticket opens one socket within seconds. It is signed: who has the key checks it, and nobody else makes one."""

import pytest

from auth.fakes import FakeTokenBytes
from fairlead.auth.tickets import LIFETIME_MS, SKEW_MS, Tickets
from fairlead_testing.clock import ManualClock


class Holders(dict[str, str]):
    """The credentials that are valid, with the hashes of their secrets."""


def make(key: bytes = b"k" * 32) -> tuple[Tickets, ManualClock, Holders]:
    clock, holders = ManualClock(), Holders(a="secret of a", b="secret of b")
    return Tickets(clock, FakeTokenBytes(), lambda: key, holders.get), clock, holders


def test_ticket_is_redeemed_once() -> None:
    tickets, _, _ = make()
    ticket = tickets.issue("a").ticket
    assert tickets.owner(ticket) == "a"
    assert tickets.owner(ticket) == "a"
    assert tickets.redeem(ticket)
    assert not tickets.redeem(ticket)
    assert tickets.owner(ticket) is None


async def test_ticket_expires_after_30_seconds() -> None:
    tickets, clock, _ = make()
    issued = tickets.issue("a")
    assert issued.expires == clock.now_ms() + 30_000
    await clock.advance(29.9)
    assert tickets.owner(issued.ticket) == "a"
    await clock.advance(0.1)
    assert tickets.owner(issued.ticket) is None
    assert not tickets.redeem(issued.ticket)


@pytest.mark.parametrize("ticket", ["", "guess", "....", "a" * 26 + ".9.a." + "0" * 64])
def test_unknown_ticket_has_no_owner(ticket: str) -> None:
    tickets, _, _ = make()
    tickets.issue("a")
    assert tickets.owner(ticket) is None
    assert not tickets.redeem(ticket)


def test_no_part_of_a_ticket_can_be_changed() -> None:
    tickets, _, _ = make()
    name, expires, credential, mac = tickets.issue("a").ticket.split(".")
    changed = (
        ("a" * 26, expires, credential, mac),
        (name, str(int(expires) + 1), credential, mac),
        (name, expires, "b", mac),
        (name, expires, credential, mac[::-1]),
        (name, expires, credential, mac + "0"),
    )
    assert [tickets.owner(".".join(parts)) for parts in changed] == [None] * 5
    assert tickets.owner(f"{name}.{expires}.{credential}.{mac}") == "a"


def test_a_gateway_with_the_same_key_accepts_a_ticket_and_others_do_not() -> None:
    ticket = make()[0].issue("a").ticket
    assert make()[0].owner(ticket) == "a"
    assert make(b"x" * 32)[0].owner(ticket) is None


async def test_the_clocks_of_two_gateways_may_differ_by_seconds_and_no_more() -> None:
    """A ticket that is valid for longer than any is issued for is refused, even if its signature is right."""
    ahead, clock, _ = make()
    here, _, _ = make()
    await clock.advance(SKEW_MS / 1000)
    assert here.owner(ahead.issue("a").ticket) == "a"
    await clock.advance(0.001)
    assert here.owner(ahead.issue("a").ticket) is None


def test_revoking_a_credential_or_changing_its_secret_invalidates_its_tickets() -> None:
    tickets, _, holders = make()
    one, two = tickets.issue("a").ticket, tickets.issue("b").ticket
    holders["b"] = "another secret"
    del holders["a"]
    assert tickets.owner(one) is None
    assert tickets.owner(two) is None
    assert not tickets.redeem(two)


async def test_spent_tickets_are_forgotten_when_they_could_not_be_used_any_more() -> None:
    tickets, clock, _ = make()
    for _ in range(100):
        tickets.redeem(tickets.issue("a").ticket)
    assert len(tickets._spent) == 100
    await clock.advance((LIFETIME_MS + SKEW_MS) / 1000)
    tickets.redeem(tickets.issue("b").ticket)
    assert len(tickets._spent) == 1
