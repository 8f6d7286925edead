"""A hostile repository: nothing that it names is run, and no link of it leads out, whatever a review does."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from fairlead.model.errors import FairleadError, Unavailable
from fairlead.review import api
from fairlead.system.sandbox import find_program, problem_of, sandbox_of
from review.repositories import Place, git, repository, statuses, texts
from sessions.harness import SESSION
from sessions.test_workspace import EVIL

pytestmark = pytest.mark.process

HOOKS = (
    *("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-index-change", "reference-transaction"),
    *("post-checkout", "fsmonitor-watchman", "post-rewrite", "pre-applypatch"),
)
MORE = {
    "core.editor": "{0}",
    "core.hooksPath": "{1}",
    "merge.evil.driver": "{0}",
    "commit.gpgSign": "true",
    "alias.status": "!{0}",
    "alias.update-index": "!{0}",
    "core.alternateRefsCommand": "{0}",
    "uploadpack.packObjectsHook": "{0}",
    "include.path": "{2}",
    "user.name": "Mallory",
    "user.email": "mallory@example.org",
}


class Trap:
    """A program that leaves a note when it is run."""

    def __init__(self, folder: Path) -> None:
        self.ran = folder / "ran"
        self.program = folder / "evil.sh"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.ran}\ncat\n')
        self.program.chmod(0o755)
        self.hooks = folder / "hooks"
        self.hooks.mkdir()
        for hook in HOOKS:
            (self.hooks / hook).symlink_to(self.program)
        self.included = folder / "included"
        self.included.write_text(
            f'[filter "included"]\n\tclean = {self.program}\n[core]\n\tfsmonitor = {self.program}\n'
        )

    def set(self, project: Path) -> None:
        for key, value in {**EVIL, **MORE}.items():
            git(project, "config", key, value.format(self.program, self.hooks, self.included))
        hooks = project / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for hook in HOOKS:
            (hooks / hook).symlink_to(self.program)

    def spring(self, project: Path) -> None:
        """Git without the gateway's precautions does run it."""
        git(project, "--no-pager", "diff", "HEAD", check=False)
        assert self.ran.exists()
        self.ran.unlink()


async def test_a_hostile_repository_runs_nothing(place: Place, tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    project = repository(place.project, **dict.fromkeys(("plain.md", "a.txt", "x.odd", "y.l", "z.i"), "one\n"))
    nested = repository(place.project / "nested")
    git(nested, "config", "core.fsmonitor", str(trap.program))
    trap.set(project)
    await place.begin()
    kinds = (
        "*.txt filter=evil diff=evil merge=evil",
        "*.odd filter=odd=name",
        "*.l filter=long",
        "*.i filter=included",
    )
    (project / ".gitattributes").write_text("\n".join(kinds) + "\n")
    for name in ("plain.md", "a.txt", "x.odd", "y.l", "z.i"):
        (project / name).write_text("changed\n")
    (nested / "a.txt").write_text("changed\n")
    trap.spring(project)

    found = await place.changes()
    assert {"a.txt", "x.odd", "y.l", "z.i", "plain.md", ".gitattributes"} <= set(statuses(found))
    for file in found.files:
        if file.kind == "file":
            assert any(text.startswith("+") for text in texts(await place.diff(found, file.path)))
    for name in ("a.txt", "x.odd", "y.l", "z.i"):
        for action in (api.StageFiles(session=SESSION, keys=(name,)), api.DiscardFiles(session=SESSION, keys=(name,))):
            with pytest.raises(FairleadError) as refused:
                await place.do(action)
            assert refused.value.code == "filtered_file"
    await place.do(api.StageFiles(session=SESSION, keys=("plain.md", ".gitattributes")))
    await place.do(api.StageFiles(session=SESSION, keys=(".gitattributes",), staged=False))
    await place.do(api.CommitStaged(session=SESSION, message="by a person"))
    thrown = await place.do(api.DiscardFiles(session=SESSION, keys=(".gitattributes",)))
    await place.do(api.RestoreFiles(session=SESSION, keys=(".gitattributes",), tree=thrown.tree))
    await place.begin()
    assert not trap.ran.exists(), trap.ran.read_text()
    assert git(project, "-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "log", "--format=%s") == (
        b"by a person\nfirst\n"
    )


async def test_a_filter_that_appears_meanwhile_is_not_run(place: Place, tmp_path: Path) -> None:
    """The configuration of the repository is not read while its files are: there is no moment to win."""
    trap = Trap(tmp_path)
    project = repository(place.project, **{"a.txt": "one\n", ".gitattributes": "*.txt filter=fresh\n"})
    await place.begin()
    git(project, "config", "filter.fresh.clean", str(trap.program))
    (project / "a.txt").write_text("two\n")
    assert statuses(await place.changes()) == {"a.txt": "modified"}
    assert not trap.ran.exists()


async def test_a_repository_cannot_point_elsewhere(place: Place, tmp_path: Path) -> None:
    outside = repository(tmp_path / "outside", **{"secret.txt": "secret\n"})
    (place.project / ".git").write_text(f"gitdir: {outside / '.git'}\n")
    assert (await place.changes()).source == "log", "a git folder outside of the roots is none"
    (place.project / ".git").unlink()
    repository(place.project)
    (place.project / ".git" / "commondir").write_text(str(outside / ".git"))
    assert (await place.changes()).source == "log"
    (place.project / ".git" / "commondir").unlink()
    git(place.project, "config", "core.worktree", str(outside))
    await place.begin()
    (place.project / "b.txt").write_text("here\n")
    assert statuses(await place.changes()) == {"b.txt": "added"}


async def test_a_link_in_the_place_of_a_folder_is_not_followed(place: Place) -> None:
    (place.data / "token").write_text("secret of the gateway\n")
    (place.project / "sub").mkdir()
    (place.project / "sub" / "token").write_text("one\n")
    repository(place.project, **{"a.txt": "one\n"})
    await place.begin()
    (place.project / "sub" / "token").unlink()
    (place.project / "sub").rmdir()
    (place.project / "sub").symlink_to(place.data)
    found = await place.changes()
    assert statuses(found) == {"sub": "added", "sub/token": "deleted"}
    for file in found.files:
        assert "+secret of the gateway" not in texts(await place.diff(found, file.path))
    await place.do(api.DiscardFiles(session=SESSION, keys=("sub", "sub/token")))
    assert (place.data / "token").read_text() == "secret of the gateway\n"
    assert (place.project / "sub" / "token").read_text() == "one\n"


async def test_git_sees_no_more_than_an_agent_does(tmp_path: Path) -> None:
    """A link that an agent swaps in at any moment leads into an empty folder: git runs in the agents' sandbox."""
    if not find_program():
        pytest.skip("bubblewrap is not installed")
    place = Place(tmp_path)
    (place.data / "token").write_text("secret of the gateway\n")
    sandbox = sandbox_of(find_program(), folders=(place.data,))
    assert problem_of(sandbox) == ""
    place.use(sandbox)
    repository(place.project, **{"a.txt": "one\n"})
    await place.begin()
    repository_of = await place.snapshots.repository_of(SESSION, str(place.project))
    assert repository_of is not None
    with pytest.raises(FairleadError):
        await repository_of.git("hash-object", "--no-filters", str(place.data / "token"))
    (place.project / "a.txt").write_text("two\n")
    found = await place.changes()
    assert texts(await place.diff(found, "a.txt")) == ["-one", "+two"]
    await place.do(api.StageFiles(session=SESSION, keys=("a.txt",)))
    await place.do(api.CommitStaged(session=SESSION, message="in the sandbox"))
    assert git(place.project, "log", "-1", "--format=%s") == b"in the sandbox\n"


async def test_reviews_go_on_while_the_agent_writes(place: Place) -> None:
    """Files that appear, vanish and change their kind under a snapshot fail at most that snapshot."""
    project = repository(place.project)
    await place.begin()
    done = asyncio.Event()

    def churn() -> None:
        for round in range(60):
            for number in range(20):
                path = project / f"f{number}"
                if path.is_symlink() or path.exists():
                    path.unlink()
                if round % 3 == 0:
                    path.symlink_to("/etc/passwd")
                else:
                    path.write_text(f"{round}\n" * 50)
        for number in range(20):
            os.unlink(project / f"f{number}")

    async def review() -> None:
        while not done.is_set():
            with contextlib.suppress(Unavailable):
                await place.changes()

    reviewing = asyncio.create_task(review())
    await asyncio.to_thread(churn)
    done.set()
    await reviewing
    assert statuses(await place.changes()) == {}
