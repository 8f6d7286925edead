"""Sign-in by HTTP Basic: checked once, remembered while it is valid, with the same limit on guesses as elsewhere."""

import asyncio

import pytest

from fairlead.auth import basic
from fairlead.auth.api.credentials import DEFAULT_SCOPES, TooManyAttempts
from fairlead.auth.credentials import Credentials
from fairlead.auth.login_throttle import PER_ADDRESS
from fairlead.auth.passwords import Passwords

PASSWORD = "correct horse"
OTHER = "battery staple"
HERE = "203.0.113.7"


class Slow:
    """Counts the expensive password checks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        fits = Passwords.verify

        async def counted(own: Passwords, kept: str, password: str) -> bool:
            self.count += 1
            return await fits(own, kept, password)

        monkeypatch.setattr(Passwords, "verify", counted)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


@pytest.fixture
async def people(credentials: Credentials) -> Credentials:
    await credentials.accounts.add("ann", PASSWORD, DEFAULT_SCOPES)
    await credentials.accounts.add("bob", "", ())
    return credentials


async def signed(people: Credentials, name: str, password: str, peer: str = HERE) -> str:
    """The user who is signed in, or an empty string."""
    await people.basic_sign_in.check(name, password, peer)
    found = people.basic(name, password)
    return "" if found is None else found.user


async def test_a_password_is_checked_once_however_often_it_comes(people: Credentials, slow: Slow) -> None:
    assert people.basic("ann", PASSWORD) is None, "nobody has checked it"
    assert await asyncio.gather(*(signed(people, "ann", PASSWORD) for _ in range(3 * PER_ADDRESS))) == (
        ["ann"] * 3 * PER_ADDRESS
    )
    assert await signed(people, "ann", PASSWORD) == "ann"
    assert slow.count == 1
    found = people.basic("ann", PASSWORD)
    assert found is not None
    assert (found.scopes, found.expires) == (frozenset(DEFAULT_SCOPES), 0)


async def test_wrong_passwords_fail_and_unknown_users_take_as_long(people: Credentials, slow: Slow) -> None:
    for name, password in (("ann", OTHER), ("ann", ""), ("nobody", PASSWORD), ("bob", ""), ("", PASSWORD)):
        assert await signed(people, name, password) == ""
    assert slow.count == 5


async def test_a_repeated_wrong_password_is_one_guess_and_new_ones_are_limited(people: Credentials, slow: Slow) -> None:
    for _ in range(5 * PER_ADDRESS):
        assert await signed(people, "ann", OTHER) == ""
    assert slow.count == 1
    for number in range(PER_ADDRESS - 1):
        assert await signed(people, "ann", f"guess {number}") == ""
    with pytest.raises(TooManyAttempts):
        await signed(people, "ann", "one more")
    assert slow.count == PER_ADDRESS
    with pytest.raises(TooManyAttempts):
        await people.accounts.sign_in("ann", PASSWORD, HERE)
    assert await signed(people, "ann", PASSWORD, "198.51.100.1") == "ann", "from elsewhere it is heard"
    assert await signed(people, "ann", PASSWORD) == "ann", "and known from then on"


async def test_new_password_discards_the_remembered_old_one(people: Credentials) -> None:
    assert await signed(people, "ann", PASSWORD) == "ann"
    assert await signed(people, "ann", OTHER) == ""
    found = people.basic("ann", PASSWORD)
    assert found is not None
    closed: list[bool] = []
    people.attach(found, lambda: closed.append(True))
    await people.accounts.set_password("ann", OTHER)
    assert closed == [True]
    assert people.basic("ann", PASSWORD) is None
    assert await signed(people, "ann", PASSWORD) == ""
    assert await signed(people, "ann", OTHER) == "ann", "also one that was wrong before"


async def test_removed_user_is_no_longer_signed_in_nor_is_a_new_user_of_that_name(people: Credentials) -> None:
    assert await signed(people, "ann", PASSWORD) == "ann"
    await people.remove_user("ann")
    assert people.basic("ann", PASSWORD) is None
    await people.accounts.add("ann", OTHER, DEFAULT_SCOPES)
    assert people.basic("ann", PASSWORD) is None


async def test_token_is_accepted_with_any_name_until_it_is_revoked(people: Credentials, slow: Slow) -> None:
    made = await people.create("token", "phone", ("view",))
    for name in ("", "ann", "whatever"):
        await people.basic_sign_in.check(name, made.secret, HERE)
        found = people.basic(name, made.secret)
        assert found is not None and found.credential == made.credential.id
    await people.revoke("token", made.credential.id)
    assert await signed(people, "ann", made.secret) == ""
    assert slow.count == 0


async def test_number_of_remembered_logins_is_bounded(people: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic, "KEPT", 4)
    assert await signed(people, "ann", PASSWORD) == "ann"
    for number in range(6):
        await signed(people, f"nobody{number}", OTHER, f"203.0.113.{number}")
        assert people.basic("ann", PASSWORD) is not None, "what is used is kept"
    assert len(people.basic_sign_in._checked) == 4


async def test_remembered_logins_contain_no_password(people: Credentials) -> None:
    await signed(people, "ann", PASSWORD)
    assert PASSWORD not in repr(vars(people.basic_sign_in))
