"""A ticket opens one socket within seconds, and the tickets of one client do not push out those of another."""

from auth.fakes import FakeTokenBytes
from fairlead.auth.tickets import IN_ALL, PER_CREDENTIAL, Tickets
from fairlead_testing.clock import ManualClock


def make() -> tuple[Tickets, ManualClock]:
    clock = ManualClock()
    return Tickets(clock, FakeTokenBytes()), clock


def test_ticket_is_redeemed_once() -> None:
    tickets, _ = make()
    ticket = tickets.issue("a").ticket
    assert tickets.owner(ticket) == "a"
    assert tickets.owner(ticket) == "a"
    assert tickets.redeem(ticket)
    assert not tickets.redeem(ticket)
    assert tickets.owner(ticket) is None


async def test_ticket_expires_after_30_seconds() -> None:
    tickets, clock = make()
    issued = tickets.issue("a")
    assert issued.expires == clock.now_ms() + 30_000
    await clock.advance(29.9)
    assert tickets.owner(issued.ticket) == "a"
    await clock.advance(0.1)
    assert tickets.owner(issued.ticket) is None
    assert not tickets.redeem(issued.ticket)


def test_unknown_ticket_has_no_owner() -> None:
    tickets, _ = make()
    tickets.issue("a")
    assert tickets.owner("") is None
    assert not tickets.redeem("guess")


def test_one_credential_cannot_push_out_anothers_tickets() -> None:
    tickets, _ = make()
    mine = tickets.issue("a").ticket
    theirs = [tickets.issue("b").ticket for _ in range(IN_ALL * 2)]
    assert tickets.owner(mine) == "a"
    assert len(tickets._open) == 1 + PER_CREDENTIAL
    assert tickets.owner(theirs[-1]) == "b"
    assert tickets.owner(theirs[0]) is None


async def test_number_of_tickets_is_bounded_and_expired_ones_are_dropped() -> None:
    tickets, clock = make()
    for number in range(IN_ALL + 10):
        tickets.issue(f"c{number}")
    assert len(tickets._open) == IN_ALL
    await clock.advance(30)
    tickets.issue("x")
    assert len(tickets._open) == 1


def test_revoking_a_credential_drops_its_tickets() -> None:
    tickets, _ = make()
    one, two = tickets.issue("a").ticket, tickets.issue("b").ticket
    tickets.drop("a")
    assert tickets.owner(one) is None
    assert tickets.owner(two) == "b"
