"""Users are unique names."""

import pytest

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.auth.users import Users
from fairlead.model.errors import BadRequest, NotFound, Stale
from fairlead_testing.clock import ManualClock


def make() -> Users:
    return Users(MemoryDocuments(), ManualClock(), FakeTokenBytes())


async def test_users_are_added_once_and_listed_by_name() -> None:
    users = make()
    await users.add("zoe")
    await users.add("ann")
    with pytest.raises(Stale):
        await users.add("ann")
    assert [user.name for user in users.list()] == ["ann", "zoe"]


async def test_ensuring_a_user_twice_keeps_the_first() -> None:
    users = make()
    await users.ensure("owner")
    before = users.list()
    await users.ensure("owner")
    assert users.list() == before


async def test_unknown_user_is_not_found() -> None:
    with pytest.raises(NotFound):
        make().check("nobody")


@pytest.mark.parametrize("name", ["", "Ann", "-rf", "a b", "a/b", "x" * 65, "ä", "a\n"])
async def test_odd_names_are_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        await make().add(name)
