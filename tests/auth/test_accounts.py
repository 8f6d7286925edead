"""Users who sign in: what a token is valid for, and what invalidates it."""

import asyncio
import base64
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.auth.accounts import LIFETIME_S
from fairlead.auth.api.credentials import DEFAULT_SCOPES, BadInvitation, SignedIn, TooManyAttempts, WrongPassword
from fairlead.auth.credentials import Credentials
from fairlead.auth.keyfile import FILE, KeyFile
from fairlead.auth.login_throttle import FORGET_S, PAUSE_S, PER_ADDRESS, PER_PAIR
from fairlead.auth.passwords import Passwords
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, Damaged, NotFound, Stale, Unavailable
from fairlead_testing.clock import ManualClock

PASSWORD = "correct horse"
OTHER = "battery staple"
HERE = "203.0.113.7"


@pytest.fixture
async def ann(credentials: Credentials) -> SignedIn:
    await credentials.accounts.add("ann", PASSWORD, DEFAULT_SCOPES)
    return await credentials.accounts.sign_in("ann", PASSWORD, HERE)


def who(credentials: Credentials, token: str) -> Identity:
    found = credentials.account(token)
    assert isinstance(found, Identity)
    return found


def claims_of(token: str) -> dict[str, Any]:
    middle = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    return found


# --- tokens


@pytest.mark.rules("S003-015")
async def test_a_token_has_the_originals_claims_and_names_its_user(
    credentials: Credentials, ann: SignedIn, clock: ManualClock
) -> None:
    claims = claims_of(ann.token)
    now = clock.now_ms() // 1000
    assert claims == {"userId": ann.id, "username": "ann", "iat": now, "exp": now + 7 * 24 * 3600}
    assert jwt.get_unverified_header(ann.token) == {"alg": "HS256", "typ": "JWT"}
    found = who(credentials, ann.token)
    assert (found.user, found.name, found.scopes) == ("ann", "ann", frozenset(DEFAULT_SCOPES))
    assert not found.may("admin")
    assert credentials.bearer(ann.token) is None


async def test_token_expires_and_is_renewed_after_half_its_lifetime(
    credentials: Credentials, ann: SignedIn, clock: ManualClock
) -> None:
    accounts = credentials.accounts
    await clock.advance(LIFETIME_S / 2 - 1)
    assert accounts.renew(who(credentials, ann.token), now=False) is None
    asked = accounts.renew(who(credentials, ann.token), now=True)
    await clock.advance(2)
    new = accounts.renew(who(credentials, ann.token), now=False)
    assert asked is not None and new is not None and new.token != ann.token
    await clock.advance(LIFETIME_S / 2)
    assert credentials.account(ann.token) == "expired"
    assert who(credentials, new.token).user == "ann"
    owner = await credentials.create("token", "t", ("admin",))
    bearer = credentials.bearer(owner.secret)
    assert bearer is not None and accounts.renew(bearer, now=True) is None


async def test_new_password_invalidates_all_tokens_and_closes_their_connections(
    credentials: Credentials, ann: SignedIn
) -> None:
    await credentials.accounts.add("bob", PASSWORD, DEFAULT_SCOPES)
    bob = await credentials.accounts.sign_in("bob", PASSWORD, HERE)
    closed: list[str] = []
    credentials.attach(who(credentials, ann.token), lambda: closed.append("ann"))
    credentials.attach(who(credentials, bob.token), lambda: closed.append("bob"))
    await credentials.accounts.set_password("ann", OTHER)
    assert closed == ["ann"]
    assert credentials.account(ann.token) is None
    with pytest.raises(WrongPassword):
        await credentials.accounts.sign_in("ann", PASSWORD, HERE)
    again = await credentials.accounts.sign_in("ann", OTHER, HERE)
    assert again.id == ann.id
    assert who(credentials, again.token).user == "ann"
    assert who(credentials, bob.token).user == "bob"


async def test_removing_a_user_revokes_all_their_credentials(credentials: Credentials, ann: SignedIn) -> None:
    laptop = await credentials.create("token", "laptop", ("view",), "ann")
    closed: list[str] = []
    credentials.attach(who(credentials, ann.token), lambda: closed.append("signed in"))
    bearer = credentials.bearer(laptop.secret)
    assert bearer is not None
    credentials.attach(bearer, lambda: closed.append("laptop"))
    await credentials.remove_user("ann")
    assert sorted(closed) == ["laptop", "signed in"]
    assert credentials.account(ann.token) is None
    assert credentials.bearer(laptop.secret) is None
    await credentials.accounts.add("ann", PASSWORD, DEFAULT_SCOPES)
    assert credentials.account(ann.token) is None, "another ann is another user"
    again = await credentials.accounts.sign_in("ann", PASSWORD, HERE)
    assert again.id != ann.id
    with pytest.raises(BadRequest):
        await credentials.remove_user("owner")
    with pytest.raises(NotFound):
        await credentials.remove_user("nobody")


@pytest.mark.parametrize("what", ["password", "removal"])
async def test_a_store_that_fails_does_not_keep_a_user_signed_in(
    credentials: Credentials, ann: SignedIn, documents: MemoryDocuments, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    closed: list[int] = []
    credentials.attach(who(credentials, ann.token), lambda: closed.append(1))

    async def fail(*given: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(documents, "put", fail)
    monkeypatch.setattr(documents, "delete", fail)
    end: Coroutine[Any, Any, object] = (
        credentials.accounts.set_password("ann", OTHER) if what == "password" else credentials.remove_user("ann")
    )
    with pytest.raises(Unavailable):
        await end
    assert closed == [1]
    assert credentials.account(ann.token) is None


async def test_open_connections_end_with_their_token(
    credentials: Credentials, ann: SignedIn, clock: ManualClock
) -> None:
    closed: list[str] = []
    credentials.attach(who(credentials, ann.token), lambda: closed.append("open"))
    left = credentials.attach(who(credentials, ann.token), lambda: closed.append("left before"))
    await clock.advance(LIFETIME_S - 1)
    left()
    assert closed == []
    await clock.advance(2)
    assert closed == ["open"]


async def test_token_survives_a_restart_and_no_other_gateway_accepts_it(
    documents: MemoryDocuments, clock: ManualClock, tmp_path: Path
) -> None:
    first = Credentials(documents, clock, FakeTokenBytes(), KeyFile(tmp_path))
    await first.load()
    assert not (tmp_path / FILE).exists()
    await first.accounts.add("ann", PASSWORD, DEFAULT_SCOPES)
    ann = await first.accounts.sign_in("ann", PASSWORD, HERE)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    again = Credentials(documents, clock, FakeTokenBytes(), KeyFile(tmp_path))
    await again.load()
    assert who(again, ann.token).user == "ann"
    (tmp_path / "other").mkdir()
    other = Credentials(documents, clock, FakeTokenBytes(), KeyFile(tmp_path / "other"))
    await other.load()
    assert other.account(ann.token) is None
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(Damaged):
        KeyFile(tmp_path)


async def test_reload_applies_changes_of_another_process(
    credentials: Credentials, ann: SignedIn, documents: MemoryDocuments, clock: ManualClock
) -> None:
    closed: list[int] = []
    credentials.attach(who(credentials, ann.token), lambda: closed.append(1))
    await credentials.load()
    assert closed == []
    elsewhere = Credentials(documents, clock)
    await elsewhere.load()
    await elsewhere.accounts.set_password("ann", OTHER)
    await credentials.load()
    assert closed == [1]
    assert credentials.account(ann.token) is None


def forged(token: str, key: bytes, algorithm: str = "HS256", **other: Any) -> str:
    return jwt.encode({**claims_of(token), **other}, key, algorithm=algorithm)


async def test_only_our_own_tokens_are_accepted(credentials: Credentials, ann: SignedIn) -> None:
    head, body, mark = ann.token.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    wrong = [
        "",
        ".",
        "..",
        "a.b.c",
        f"{head}.{body}.",
        f"{head}.{body}.{mark[:-2]}",
        f"{none}.{body}.",
        f"{none}.{body}.{mark}",
        f"{ann.token}.x",
        ann.token + "A" * 4000,
        forged(ann.token, b"x" * 32),
        forged(ann.token, b"x" * 64, "HS512"),
        jwt.encode(claims_of(ann.token), "", algorithm="none"),
    ]
    for token in wrong:
        assert credentials.account(token) is None, token


async def test_signed_token_with_odd_claims_is_rejected(credentials: Credentials, ann: SignedIn) -> None:
    record = credentials.users.get("ann")
    assert record is not None
    key = credentials.accounts._key_of(record)
    assert who(credentials, forged(ann.token, key)).user == "ann"
    odd: list[dict[str, Any]] = [
        {"userId": True},
        {"userId": "1"},
        {"userId": ann.id + 1},
        {"username": "owner"},
        {"username": None},
        {"exp": "never"},
        {"exp": 1e300},
        {"iat": None},
    ]
    for claims in odd:
        assert credentials.account(forged(ann.token, key, **claims)) is None, claims


@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*", fullmatch=True))
def test_any_text_is_rejected_without_an_exception(text: str) -> None:
    credentials = Credentials(MemoryDocuments(), ManualClock(), FakeTokenBytes())
    assert credentials.account(text) is None


# --- passwords


async def test_the_store_has_neither_password_nor_token(
    credentials: Credentials, ann: SignedIn, documents: MemoryDocuments
) -> None:
    everything = documents.everything()
    assert PASSWORD.encode() not in everything
    assert ann.token.split(".")[2].encode() not in everything
    assert b"$argon2id$" in everything


async def test_default_password_hash_has_the_cost_that_the_rfc_recommends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    kept = await Passwords().hash(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert await Passwords().verify(kept, PASSWORD)


async def test_every_failed_login_gives_the_same_error(credentials: Credentials, ann: SignedIn) -> None:
    for name, password in (("ann", OTHER), ("nobody", PASSWORD), ("owner", ""), ("owner", PASSWORD), ("", "")):
        with pytest.raises(WrongPassword) as refused:
            await credentials.accounts.sign_in(name, password, HERE)
        assert refused.value.message == "Invalid username or password"


async def test_login_of_an_unknown_user_costs_as_much_as_of_a_known_one(
    credentials: Credentials, ann: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    real = Passwords._fits

    def counting(self: Passwords, kept: str, password: str) -> bool:
        checked.append(kept[:9])
        found = real(self, kept, password)
        assert self._dummy_hash.startswith("$argon2id$")
        return found

    monkeypatch.setattr(Passwords, "_fits", counting)
    for name in ("ann", "nobody", "owner"):
        with pytest.raises(WrongPassword):
            await credentials.accounts.sign_in(name, OTHER, HERE)
    assert checked == ["$argon2id", "", ""]


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "ü" * 600])
async def test_odd_passwords_are_refused(credentials: Credentials, ann: SignedIn, password: str) -> None:
    with pytest.raises(BadRequest):
        await credentials.accounts.set_password("ann", password)
    if password:
        with pytest.raises(BadRequest):
            await credentials.accounts.add("bob", password, DEFAULT_SCOPES)


async def test_queue_of_password_checks_is_bounded() -> None:
    passwords = Passwords()
    tried = await asyncio.gather(*(passwords.verify("", "x") for _ in range(60)), return_exceptions=True)
    refused = [found for found in tried if isinstance(found, TooManyAttempts)]
    assert len(refused) == 60 - 32
    assert not await passwords.verify("", "x"), "and is over afterwards"


async def test_password_that_is_replaced_while_it_is_checked_is_rejected(
    credentials: Credentials, ann: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Passwords.verify

    async def slowly(self: Passwords, kept: str, password: str) -> bool:
        found = await real(self, kept, password)
        await credentials.accounts.set_password("ann", OTHER)
        return found

    monkeypatch.setattr(Passwords, "verify", slowly)
    with pytest.raises(WrongPassword):
        await credentials.accounts.sign_in("ann", PASSWORD, HERE)


# --- guessing


async def test_wrong_passwords_from_an_address_do_not_lock_out_the_right_ones(
    credentials: Credentials, ann: SignedIn, clock: ManualClock
) -> None:
    for number in range(PER_ADDRESS):
        with pytest.raises(WrongPassword):
            await credentials.accounts.sign_in(f"nobody{number}", OTHER, HERE)
    signing = asyncio.create_task(credentials.accounts.sign_in("ann", PASSWORD, HERE))
    while not signing.done():
        await clock.advance(PAUSE_S)
        await asyncio.sleep(0.01)
    assert signing.result().name == "ann"


async def test_guesses_at_a_name_are_refused_and_failures_expire_one_at_a_time(
    credentials: Credentials, ann: SignedIn, clock: ManualClock
) -> None:
    for _ in range(PER_PAIR):
        with pytest.raises(WrongPassword):
            await credentials.accounts.sign_in("ann", OTHER, HERE)
    with pytest.raises(TooManyAttempts) as refused:
        await credentials.accounts.sign_in("ann", PASSWORD, HERE)
    assert 0 < refused.value.seconds <= FORGET_S
    assert (await credentials.accounts.sign_in("ann", PASSWORD, "203.0.113.8")).name == "ann"
    await clock.advance(FORGET_S + 1)
    assert (await credentials.accounts.sign_in("ann", PASSWORD, HERE)).name == "ann"


# --- invitations


async def test_an_invitation_makes_one_user_with_its_scopes(credentials: Credentials) -> None:
    accounts = credentials.accounts
    code = (await accounts.invite(("chat", "view"))).code
    made = await accounts.accept(code, "ann", PASSWORD)
    assert who(credentials, made.token).scopes == frozenset({"view", "chat"})
    assert (await accounts.sign_in("ann", PASSWORD, HERE)).id == made.id
    with pytest.raises(BadInvitation):
        await accounts.accept(code, "bob", PASSWORD)
    assert [user.name for user in credentials.users.list()] == ["ann", "owner"]


async def test_invalid_name_or_password_does_not_use_up_an_invitation(credentials: Credentials, ann: SignedIn) -> None:
    code = (await credentials.accounts.invite(DEFAULT_SCOPES)).code
    for name, password, error in (
        ("ann", PASSWORD, Stale),
        ("owner", PASSWORD, Stale),
        ("No Name", PASSWORD, BadRequest),
        ("bob", "short", BadRequest),
    ):
        with pytest.raises(error):
            await credentials.accounts.accept(code, name, password)
    assert (await credentials.accounts.accept(code, "bob", PASSWORD)).name == "bob"


async def test_only_one_of_many_registrations_with_one_invitation_succeeds(credentials: Credentials) -> None:
    code = (await credentials.accounts.invite(DEFAULT_SCOPES)).code
    tried = await asyncio.gather(
        *(credentials.accounts.accept(code, f"user{number}", PASSWORD) for number in range(5)), return_exceptions=True
    )
    assert sum(isinstance(found, SignedIn) for found in tried) == 1
    assert sum(isinstance(found, BadInvitation) for found in tried) == 4
    assert len(credentials.users.list()) == 2


async def test_invitation_is_valid_for_a_day_and_a_login_code_is_not_an_invitation(
    credentials: Credentials, clock: ManualClock
) -> None:
    code = (await credentials.accounts.invite(DEFAULT_SCOPES)).code
    login = await credentials.codes.create("phone", "owner", ("admin",))
    for wrong in ("", "x", login.code):
        with pytest.raises(BadInvitation):
            await credentials.accounts.accept(wrong, "ann", PASSWORD)
    await clock.advance(24 * 3600)
    with pytest.raises(BadInvitation):
        await credentials.accounts.accept(code, "ann", PASSWORD)
    with pytest.raises(BadRequest):
        await credentials.accounts.invite(())
