"""The first admin token: configured, or created once in a file that only its owner can read."""

import stat
from pathlib import Path

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.auth.bootstrap import FILE, bootstrap_admin
from fairlead.auth.credentials import Credentials
from fairlead_testing.clock import ManualClock


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def start(documents: MemoryDocuments, token_bytes: FakeTokenBytes) -> Credentials:
    credentials = Credentials(documents, ManualClock(), token_bytes)
    await credentials.load()
    return credentials


async def test_the_first_start_makes_a_token_that_only_its_owner_can_read(tmp_path: Path) -> None:
    credentials = await start(MemoryDocuments(), FakeTokenBytes())
    token = await bootstrap_admin(credentials, tmp_path, None)
    identity = credentials.bearer(token)
    assert identity is not None and identity.may("admin")
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert (tmp_path / FILE).read_text() == f"{token}\n"
    assert names(tmp_path) == [FILE]


async def test_the_next_start_uses_the_same_token(tmp_path: Path) -> None:
    documents, token_bytes = MemoryDocuments(), FakeTokenBytes()
    first = await bootstrap_admin(await start(documents, token_bytes), tmp_path, None)
    again = await start(documents, token_bytes)
    assert await bootstrap_admin(again, tmp_path, "") == first
    assert len(again.list("token")) == 1


async def test_a_revoked_token_is_replaced_at_the_next_start(tmp_path: Path) -> None:
    documents, token_bytes = MemoryDocuments(), FakeTokenBytes()
    credentials = await start(documents, token_bytes)
    first = await bootstrap_admin(credentials, tmp_path, None)
    await credentials.revoke("token", credentials.list("token")[0].id)
    again = await start(documents, token_bytes)
    second = await bootstrap_admin(again, tmp_path, None)
    assert second != first
    assert again.bearer(first) is None
    assert again.bearer(second) is not None
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


async def test_token_file_that_the_store_does_not_know_is_not_accepted(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("fl_abcdefgh_" + "a" * 52)
    credentials = await start(MemoryDocuments(), FakeTokenBytes())
    token = await bootstrap_admin(credentials, tmp_path, None)
    assert credentials.bearer("fl_abcdefgh_" + "a" * 52) is None
    assert credentials.bearer(token) is not None


async def test_configured_token_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    credentials = await start(MemoryDocuments(), FakeTokenBytes())
    assert await bootstrap_admin(credentials, tmp_path, " swordfish\n") == "swordfish"
    assert credentials.bearer("swordfish") is not None
    assert names(tmp_path) == []


async def test_existing_symlink_is_not_followed_when_the_token_is_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / FILE).symlink_to(victim)
    await bootstrap_admin(await start(MemoryDocuments(), FakeTokenBytes()), data, None)
    assert victim.read_text() == "precious"
    assert not (data / FILE).is_symlink()
