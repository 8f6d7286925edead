"""Worktrees on real repositories: made, found again, merged, removed; nothing is lost without a word."""

import os
from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, Busy, FairleadError, NotFound
from fairlead.review.private_repository import GitAccess
from fairlead.review.worktrees import UnsavedWork, Worktrees
from review.repositories import Place, git, repository
from review.test_review_hostile import Trap

pytestmark = pytest.mark.process


@pytest.fixture
def worktrees(place: Place, tmp_path: Path) -> Worktrees:
    repository(place.project, **{"a.txt": "one\ntwo\nthree\n", "b.txt": "one\n"})
    return Worktrees(place.paths, GitAccess(None, str(tmp_path / "gitconfig")), place.data / "worktrees")


async def test_a_worktree_is_made_for_a_new_branch(place: Place, worktrees: Worktrees) -> None:
    path = await worktrees.open(str(place.project), "feature/import")
    assert path == str(place.project / ".worktrees" / "feature-import")
    assert (Path(path) / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert git(Path(path), "status", "--porcelain", "--branch") == b"## feature/import\n"
    assert git(place.project, "status", "--porcelain") == b"", "the folder of worktrees is no change of the repository"
    views = await worktrees.views(path)
    assert [(view.path, view.branch, view.main) for view in views] == [
        (str(place.project), "main", True),
        (path, "feature/import", False),
    ]
    assert list((place.data / "worktrees").glob("*/objects")) != []
    assert git(place.project, "fsck", "--strict") == b""


async def test_an_existing_worktree_is_shared(place: Place, worktrees: Worktrees) -> None:
    first = await worktrees.open(str(place.project), "feature")
    (Path(first) / "new.txt").write_text("work\n")
    assert await worktrees.open(str(place.project), "feature") == first
    assert await worktrees.open(first, "feature") == first, "also from inside"
    assert (Path(first) / "new.txt").read_text() == "work\n"
    elsewhere = place.root / "elsewhere"
    git(place.project, "worktree", "add", "-q", "-b", "by-hand", str(elsewhere))
    assert await worktrees.open(str(place.project), "by-hand") == str(elsewhere)
    assert await worktrees.open(str(place.project), "main") == str(place.project)


async def test_a_branch_begins_at_its_base(place: Place, worktrees: Worktrees) -> None:
    first = git(place.project, "rev-parse", "HEAD").decode().strip()
    (place.project / "a.txt").write_text("later\n")
    git(place.project, "commit", "-qam", "later")
    old = await worktrees.open(str(place.project), "old", first[:12])
    assert (Path(old) / "a.txt").read_text() == "one\ntwo\nthree\n"
    new = await worktrees.open(old, "from-old")
    assert (Path(new) / "a.txt").read_text() == "one\ntwo\nthree\n", "what is checked out where one starts"
    git(place.project, "branch", "there", first)
    there = await worktrees.open(str(place.project), "there", "main")
    assert (Path(there) / "a.txt").read_text() == "one\ntwo\nthree\n", "a branch that exists stays where it is"
    with pytest.raises(NotFound):
        await worktrees.open(str(place.project), "x", "no-such-commit")


NO_BRANCHES = ("", "-b", "--detach", "a b", "a..b", "a~1", "@{u}", "x.lock", "a\nb", "/", "a//b", "HEAD^")


@pytest.mark.parametrize("branch", NO_BRANCHES)
async def test_a_name_that_is_no_branch_is_rejected(place: Place, worktrees: Worktrees, branch: str) -> None:
    with pytest.raises(BadRequest):
        await worktrees.open(str(place.project), branch)
    assert git(place.project, "branch", "--format=%(refname)") == b"refs/heads/main\n"


async def test_worktrees_stay_inside_the_roots(place: Place, worktrees: Worktrees, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    git(place.project, "worktree", "add", "-q", "-b", "outside", str(outside))
    with pytest.raises(BadRequest):
        await worktrees.open(str(place.project), "outside")
    assert len(await worktrees.views(str(place.project))) == 1
    (place.project / ".worktrees").symlink_to(tmp_path)
    with pytest.raises(BadRequest, match="symbolic link"):
        await worktrees.open(str(place.project), "new")
    with pytest.raises(FairleadError):
        await worktrees.open(str(tmp_path / "outside"), "new")


async def test_a_folder_that_is_there_is_not_touched(place: Place, worktrees: Worktrees) -> None:
    (place.project / ".worktrees" / "taken").mkdir(parents=True)
    (place.project / ".worktrees" / "taken" / "file").write_text("mine\n")
    with pytest.raises(BadRequest, match="there already"):
        await worktrees.open(str(place.project), "taken")
    assert (place.project / ".worktrees" / "taken" / "file").read_text() == "mine\n"


def work_in(path: str, name: str, text: str, message: str = "work") -> None:
    (Path(path) / name).write_text(text)
    git(Path(path), "add", ".")
    git(Path(path), "commit", "-qm", message)


async def test_unsaved_work_asks_and_is_not_removed(place: Place, worktrees: Worktrees) -> None:
    path = await worktrees.open(str(place.project), "feature")
    (Path(path) / "new.txt").write_text("work\n")
    with pytest.raises(UnsavedWork) as asked:
        await worktrees.remove(path)
    assert asked.value.data == {"uncommitted": 1, "unmerged": 0}
    work_in(path, "new.txt", "work\n")
    with pytest.raises(UnsavedWork) as asked:
        await worktrees.remove(path)
    assert asked.value.data == {"uncommitted": 0, "unmerged": 1}
    assert (Path(path) / "new.txt").read_text() == "work\n"
    git(place.project, "branch", "copy", "feature")
    assert (await worktrees.state(path)).unmerged == 0, "another branch has the commit"
    await worktrees.remove(path)
    assert not os.path.exists(path)  # noqa: ASYNC240
    assert git(place.project, "branch", "--format=%(refname:short)") == b"copy\nmain\n"


async def test_a_person_may_discard_unsaved_work(place: Place, worktrees: Worktrees) -> None:
    path = await worktrees.open(str(place.project), "feature")
    work_in(path, "new.txt", "work\n")
    (Path(path) / "more.txt").write_text("more\n")
    await worktrees.remove(path, force=True)
    assert not os.path.exists(path)  # noqa: ASYNC240
    assert git(place.project, "worktree", "list").count(b"\n") == 1
    again = await worktrees.open(str(place.project), "feature")
    assert not (Path(again) / "new.txt").exists()


async def test_a_branch_is_merged_into_the_one_of_the_main_folder(place: Place, worktrees: Worktrees) -> None:
    path = await worktrees.open(str(place.project), "feature")
    work_in(path, "a.txt", "one\ntwo\nTHREE\n")
    (place.project / "b.txt").write_text("changed in the main folder\n")
    forward = await worktrees.merge(path)
    assert forward.encode() == git(Path(path), "rev-parse", "HEAD").strip(), "it is moved forward"
    assert (place.project / "a.txt").read_text() == "one\ntwo\nTHREE\n"
    assert git(place.project, "status", "--porcelain") == b" M b.txt\n", "what was changed there stays"

    git(place.project, "commit", "-qam", "in the main folder")
    work_in(path, "a.txt", "ONE\ntwo\nTHREE\n")
    merged = await worktrees.merge(path)
    assert git(place.project, "rev-parse", "HEAD").strip().decode() == merged
    assert git(place.project, "log", "-1", "--format=%an %s %p").startswith(b"Ann Merge branch 'feature' into main ")
    assert (place.project / "a.txt").read_text() == "ONE\ntwo\nTHREE\n"
    assert (place.project / "b.txt").read_text() == "changed in the main folder\n"
    assert git(place.project, "status", "--porcelain") == b""
    assert await worktrees.merge(path) == merged, "a second time there is nothing to do"
    await worktrees.remove(path)


async def test_a_merge_that_needs_a_person_changes_nothing(place: Place, worktrees: Worktrees) -> None:
    path = await worktrees.open(str(place.project), "feature")
    (Path(path) / "a.txt").write_text("uncommitted\n")
    with pytest.raises(Busy, match="not committed in"):
        await worktrees.merge(path)
    work_in(path, "a.txt", "theirs\n")
    before = git(place.project, "rev-parse", "HEAD")

    (place.project / "a.txt").write_text("changed here\n")
    with pytest.raises(Busy, match="main folder has changes"):
        await worktrees.merge(path)
    assert (place.project / "a.txt").read_text() == "changed here\n"
    assert git(place.project, "rev-parse", "HEAD") == before
    assert git(place.project, "status", "--porcelain") == b" M a.txt\n"

    git(place.project, "commit", "-qam", "ours")
    with pytest.raises(Busy, match="same lines"):
        await worktrees.merge(path)
    assert (place.project / "a.txt").read_text() == "changed here\n"
    assert git(place.project, "status", "--porcelain") == b""


async def test_the_main_folder_is_not_closed(place: Place, worktrees: Worktrees) -> None:
    for action in (worktrees.state, worktrees.merge, worktrees.remove):
        with pytest.raises(BadRequest):
            await action(str(place.project))


async def test_a_hostile_repository_runs_nothing(place: Place, worktrees: Worktrees, tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    (place.project / ".gitattributes").write_text("*.txt filter=evil merge=evil\n")
    git(place.project, "add", ".")
    git(place.project, "commit", "-qm", "attributes")
    trap.set(place.project)
    path = await worktrees.open(str(place.project), "feature")
    assert (Path(path) / "a.txt").read_text() == "one\ntwo\nthree\n"
    await worktrees.views(path)
    await worktrees.state(path)
    (Path(path) / "plain.md").write_text("text\n")
    quiet = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false")
    git(Path(path), *quiet, "add", "plain.md")
    git(Path(path), *quiet, "commit", "-qm", "work", "--no-verify")
    trap.ran.unlink(missing_ok=True)
    await worktrees.merge(path)
    assert (place.project / "plain.md").read_text() == "text\n"
    await worktrees.remove(path)
    assert not trap.ran.exists(), trap.ran.read_text()


async def test_only_a_registered_worktree_has_a_main_folder(place: Place, worktrees: Worktrees) -> None:
    path = await worktrees.open(str(place.project), "feature")
    assert worktrees.main_folder(path) == str(place.project)
    assert worktrees.main_folder(str(place.project)) == ""
    claim = place.root / "claim"
    claim.mkdir()
    (claim / ".git").write_text((Path(path) / ".git").read_text())
    assert worktrees.main_folder(str(claim)) == "", "it only claims to be one"


async def test_a_worktree_is_no_change_of_its_repository_and_nothing_of_it_when_it_is_gone(
    place: Place, worktrees: Worktrees
) -> None:
    await place.begin()
    path = await worktrees.open(str(place.project), "feature")
    assert (await place.changes()).files == (await place.changes("commit")).files == ()
    place.session.cwd = Path(path)
    await place.changes()
    (Path(path) / "new.txt").write_text("work\n")
    assert [file.path for file in (await place.changes()).files] == ["new.txt"]
    await worktrees.remove(path, force=True)
    assert (await place.changes()).source == "log", "not the changes of the folder above"
