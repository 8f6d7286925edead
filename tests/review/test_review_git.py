"""What a reviewer does to a repository: stage, unstage, commit, discard and undo."""

import pytest

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, Busy, FairleadError, NotAllowed, NotFound
from fairlead.model.ids import SessionId
from fairlead.review import api, private_repository
from review.repositories import Place, git, repository, statuses
from sessions.harness import BOB, SESSION

pytestmark = pytest.mark.process
VIEWER = Identity("cred-vic", "vic", "vic", frozenset({"view", "chat"}))


async def stage(place: Place, *keys: str, staged: bool = True) -> int:
    count: int = await place.do(api.StageFiles(session=SESSION, keys=keys, staged=staged), BOB)
    return count


async def discard(place: Place, *keys: str) -> api.Discarded:
    found: api.Discarded = await place.do(api.DiscardFiles(session=SESSION, keys=keys), BOB)
    return found


async def test_files_are_staged_and_unstaged_one_by_one(place: Place) -> None:
    project = repository(place.project, a="one\n", b="one\n", c="one\n")
    await place.begin()
    (project / "a").write_text("two\n")
    (project / "b").unlink()
    (project / "new").write_text("new\n")
    assert await stage(place, "a", "b", "new") == 3
    assert git(project, "status", "--porcelain") == b"M  a\nD  b\nA  new\n"
    assert await stage(place, "b", "new", staged=False) == 1
    assert git(project, "status", "--porcelain") == b"M  a\n D b\n?? new\n"
    assert not git(project, "diff", "--cached", "c")


async def test_a_commit_has_what_is_staged_and_nothing_else(place: Place) -> None:
    project = repository(place.project, a="one\n", b="one\n")
    await place.begin()
    for name in "ab":
        (project / name).write_text("two\n")
    with pytest.raises(BadRequest, match="Nothing is staged"):
        await place.do(api.CommitStaged(session=SESSION, message="x"), BOB)
    await stage(place, "a")
    with pytest.raises(BadRequest, match="message"):
        await place.do(api.CommitStaged(session=SESSION, message="  \n"), BOB)
    made = await place.do(api.CommitStaged(session=SESSION, message="Subject\n\nBody"), BOB)
    assert (made.branch, made.commit.encode()) == ("main", git(project, "rev-parse", "HEAD").strip())
    assert git(project, "show", "--format=%an <%ae>%n%B", "--name-only") == (
        b"Ann <ann@example.org>\nSubject\n\nBody\n\n\na\n"
    )
    assert git(project, "status", "--porcelain") == b" M b\n"
    assert git(project, "reflog", "-1", "--format=%gs") == b"commit: Subject\n"
    assert git(project, "fsck", "--strict") == b""


async def test_a_commit_during_a_merge_is_left_to_the_agent(place: Place) -> None:
    project = repository(place.project, a="one\n")
    await place.begin()
    (project / ".git" / "MERGE_HEAD").write_bytes(git(project, "rev-parse", "HEAD"))
    (project / "a").write_text("two\n")
    await stage(place, "a")
    with pytest.raises(Busy):
        await place.do(api.CommitStaged(session=SESSION, message="x"), BOB)


async def test_a_commit_needs_an_author(place: Place) -> None:
    repository(place.project, a="one\n")
    place.snapshots._access = private_repository.GitAccess()
    await place.begin()
    (place.project / "a").write_text("two\n")
    await stage(place, "a")
    with pytest.raises(BadRequest, match=r"user\.name"):
        await place.do(api.CommitStaged(session=SESSION, message="x"), BOB)


async def test_a_lock_of_another_git_is_reported_as_busy(place: Place) -> None:
    project = repository(place.project, a="one\n")
    await place.begin()
    (project / "a").write_text("two\n")
    (project / ".git" / "index.lock").write_text("")
    with pytest.raises(Busy):
        await stage(place, "a")
    assert statuses(await place.changes()) == {"a": "modified"}, "reading needs no lock"


async def test_a_discarded_file_is_as_committed_and_can_be_brought_back(place: Place) -> None:
    project = repository(place.project, a="one\n", b="one\n", c="one\n")
    await place.begin()
    (project / "a").write_text("two\n")
    (project / "b").unlink()
    (project / "sub").mkdir()
    (project / "sub" / "new").write_text("new\n")
    (project / "c").write_text("stays\n")
    git(project, "add", "a", "sub")
    thrown = await discard(place, "a", "b", "sub/new")
    assert git(project, "status", "--porcelain") == b" M c\n"
    assert (project / "a").read_text() == (project / "b").read_text() == "one\n"
    assert not (project / "sub" / "new").exists()
    keys = ("a", "b", "sub/new")
    await place.do(api.RestoreFiles(session=SESSION, keys=keys, tree=thrown.tree), BOB)
    assert (project / "a").read_text() == "two\n"
    assert not (project / "b").exists()
    assert (project / "sub" / "new").read_text() == "new\n"


async def test_what_could_not_be_brought_back_is_not_discarded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_repository, "LARGE", 1000)
    project = repository(place.project, a="one\n")
    await place.begin()
    (project / "large").write_bytes(b"x" * 2000)
    with pytest.raises(BadRequest, match="too large"):
        await discard(place, "large")
    assert (project / "large").exists()


async def test_changing_needs_the_scope_approve_and_a_session_that_one_sees(place: Place) -> None:
    repository(place.project, a="one\n")
    await place.begin()
    (place.project / "a").write_text("two\n")
    found = await place.do(api.ListChanges(session=SESSION), VIEWER)
    assert statuses(found) == {"a": "modified"}
    other = SessionId("00000000-0000-0000-0000-000000000000")
    for kind, more in (
        (api.StageFiles, {"keys": ("a",)}),
        (api.DiscardFiles, {"keys": ("a",)}),
        (api.CommitStaged, {"message": "x"}),
        (api.RestoreFiles, {"keys": ("a",), "tree": found.after}),
    ):
        with pytest.raises(NotAllowed):
            await place.do(kind(session=SESSION, **more), VIEWER)
        with pytest.raises(NotFound):
            await place.do(kind(session=other, **more), BOB)
    assert (place.project / "a").read_text() == "two\n"


@pytest.mark.parametrize("keys", [(), tuple(map(str, range(1001))), ("../outside",), (".git/config",)])
async def test_files_are_named_by_their_keys(place: Place, keys: tuple[str, ...]) -> None:
    repository(place.project)
    await place.begin()
    with pytest.raises(FairleadError):
        await discard(place, *keys)


async def test_a_folder_without_a_repository_has_nothing_to_stage(place: Place) -> None:
    with pytest.raises(FairleadError) as refused:
        await stage(place, "a")
    assert refused.value.code == "not_repository"
