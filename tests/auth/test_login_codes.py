"""One-time login codes: redeemed once, by the first client, and only until they expire."""

import asyncio

import pytest

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.auth.credentials import Credentials
from fairlead.auth.login_codes import OPEN_AT_MOST, SPACE, BadCode
from fairlead.model.errors import TooMany
from fairlead_testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def documents() -> MemoryDocuments:
    return MemoryDocuments()


@pytest.fixture
async def credentials(clock: ManualClock, documents: MemoryDocuments) -> Credentials:
    made = Credentials(documents, clock, FakeTokenBytes())
    await made.load()
    return made


async def test_a_code_becomes_a_device_with_its_scopes(credentials: Credentials) -> None:
    code = await credentials.codes.create("", "owner", ("view", "chat"))
    made = await credentials.login(code.code, "Firefox on desk")
    assert made.credential.kind == "device"
    assert made.credential.name == "Firefox on desk"
    identity = credentials.bearer(made.secret)
    assert identity is not None and identity.scopes == {"view", "chat"}


async def test_device_has_the_name_in_its_link(credentials: Credentials) -> None:
    code = await credentials.codes.create("Bob's phone", "owner", ("view",))
    assert (await credentials.login(code.code, "Firefox on Android")).credential.name == "Bob's phone"


async def test_only_one_of_many_logins_with_one_code_succeeds(credentials: Credentials) -> None:
    code = await credentials.codes.create("phone", "owner", ("view",))
    came = await asyncio.gather(*(credentials.login(code.code, "") for _ in range(20)), return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in came) == 1
    assert all(isinstance(result, BadCode) for result in came if isinstance(result, BaseException))
    assert len(credentials.list("device")) == 1


async def test_code_expires_after_ten_minutes(credentials: Credentials, clock: ManualClock) -> None:
    code = await credentials.codes.create("phone", "owner", ("view",))
    await clock.advance(10 * 60 - 0.001)
    late = await credentials.codes.create("phone", "owner", ("view",))
    await clock.advance(0.001)
    with pytest.raises(BadCode):
        await credentials.login(code.code, "")
    await credentials.login(late.code, "")


@pytest.mark.parametrize("code", ["", "x", "a" * 52, "../../etc/passwd", "ü"])
async def test_unknown_code_gives_the_same_error_as_a_used_code(credentials: Credentials, code: str) -> None:
    real = await credentials.codes.create("phone", "owner", ("view",))
    await credentials.login(real.code, "")
    with pytest.raises(BadCode) as never:
        await credentials.login(code, "")
    with pytest.raises(BadCode) as spent:
        await credentials.login(real.code, "")
    assert (never.value.message, never.value.data) == (spent.value.message, spent.value.data)


async def test_unused_codes_are_deleted_and_the_number_of_open_codes_is_bounded(
    credentials: Credentials, clock: ManualClock, documents: MemoryDocuments
) -> None:
    for _ in range(OPEN_AT_MOST):
        await credentials.codes.create("phone", "owner", ("view",))
    with pytest.raises(TooMany):
        await credentials.codes.create("phone", "owner", ("view",))
    await clock.advance(601)
    await credentials.codes.create("phone", "owner", ("view",))
    assert len(documents.spaces[SPACE]) == 1
