"""Credentials: created, looked up, revoked. Open connections end with their credential."""

from functools import partial

import pytest

from auth.fakes import MemoryDocuments
from fairlead.auth.accounts import credential_of
from fairlead.auth.api.credentials import NewCredential
from fairlead.auth.credentials import SPACE, USED, Credentials
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotFound, Unavailable
from fairlead_testing.clock import ManualClock


def holder(credentials: Credentials, made: NewCredential) -> Identity:
    found = credentials.identity(made.credential.id)
    assert found is not None
    return found


async def test_a_new_token_is_known_at_once_and_after_a_restart(
    credentials: Credentials, documents: MemoryDocuments, clock: ManualClock
) -> None:
    made = await credentials.create("token", "laptop", ("chat", "view"))
    expected = Identity(made.credential.id, "owner", "owner (laptop)", frozenset({"view", "chat"}))
    assert credentials.bearer(made.secret) == expected
    again = Credentials(documents, clock)
    await again.load()
    assert again.bearer(made.secret) == expected


async def test_the_store_never_has_the_secret(credentials: Credentials, documents: MemoryDocuments) -> None:
    made = await credentials.create("token", "laptop", ("view",))
    code = await credentials.codes.create("phone", "owner", ("view",))
    everything = documents.everything()
    assert made.secret.encode() not in everything
    assert made.secret.rpartition("_")[2].encode() not in everything
    assert code.code.encode() not in everything


async def test_a_secret_that_is_nearly_right_is_wrong(credentials: Credentials) -> None:
    first = await credentials.create("token", "a", ("admin",))
    second = await credentials.create("token", "b", ("view",))
    swapped = f"fl_{first.credential.id}_{second.secret.rpartition('_')[2]}"
    for wrong in ("", swapped, first.secret[:-1], f"fl_{first.credential.id}_{'a' * 52}", first.credential.id):
        assert credentials.bearer(wrong) is None


async def test_revoking_closes_only_the_connections_of_that_credential(credentials: Credentials) -> None:
    bad = await credentials.create("token", "bad", ("view",))
    good = await credentials.create("token", "good", ("view",))
    closed: list[str] = []
    for number in range(3):
        credentials.attach(holder(credentials, bad), partial(closed.append, f"bad {number}"))
    credentials.attach(holder(credentials, good), lambda: closed.append("good"))
    left = credentials.attach(holder(credentials, bad), lambda: closed.append("left before"))
    left()
    ended = await credentials.revoke("token", bad.credential.id)
    assert ended.revoked > 0
    assert sorted(closed) == ["bad 0", "bad 1", "bad 2"]
    assert credentials.bearer(bad.secret) is None
    assert credentials.bearer(good.secret) is not None


async def test_a_revoked_token_stays_revoked_after_a_restart_and_stays_in_the_list(
    credentials: Credentials, documents: MemoryDocuments, clock: ManualClock
) -> None:
    made = await credentials.create("token", "a", ("view",))
    await credentials.revoke("token", made.credential.id)
    again = Credentials(documents, clock)
    await again.load()
    assert again.bearer(made.secret) is None
    assert [record.revoked > 0 for record in again.list("token")] == [True]


async def test_failing_store_does_not_keep_a_revoked_token_valid(
    credentials: Credentials, documents: MemoryDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await credentials.create("token", "a", ("view",))
    closed: list[int] = []
    credentials.attach(holder(credentials, made), lambda: closed.append(1))

    async def fail(space: str, key: str, value: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(documents, "put", fail)
    with pytest.raises(Unavailable):
        await credentials.revoke("token", made.credential.id)
    assert closed == [1]
    assert credentials.bearer(made.secret) is None


async def test_reload_closes_connections_of_tokens_revoked_by_another_process(
    credentials: Credentials, documents: MemoryDocuments, clock: ManualClock
) -> None:
    made = await credentials.create("token", "a", ("view",))
    closed: list[int] = []
    credentials.attach(holder(credentials, made), lambda: closed.append(1))
    elsewhere = Credentials(documents, clock)
    await elsewhere.load()
    await elsewhere.revoke("token", made.credential.id)
    await credentials.load()
    assert closed == [1]
    assert credentials.bearer(made.secret) is None


async def test_tickets_and_signed_links_end_with_their_credential(credentials: Credentials) -> None:
    made = await credentials.create("token", "a", ("view",))
    ticket = credentials.tickets.issue(made.credential.id)
    path, _, query = credentials.sign(made.credential.id, "/v1/x", "a=1").url.partition("?")
    assert credentials.ticket(ticket.ticket) is not None
    assert credentials.signature(path, query) is not None
    await credentials.revoke("token", made.credential.id)
    assert credentials.ticket(ticket.ticket) is None
    assert credentials.signature(path, query) is None


async def test_tickets_of_a_user_end_with_the_password(credentials: Credentials) -> None:
    user = await credentials.accounts.add("ann", "a long password", ("view",))
    ticket = credentials.tickets.issue(credential_of(user)).ticket
    assert credentials.ticket(ticket) == credentials.accounts.identity_of(user)
    await credentials.accounts.set_password("ann", "another password")
    assert credentials.ticket(ticket) is None


async def test_a_device_is_not_revoked_as_a_token(credentials: Credentials) -> None:
    made = await credentials.create("device", "phone", ("view",))
    with pytest.raises(NotFound):
        await credentials.revoke("token", made.credential.id)
    with pytest.raises(NotFound):
        await credentials.revoke("device", "nobody")
    await credentials.revoke("device", made.credential.id)
    await credentials.revoke("device", made.credential.id)


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\x1b[31m", "a\x00"])
async def test_a_bad_name_is_refused(credentials: Credentials, name: str) -> None:
    with pytest.raises(BadRequest):
        await credentials.create("token", name, ("view",))


async def test_a_token_needs_known_scopes_and_a_known_user(credentials: Credentials) -> None:
    with pytest.raises(BadRequest):
        await credentials.create("token", "a", ())
    with pytest.raises(BadRequest):
        await credentials.create("token", "a", ("root",))  # type: ignore[arg-type]  # as a client might send it
    with pytest.raises(NotFound):
        await credentials.create("token", "a", ("view",), "stranger")


async def test_configured_token_is_an_admin_token_and_is_not_stored(
    credentials: Credentials, documents: MemoryDocuments
) -> None:
    credentials.accept_environment_token("swordfish")
    found = credentials.bearer("swordfish")
    assert found is not None and found.may("admin")
    assert credentials.bearer("swordfish2") is None
    assert credentials.list("token") == ()
    ticket = credentials.tickets.issue(found.credential)
    assert credentials.ticket(ticket.ticket) == found
    await credentials.close()
    assert documents.spaces.get(SPACE, {}) == {}


async def test_configured_token_in_our_own_form_works_too(credentials: Credentials) -> None:
    token = "fl_abcdefgh_" + "a" * 52
    credentials.accept_environment_token(token)
    assert credentials.bearer(token) is not None


async def test_configured_token_that_no_header_can_carry_is_refused(credentials: Credentials) -> None:
    for odd in ("two words", "schlüssel", "line\nbreak"):
        with pytest.raises(BadRequest):
            credentials.accept_environment_token(odd)


async def test_the_last_use_reaches_the_store_later_and_once(
    credentials: Credentials, documents: MemoryDocuments, clock: ManualClock
) -> None:
    made = await credentials.create("token", "a", ("view",))
    stored = documents.spaces[SPACE][made.credential.id]
    await clock.advance(5)
    for _ in range(100):
        credentials.bearer(made.secret)
    assert documents.spaces[SPACE][made.credential.id] == stored
    assert clock.waiting == 1
    await clock.advance(60)
    assert await documents.get(USED, made.credential.id) == made.credential.created + 5000
    assert documents.spaces[SPACE][made.credential.id] == stored
    assert clock.waiting == 0


async def test_closing_writes_the_last_use(
    credentials: Credentials, documents: MemoryDocuments, clock: ManualClock
) -> None:
    made = await credentials.create("token", "a", ("view",))
    await clock.advance(5)
    credentials.bearer(made.secret)
    await credentials.close()
    again = Credentials(documents, clock)
    await again.load()
    assert again.list("token")[0].last_used == clock.now_ms()


async def test_storing_the_last_use_does_not_undo_a_revocation_by_another_writer(
    credentials: Credentials, documents: MemoryDocuments, clock: ManualClock
) -> None:
    made = await credentials.create("token", "a", ("view",))
    other = Credentials(documents, clock)
    await other.load()
    await clock.advance(5)
    assert credentials.bearer(made.secret) is not None, "it does not know yet"
    await other.revoke("token", made.credential.id)
    await credentials.flush()
    third = Credentials(documents, clock)
    await third.load()
    assert third.bearer(made.secret) is None
    assert third.list("token")[0].last_used == clock.now_ms()


async def test_failure_to_store_the_last_use_is_ignored(
    credentials: Credentials, documents: MemoryDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await credentials.create("token", "a", ("view",))
    credentials.bearer(made.secret)

    async def fail(space: str, key: str, value: object) -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(documents, "put", fail)
    await credentials.close()


async def test_id_that_is_in_use_is_not_issued_again(documents: MemoryDocuments, clock: ManualClock) -> None:
    class Loaded:
        """A random source that gives the same id twice."""

        def __init__(self) -> None:
            self.fives = 0

        def __call__(self, size: int) -> bytes:
            if size == 5:
                self.fives += 1
                return bytes([1 if self.fives < 3 else 2]) * 5
            return bytes([7]) * size

    credentials = Credentials(documents, clock, Loaded())
    await credentials.load()
    first = await credentials.create("token", "a", ("view",))
    second = await credentials.create("token", "b", ("view",))
    assert first.credential.id != second.credential.id
