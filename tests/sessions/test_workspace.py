"""Reading a project: paths inside the roots are shown, all others are not found, and an untrusted repository runs
nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, NotFound, TooLarge
from fairlead.sessions.api.workspace import FileEntry, GitText, NotRepository, ReadFile, ReadGit, ReadTree
from fairlead.sessions.folders import workspace
from fairlead.sessions.folders.workspace import WorkspaceReader
from fairlead.system.readable_paths import ReadablePaths
from sessions.harness import ANN


def resolve(path: str) -> str:
    return os.path.realpath(path)


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root / "root"
        self.project = self.root / "project"
        self.project.mkdir(parents=True)
        self.closed = self.root / "data"
        self.closed.mkdir()
        (self.closed / "admin-token").write_text("fl_secret")
        (root / "outside").write_text("outside")
        self.does = WorkspaceReader(ReadablePaths([str(self.root)], [str(self.closed)]), resolve).handlers()

    async def file(self, path: str) -> bytes:
        data: bytes = await self.does[ReadFile](ANN, ReadFile(str(self.project), path))
        return data

    async def tree(self, folder: Path | None = None) -> tuple[FileEntry, ...]:
        found: tuple[FileEntry, ...] = await self.does[ReadTree](ANN, ReadTree(str(folder or self.project)))
        return found

    async def git(self, what: str, name: str = "", count: int = 0) -> GitText:
        output: GitText = await self.does[ReadGit](
            ANN,
            ReadGit(str(self.project), what, name, count),  # type: ignore[arg-type]
        )
        return output


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def run(folder: Path, *words: str, check: bool = True) -> bytes:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    return subprocess.run(("git", *who, *words), cwd=folder, env=env, check=check, capture_output=True).stdout


def repository(folder: Path) -> None:
    run(folder, "init", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    run(folder, "add", ".")
    run(folder, "commit", "-m", "first")


async def test_one_level_of_a_tree(place: Place) -> None:
    (place.project / "sub").mkdir()
    (place.project / "sub" / "deep.txt").write_text("x")
    (found,) = await place.does[ReadTree](ANN, ReadTree(str(place.project), 0))
    assert (found.name, found.folder, found.children) == ("sub", True, ())


async def test_a_tree_lists_folders_first_and_does_not_leave_the_roots(place: Place, tmp_path: Path) -> None:
    (place.project / "sub").mkdir()
    (place.project / "sub" / "deep.txt").write_text("x")
    (place.project / "b.txt").write_text("bb")
    (place.project / "node_modules").mkdir()
    (place.project / "node_modules" / "many.js").write_text("")
    (place.project / "out").symlink_to(tmp_path / "outside")
    (place.project / "gateway").symlink_to(place.closed)
    (place.project / "loop").symlink_to(place.project)
    (place.project / ".ssh").mkdir()
    os.mkfifo(place.project / "pipe")
    found = await place.tree()
    assert [(one.name, one.folder) for one in found] == [
        ("loop", True),
        ("node_modules", True),
        ("sub", True),
        ("b.txt", False),
    ]
    by_name = {one.name: one for one in found}
    assert [one.name for one in by_name["sub"].children] == ["deep.txt"]
    assert by_name["loop"].children == by_name["node_modules"].children == ()
    assert by_name["b.txt"].size == 2
    assert "data" not in {one.name for one in await place.tree(place.root)}
    with pytest.raises(NotFound):
        await place.tree(place.closed)


async def test_a_tree_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "ENTRIES", 10)
    for number in range(30):
        (place.project / f"{number}.txt").write_text("")
    assert len(await place.tree()) == 10


async def test_a_file_is_read_wherever_it_lies_inside_the_roots(place: Place) -> None:
    (place.project / "a.txt").write_text("words")
    (place.project / "link").symlink_to("a.txt")
    assert await place.file("a.txt") == await place.file("link") == b"words"
    assert await place.file(str(place.project / "a.txt")) == b"words"


OUTSIDE = ("../data/admin-token", "gateway/admin-token", "../../outside", "/etc/passwd", "/proc/self/environ")
NO_FILE = ("none", ".", "", "pipe", ".ssh/id", ".git/index", "/proc/self/cwd")


@pytest.mark.parametrize("path", [*OUTSIDE, *NO_FILE])
async def test_a_path_that_is_outside_closed_or_not_a_file_is_not_found(place: Place, path: str) -> None:
    (place.project / "gateway").symlink_to(place.closed)
    (place.project / ".ssh").mkdir()
    (place.project / ".ssh" / "id").write_text("key")
    (place.project / ".git").mkdir()
    (place.project / ".git" / "index").write_text("which objects there are")
    os.mkfifo(place.project / "pipe")
    with pytest.raises(NotFound):
        await place.file(path)


async def test_a_file_that_is_too_large_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "FILE", 10)
    (place.project / "a.txt").write_text("more than ten")
    with pytest.raises(TooLarge):
        await place.file("a.txt")


@pytest.mark.process
async def test_git_shows_the_changes(place: Place) -> None:
    with pytest.raises(NotRepository):
        await place.git("status")
    repository(place.project)
    (place.project / "a.txt").write_text("two\n")
    (place.project / "new.txt").write_text("new\n")
    status = await place.git("status")
    assert status.ok
    assert b"# branch.head main" in status.data and b"? new.txt" in status.data
    diff = await place.git("diff", "a.txt")
    assert b"-one\n+two\n" in diff.data
    old = await place.git("old", "a.txt")
    assert old.data == b"one\n"
    log = await place.git("log", count=5)
    assert log.data.count(b"first") == 1
    commit = log.data.split(b"\0")[0].decode()
    shown = await place.git("commit", commit)
    assert b"+one" in shown.data
    for name in ("HEAD", "--output=/tmp/x", "main"):
        with pytest.raises(BadRequest):
            await place.git("commit", name)
    for name in ("../../outside", "", "/etc/passwd"):
        with pytest.raises(NotFound):
            await place.git("diff", name)


EVIL = {
    "core.fsmonitor": "{0}",
    "core.sshCommand": "{0}",
    "core.pager": "{0}",
    "core.hooksPath": "{1}",
    "diff.external": "{0}",
    "diff.evil.command": "{0}",
    "diff.evil.textconv": "{0}",
    "filter.evil.clean": "{0}",
    "filter.evil.smudge": "{0}",
    "filter.odd=name.clean": "{0}",
    "filter.long.process": "{0}",
    "filter.long.required": "true",
    "log.showSignature": "true",
    "gpg.program": "{0}",
    "extensions.partialClone": "origin",
    "remote.origin.promisor": "true",
    "remote.origin.url": "ext::sh -c {0}",
    "protocol.ext.allow": "always",
}


@pytest.mark.process
async def test_a_hostile_repository_runs_nothing(place: Place, tmp_path: Path) -> None:
    repository(place.project)
    ran = tmp_path / "ran"
    evil = tmp_path / "evil.sh"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
    evil.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit"):
        (hooks / hook).symlink_to(evil)
    kinds = ("*.txt filter=evil diff=evil", "*.odd filter=odd=name", "*.l filter=long")
    (place.project / ".gitattributes").write_text("\n".join(kinds) + "\n")
    for name in ("x.odd", "y.l"):
        (place.project / name).write_text("one\n")
    run(place.project, "add", ".")
    run(place.project, "commit", "-m", "second")
    for key, value in EVIL.items():
        run(place.project, "config", key, value.format(evil, hooks))
    for name in ("a.txt", "x.odd", "y.l"):
        (place.project / name).write_text("changed\n")
    # The same commands without the gateway's precautions do run it: the trap is real.
    run(place.project, "--no-pager", "diff", "HEAD", check=False)
    assert ran.exists()
    ran.unlink()
    head = await place.git("log", count=1)
    assert head.ok
    for what, name in (
        ("status", ""),
        ("diff", "a.txt"),
        ("diff", "x.odd"),
        ("diff", "y.l"),
        ("commit", head.data.split(b"\0")[0].decode()),
        ("old", "a.txt"),
        ("old", "missing"),
        ("branches", ""),
        ("upstream", ""),
        ("remotes", ""),
    ):
        output = await place.git(what, name)
        if what == "diff":
            assert output.ok and b"+changed" in output.data
    assert not ran.exists(), ran.read_text()


@pytest.mark.process
async def test_a_repository_cannot_point_elsewhere(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    repository(other)
    (place.project / ".git").write_text(f"gitdir: {other / '.git'}\n")
    with pytest.raises(NotRepository):
        await place.git("log", count=1)
    (place.project / ".git").unlink()
    repository(place.project)
    run(place.project, "config", "core.worktree", "/etc")
    output = await place.git("status")
    assert b"hostname" not in output.data


@pytest.mark.process
async def test_git_shows_nothing_of_closed_files_in_a_repository(place: Place) -> None:
    odd = place.project / "a[b]*"
    for folder in (odd, place.project / "data", place.project / "deep" / ".ssh"):
        folder.mkdir(parents=True)
    closed = [odd / "settings", odd / "settings.old", place.project / "data" / "log", place.project / "deep/.ssh/id"]
    shown = [place.project / "ab" / "settings", place.project / "data.txt", place.project / "deep" / "id"]
    (place.project / "ab").mkdir()
    for path in closed:
        path.write_text("closed\n")
    for path in shown:
        path.write_text("shown\n")
    paths = ReadablePaths([str(place.root)], [str(place.project / "data")], [str(odd / "settings")])
    place.does = WorkspaceReader(paths, resolve).handlers()
    repository(place.project)
    log = await place.git("log", count=1)
    commit = await place.git("commit", log.data.split(b"\0")[0].decode())
    assert commit.ok
    assert (commit.data.count(b"+shown"), commit.data.count(b"+closed")) == (len(shown), 0)
    for path in (*closed, *shown):
        path.write_text("changed\n")
    status = await place.git("status")
    assert {line.rpartition(b" ")[2] for line in status.data.split(b"\0") if line.startswith(b"1 ")} == {
        str(path.relative_to(place.project)).encode() for path in shown
    }
    diff = await place.git("diff", ".")
    assert diff.data.count(b"+changed") == len(shown)
    for path in closed:
        for what in ("diff", "old"):
            with pytest.raises(NotFound):
                await place.git(what, str(path.relative_to(place.project)))
    # A file's content hash gives nothing either: it is not a commit.
    blob = run(place.project, "rev-parse", "HEAD:data/log").strip().decode()
    output = await place.git("commit", blob)
    assert not output.ok and output.data == b""
    # A name is taken literally, not as a pattern.
    nothing = await place.git("diff", ":(glob)**")
    assert nothing.data == b""


async def test_within_a_folder_nothing_outside_it_is_read_or_listed(place: Place) -> None:
    sub, beside = place.project / "sub", place.project / "beside"
    sub.mkdir()
    beside.mkdir()
    (beside / "secret.txt").write_text("no")
    (sub / "own.txt").write_text("yes")
    (sub / "out").symlink_to(beside)
    (sub / "file-out").symlink_to(beside / "secret.txt")
    (sub / "in").symlink_to(sub / "own.txt")
    within = str(sub)

    async def read(path: str) -> bytes:
        data: bytes = await place.does[ReadFile](ANN, ReadFile(within, path, within=within))
        return data

    assert await read("own.txt") == await read("in") == b"yes"
    for path in ("../beside/secret.txt", "out/secret.txt", "file-out", str(beside / "secret.txt"), "own.txt\0"):
        with pytest.raises((NotFound, BadRequest)):
            await read(path)
    tree: tuple[FileEntry, ...] = await place.does[ReadTree](ANN, ReadTree(within, within=within))
    assert [entry.name for entry in tree] == ["in", "own.txt"]
    for folder in (beside, sub / "out", sub / ".."):
        with pytest.raises(NotFound):
            await place.does[ReadTree](ANN, ReadTree(str(folder), within=within))
