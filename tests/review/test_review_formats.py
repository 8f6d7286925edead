"""The parsers of git's output: whatever the names and the content of files are."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import BadRequest
from fairlead.review import formats
from fairlead.review.formats import DiffRow, LineCount, RawChange
from sizing import examples

HASH = "a" * 40
NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name)
PARTS = NAMES.filter(lambda name: b"/" not in name and name not in (b".", b"..") and name.lower() != b".git")
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(b"/".join)
LINES = st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=12), max_size=12)


def rename(status: str) -> bool:
    return status in ("renamed", "copied")


@given(st.lists(st.tuples(st.sampled_from(["M", "A", "D", "T", "R087", "C100", "U"]), PATHS, PATHS), max_size=6))
def test_raw_changes_are_read_whatever_the_names_are(entries: list[tuple[str, bytes, bytes]]) -> None:
    data = b""
    for status, path, other in entries:
        data += f":100644 100755 {HASH} {HASH} {status}".encode() + b"\0" + path + b"\0"
        data += other + b"\0" if status[0] in "RC" else b""
    found = formats.raw_changes(data)
    assert [(one.old_path, one.path) for one in found] == [
        (path, other if status[0] in "RC" else path) for status, path, other in entries
    ]
    assert all((one.old_path != one.path) <= rename(one.status) for one in found)


@given(st.dictionaries(PATHS, st.tuples(st.integers(0, 999), st.integers(0, 999), st.booleans()), max_size=6))
def test_line_counts_are_read_whatever_the_names_are(entries: dict[bytes, tuple[int, int, bool]]) -> None:
    data = b""
    for path, (added, removed, moved) in entries.items():
        data += b"%d\t%d\t" % (added, removed) + (b"\0old name\0" if moved else b"") + path + b"\0"
    data += b"-\t-\tpicture\xff.png\0"
    found = formats.line_counts(data)
    assert found.pop(b"picture\xff.png") == LineCount(binary=True)
    assert found == {path: LineCount(added, removed) for path, (added, removed, _) in entries.items()}


@given(PATHS)
def test_a_key_names_exactly_its_path(path: bytes) -> None:
    key = formats.file_key(path)
    assert key.isascii()
    assert formats.path_of(key) == path


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".git/config", "x/.GIT/hooks", "a%00b"]
)
def test_a_key_that_leaves_the_repository_is_rejected(key: str) -> None:
    with pytest.raises(BadRequest):
        formats.path_of(key)


def shown(rows: list[DiffRow], side: str) -> list[tuple[int, str]]:
    """The lines of the old or the new file that a diff shows."""
    signs = " -" if side == "old" else " +"
    return [(getattr(row, side), row.text) for row in rows if row.sign in signs]


@pytest.mark.process
@examples(30, 300)
@given(LINES, LINES)
def test_a_diff_shows_both_files_in_one_and_in_two_columns(old: list[str], new: list[str]) -> None:
    """With enough context a diff has every line of both files, with its number."""
    with tempfile.TemporaryDirectory() as folder:
        texts = ["".join(f"{line}\n" for line in lines) for lines in (old, new)]
        for name, text in zip(("old", "new"), texts, strict=True):
            Path(folder, name).write_bytes(text.encode())
        arguments = ("git", "diff", "--no-index", "--text", "-U100", "old", "new")
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        data = subprocess.run(arguments, cwd=folder, env=env, check=False, stdout=subprocess.PIPE).stdout
    rows = formats.diff_rows(data)
    if old == new:
        assert rows == []
        return
    assert shown(rows, "old") == list(enumerate(old, 1))
    assert shown(rows, "new") == list(enumerate(new, 1))
    pairs = list(formats.pairs(rows))
    left = [pair.left for pair in pairs if pair.left is not None]
    right = [pair.right for pair in pairs if pair.right is not None]
    assert shown(left, "old") == shown(rows, "old")
    assert shown(right, "new") == shown(rows, "new")


def test_a_note_about_the_end_of_a_file_stays_with_its_line() -> None:
    data = b"--- a\n+++ b\n@@ -1 +1 @@ def f():\n-x\n\\ No newline at end of file\n+y\n"
    rows = formats.diff_rows(data)
    assert [row.sign for row in rows] == ["@", "-", "\\", "+"]
    assert rows[0].text == "def f():"
    assert [(pair.left and pair.left.sign, pair.right and pair.right.sign) for pair in formats.pairs(rows)] == [
        ("@", "@"),
        ("-", "+"),
        ("\\", None),
    ]


def test_a_very_long_line_is_cut() -> None:
    (_, row) = formats.diff_rows(b"@@ -0,0 +1 @@\n+" + b"x" * 100_000 + b"\n")
    assert len(row.text) == formats.LINE_CHARACTERS + 2


def test_lines_of_a_diff_that_look_like_headings_are_content() -> None:
    rows = formats.diff_rows(b"diff --git a/x b/x\n@@ -1 +1,2 @@\n-@@ -1 +1 @@\n+@@ -5 +5 @@\n+--- a\n")
    assert [row.sign + row.text for row in rows] == ["@", "-@@ -1 +1 @@", "+@@ -5 +5 @@", "+--- a"]


def test_the_old_path_of_a_change_that_is_no_rename_is_its_path() -> None:
    (found,) = formats.raw_changes(f":100644 000000 {HASH} {'0' * 40} D\0gone\0".encode())
    assert found == RawChange("deleted", b"gone", b"gone", "100644", "000000", HASH, "0" * 40)


@given(st.binary(max_size=20).filter(lambda path: b"\0" not in path))
def test_a_quoted_path_has_no_separator_in_it(path: bytes) -> None:
    made = formats.quoted(path)
    assert made.startswith(b'"')
    assert b"\n" not in made
    assert made[1:-1].decode("unicode_escape").encode("latin-1") == path
