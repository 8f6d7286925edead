"""Paths: where they lead, also through real links, and which paths patterns cover."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.policy import Behavior, PermissionMode
from fairlead.sessions.permissions.policy.paths import (
    BadPath,
    absolute,
    inside,
    pattern_covers,
    readings,
    static_part,
    tidy,
)
from sessions.policy.fake_folders import judge, judge_line


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a", "/w/a"), ("./a/../b", "/w/./a/../b"), ("/a", "/a"), ("~", "/h"), ("~/x", "/h/x")],
)
def test_a_path_begins_at_the_working_folder_the_root_or_the_home(path: str, expected: str) -> None:
    assert absolute(path, "/w", "/h") == expected


@pytest.mark.parametrize("path", ["", "a\0b", "~other/x", "x" * 5000])
def test_a_path_that_leads_nowhere_known_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        absolute(path, "/w", "/h")


def test_a_path_in_an_unknown_home_leads_nowhere() -> None:
    with pytest.raises(BadPath):
        absolute("~/x", "/w", None)


def test_a_link_that_cannot_be_followed_leads_nowhere() -> None:
    def loop(path: str) -> str:
        raise OSError(path)

    with pytest.raises(BadPath):
        readings("x", "/w", "/h", loop)


@pytest.mark.parametrize(("path", "expected"), [("//a//b/", "/a/b"), ("/a/./b/..", "/a"), ("/..", "/"), ("/", "/")])
def test_tidying(path: str, expected: str) -> None:
    assert tidy(path) == expected


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [("/a/b", "/a", True), ("/a", "/a", True), ("/ab", "/a", False), ("/a", "/a/b", False), ("/x", "/", True)],
)
def test_inside_compares_whole_names(path: str, folder: str, expected: bool) -> None:
    assert inside(path, folder) is expected


@pytest.mark.parametrize(
    ("pattern", "path", "below", "expected"),
    [
        ("/a/**", "/a/b/c", False, True),
        ("/a/**", "/a", False, True),
        ("/a/**", "/ab", False, False),
        ("/a/**/c", "/a/c", False, True),
        ("/a/**/c", "/a/x/y/c", False, True),
        ("/a/*", "/a/b", False, True),
        ("/a/*", "/a/b/c", False, False),
        ("/a/*", "/a/b/c", True, True),
        ("/a/?", "/a/b", False, True),
        ("/a/?", "/a/bc", False, False),
        ("/a/*.py", "/a/x.py", False, True),
        ("/a/*.py", "/a/x.pyc", False, False),
        ("/a", "/a/b", False, False),
        ("/a", "/a/b", True, True),
        ("/a/.env", "/a/xenv", False, False),
        ("/", "/", False, True),
        ("/", "/a", True, True),
        ("/**", "/a/b", False, True),
        ("/a/***x", "/a/yx", False, True),
    ],
)
def test_paths_that_a_pattern_covers(pattern: str, path: str, below: bool, expected: bool) -> None:
    assert pattern_covers(pattern, path, below=below) is expected


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "c.py"]), min_size=1, max_size=6))
def test_a_pattern_covers_only_paths_in_the_folder_before_its_wildcard(parts: list[str]) -> None:
    path = tidy("/" + "/".join(parts))
    if pattern_covers("/a/b/**", path, below=True):
        assert inside(path, "/a/b")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("/a/b/*.py", "/a/b"), ("/a/b", "/a/b"), ("/*", "/"), ("/a/b*/c", "/a"), ("/a/{b,c}", "/a")],
)
def test_the_folder_before_a_wildcard(pattern: str, expected: str) -> None:
    assert static_part(pattern) == expected


class TestRealLinks:
    """With real files: a link is judged by its target."""

    @pytest.fixture
    def tree(self) -> Iterator[Path]:
        # Not in memory (/dev/shm): for the policy everything below /dev is a device.
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            yield self.planted(Path(folder))

    def planted(self, at: Path) -> Path:
        for folder in ("project/src", "project/deep/er", "outside", "data"):
            (at / folder).mkdir(parents=True)
        (at / "project/out").symlink_to(at / "outside")
        (at / "project/token").symlink_to(at / "data/token")
        (at / "project/in").symlink_to("src")
        (at / "project/down").symlink_to(at / "outside/sub")
        (at / "outside/sub").mkdir()
        (at / "project/loop").symlink_to("loop")
        (at / "alias").symlink_to("project")
        return at

    def read(self, tree: Path, path: str, **more: object) -> Behavior:
        where = {"cwd": str(tree / "project"), "roots": (str(tree / "project"),), "resolve": os.path.realpath, **more}
        return judge("Read", {"file_path": path}, **where).behavior

    def test_inside_is_read_without_asking_also_through_a_link(self, tree: Path) -> None:
        assert self.read(tree, "src/a") is Behavior.ALLOW
        assert self.read(tree, "in/a") is Behavior.ALLOW
        assert self.read(tree, str(tree / "alias/src/a")) is Behavior.ALLOW

    def test_a_link_that_leads_out_asks(self, tree: Path) -> None:
        assert self.read(tree, "out/a") is Behavior.ASK
        assert self.read(tree, str(tree / "project/out/a")) is Behavior.ASK

    def test_both_readings_of_dots_behind_a_link_must_be_inside(self, tree: Path) -> None:
        # Tidied, down/../src/a is project/src/a; the kernel follows the link first and opens outside/src/a.
        assert self.read(tree, "down/../src/a") is Behavior.ASK
        assert self.read(tree, "deep/../src/a") is Behavior.ALLOW

    def test_a_loop_of_links_stays_where_it_is_written(self, tree: Path) -> None:
        assert self.read(tree, "loop/../../outside/x") is Behavior.ASK

    def test_an_edit_through_a_link_that_leads_out_asks(self, tree: Path) -> None:
        where = {"cwd": str(tree / "project"), "roots": (str(tree / "project"),), "resolve": os.path.realpath}
        edits = {**where, "mode": PermissionMode.ACCEPT_EDITS}
        assert judge("Write", {"file_path": "out/a", "content": ""}, **edits).behavior is Behavior.ASK
        assert judge("Write", {"file_path": "in/a", "content": ""}, **edits).behavior is Behavior.ALLOW
        allowed = {**edits, "allow": ["Bash(echo:*)"]}
        assert judge_line("echo hi > out/a", **allowed).behavior is Behavior.ASK
        assert judge_line("echo hi > in/a", **allowed).behavior is Behavior.ALLOW

    def test_rules_follow_links_on_both_sides(self, tree: Path) -> None:
        elsewhere = str(tree / "outside")
        assert self.read(tree, "out/a", allow=[f"Read({elsewhere}/**)"]) is Behavior.ALLOW
        assert self.read(tree, f"{elsewhere}/a", allow=["Read(out/**)"]) is Behavior.ALLOW
        # A rule for a folder does not reach through a link inside it.
        assert self.read(tree, "out/a", allow=["Read(./**)"]) is Behavior.ASK
        # A deny applies to the name and to the target.
        assert self.read(tree, "in/a", deny=["Read(src)"]) is Behavior.DENY
        assert self.read(tree, "in/a", deny=["Read(in/**)"]) is Behavior.DENY
        assert self.read(tree, "src/a", deny=["Read(in/**)"]) is Behavior.DENY

    def test_the_fence_follows_links(self, tree: Path) -> None:
        from fairlead.sessions.permissions.policy.call import Fences

        fences = Fences((str(tree / "data"),))
        assert self.read(tree, "token", fences=fences, allow=["Read"]) is Behavior.DENY
        where = {"cwd": str(tree / "project"), "resolve": os.path.realpath, "fences": fences, "allow": ["Bash"]}
        assert judge_line("cat token", **where).behavior is Behavior.DENY
        assert judge_line("cd .. && cat data/token", **where).behavior is Behavior.DENY
