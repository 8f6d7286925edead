"""Credentials on several nodes: what one node revokes, removes or spends is void on all of them at once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from auth.fakes import FakeTokenBytes
from cell import Cell
from fairlead.auth.accounts import credential_of
from fairlead.auth.credentials import SPACE, Credentials
from fairlead.model.errors import NotFound
from fairlead.system.clock import SystemClock
from fairlead_testing.clock import ManualClock

KEY = b"k" * 64


@pytest.fixture
async def cell(tmp_path: Path) -> AsyncIterator[Cell]:
    made = Cell(tmp_path)
    for node in ("here", "there"):
        await made.open(node)
    yield made
    for store in made.stores.values():
        await store.close()


async def credentials_of(cell: Cell, node: str, clock: ManualClock | SystemClock | None = None) -> Credentials:
    made = Credentials(
        cell.stores[node].documents,
        clock or ManualClock(),
        FakeTokenBytes(),
        key=lambda: KEY,
        url_key=lambda: KEY,
        ticket_key=lambda: KEY,
    )
    await made.load()
    return made


async def test_a_revocation_closes_the_sockets_on_every_node(cell: Cell) -> None:
    here, there = await credentials_of(cell, "here"), await credentials_of(cell, "there")
    made = await here.create("token", "a", ("view",))
    who = there.bearer(made.secret)
    assert who is not None, "a new credential is known everywhere"
    closed: list[int] = []
    there.attach(who, lambda: closed.append(1))
    await here.revoke("token", made.credential.id)
    assert closed == [1]
    assert there.bearer(made.secret) is None
    assert there.identity(made.credential.id) is None


async def test_a_time_of_last_use_never_undoes_a_revocation(cell: Cell) -> None:
    here, there = await credentials_of(cell, "here"), await credentials_of(cell, "there")
    made = await here.create("token", "a", ("view",))
    there.bearer(made.secret)
    for stop in there._hearing:
        stop()
    await here.revoke("token", made.credential.id)
    assert there.bearer(made.secret) is not None, "it has not heard of it"
    await there.flush()
    assert here.bearer(made.secret) is None
    assert (await credentials_of(cell, "here")).bearer(made.secret) is None


async def test_what_is_revoked_here_stays_revoked_whatever_is_heard(cell: Cell) -> None:
    """The put of the revocation failed, and another node repeats what it still has."""
    here = await credentials_of(cell, "here")
    made = await here.create("token", "a", ("view",))
    before = await cell.stores["here"].documents.get(SPACE, made.credential.id)
    await here.revoke("token", made.credential.id)
    await cell.stores["there"].documents.put(SPACE, made.credential.id, before)
    assert here.bearer(made.secret) is None


async def test_a_new_password_and_a_removed_user_end_the_sockets_on_every_node(cell: Cell) -> None:
    here, there = await credentials_of(cell, "here"), await credentials_of(cell, "there")
    user = await here.accounts.add("ann", "a long password", ("view",))
    token = here.accounts.token(user).token
    closed: list[str] = []
    there.attach(there.accounts.identity_of(user), lambda: closed.append("password"))
    assert there.account(token) is not None
    await here.accounts.set_password("ann", "another password")
    assert closed == ["password"]
    assert there.account(token) is None
    again = there.users.get("ann")
    assert again is not None
    there.attach(there.accounts.identity_of(again), lambda: closed.append("removed"))
    await here.remove_user("ann")
    assert closed == ["password", "removed"]
    assert there.identity(credential_of(again)) is None
    with pytest.raises(NotFound):
        there.users.check("ann")


async def test_a_ticket_is_spent_on_one_of_the_nodes(cell: Cell) -> None:
    clock = SystemClock()
    here, there = await credentials_of(cell, "here", clock), await credentials_of(cell, "there", clock)
    made = await here.create("token", "a", ("view",))
    ticket = here.tickets.issue(made.credential.id).ticket
    assert here.ticket(ticket) == there.ticket(ticket) == here.identity(made.credential.id)
    assert here.tickets.redeem(ticket)
    assert there.tickets.redeem(ticket), "both nodes admit it at the same time"
    assert [await here.tickets.spend(ticket), await there.tickets.spend(ticket)] == [True, False]
