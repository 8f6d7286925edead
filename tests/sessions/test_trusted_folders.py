"""Trusted folders: trusted as they were shown, until a file changes."""

from pathlib import Path

import pytest

from fairlead.agents.claude.trust import describe
from fairlead.model.errors import NotAllowed, Stale
from fairlead.sessions.api.folders import InspectFolder, ListTrusted, TrustFolder, UntrustFolder
from fairlead.sessions.folders.trust import TrustedFolders
from sessions.harness import ANN, BOB, CoreHarness


@pytest.fixture
def project(harness: CoreHarness) -> Path:
    (harness.cwd / ".claude").mkdir()
    (harness.cwd / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    return harness.cwd


@pytest.fixture
def book(harness: CoreHarness) -> TrustedFolders:
    documents = harness.store.documents
    return TrustedFolders(
        documents, harness.clock, describe, harness.gateway.resolve_folder, documents, lambda folder: False
    )


async def test_a_folder_is_trusted_after_it_was_shown(book: TrustedFolders, project: Path) -> None:
    assert not await book.is_trusted(str(project))
    report = await book.inspect(ANN, InspectFolder(str(project)))
    assert not report.trusted
    assert any("Bash" in rule for rule in report.permissions)
    trusted = await book.trust(ANN, TrustFolder(str(project), report.digest))
    assert (trusted.path, trusted.by) == (report.path, "ann")
    assert await book.is_trusted(str(project))
    assert [folder.path for folder in await book.trusted(ANN, ListTrusted())] == [report.path]
    assert (await book.inspect(ANN, InspectFolder(str(project)))).trusted


async def test_a_changed_file_asks_again(book: TrustedFolders, project: Path) -> None:
    report = await book.inspect(ANN, InspectFolder(str(project)))
    await book.trust(ANN, TrustFolder(str(project), report.digest))
    (project / ".claude" / "settings.json").write_text('{"hooks": {}}')
    assert not await book.is_trusted(str(project))
    with pytest.raises(Stale):
        await book.trust(ANN, TrustFolder(str(project), report.digest))


async def test_a_worktree_is_trusted_with_the_same_content_as_its_main_folder(
    harness: CoreHarness, project: Path
) -> None:
    worktree, other = project / "worktree", project / "other"
    for folder in (worktree, other):
        (folder / ".claude").mkdir(parents=True)
        (folder / ".claude" / "settings.json").write_text((project / ".claude" / "settings.json").read_text())
    main = {str(worktree): str(project)}
    resolve = harness.gateway.resolve_folder
    documents = harness.store.documents
    book = TrustedFolders(
        documents,
        harness.clock,
        describe,
        resolve,
        documents,
        lambda folder: False,
        lambda folder: main.get(folder, ""),
    )
    assert not await book.is_trusted(str(worktree))
    report = await book.inspect(ANN, InspectFolder(str(project)))
    await book.trust(ANN, TrustFolder(str(project), report.digest))
    assert await book.is_trusted(str(worktree))
    assert (await book.inspect(ANN, InspectFolder(str(worktree)))).trusted
    assert not await book.is_trusted(str(other)), "the same content elsewhere is not trusted"
    (worktree / ".claude" / "settings.json").write_text('{"hooks": {}}')
    assert not await book.is_trusted(str(worktree)), "another content asks again"


async def test_trust_can_be_revoked(book: TrustedFolders, project: Path) -> None:
    report = await book.inspect(ANN, InspectFolder(str(project)))
    await book.trust(ANN, TrustFolder(str(project), report.digest))
    assert await book.untrust(ANN, UntrustFolder(str(project)))
    assert not await book.untrust(ANN, UntrustFolder(str(project)))
    assert not await book.is_trusted(str(project))


async def test_only_an_admin_trusts(book: TrustedFolders, project: Path) -> None:
    report = await book.inspect(BOB, InspectFolder(str(project)))
    with pytest.raises(NotAllowed):
        await book.trust(BOB, TrustFolder(str(project), report.digest))
    with pytest.raises(NotAllowed):
        await book.untrust(BOB, UntrustFolder(str(project)))
