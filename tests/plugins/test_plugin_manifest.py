"""Manifests and the plugin folder: what is accepted, errors for the rest, and what a digest covers."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import BadRequest
from fairlead.plugins.catalog import MOST, scan
from fairlead.plugins.manifest import NAME, is_below, read_manifest
from plugins.harness import PROGRAMS, write_manifest, write_plugin

GOOD = {"name": "board", "displayName": "Board", "entry": "index.js"}


def manifest(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


@pytest.mark.parametrize(
    ("server", "argv"),
    [
        (None, ()),
        ("server.py", ("python", "server.py")),
        ("dist/server.js", ("node", "dist/server.js")),
        ("run", ("./run",)),
        (["ruby", "server.rb", "--quiet"], ("ruby", "server.rb", "--quiet")),
    ],
)
def test_the_server_becomes_a_list_of_arguments(server: Any, argv: tuple[str, ...]) -> None:
    assert read_manifest(manifest(server=server)).argv({".py": "python", ".js": "node"}) == argv


def test_fields_for_other_hosts_are_ignored() -> None:
    read = read_manifest(manifest(permissions=["all"], minHostVersion="9", icon="Activity", version="1.2"))
    assert (read.icon, read.version, read.type, read.slot) == ("Activity", "1.2", "module", "tab")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"x":' + b"[" * 100_000, "not JSON"),
        (b"[]", "does not fit"),
        (b'{"name": "a", "entry": "x.js"}', "displayName"),
        (manifest(name=""), "name"),
        (manifest(name="../evil"), "name"),
        (manifest(name="a" * 65), "name"),
        (manifest(name="bad name"), "name"),
        (manifest(entry=""), "entry"),
        (manifest(entry="../index.js"), "entry"),
        (manifest(entry="/etc/passwd"), "entry"),
        (manifest(server="../../bin/sh"), "server"),
        (manifest(server="/bin/sh"), "server"),
        (manifest(server="a\0b"), "server"),
        (manifest(server=[]), "server"),
        (manifest(server=["sh", ""]), "server"),
        (manifest(server=["sh", "a\0b"]), "server"),
        (manifest(server=7), "server"),
        (manifest(icon="../x.svg"), "icon"),
    ],
)
def test_an_invalid_manifest_gives_the_reason(data: bytes, word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        read_manifest(data)


@given(st.binary(max_size=200) | st.dictionaries(st.sampled_from([*GOOD, "server"]), st.text()).map(json.dumps))
def test_any_file_is_a_manifest_or_an_error(data: bytes | str) -> None:
    try:
        read = read_manifest(data.encode() if isinstance(data, str) else data)
    except BadRequest:
        return
    assert NAME.fullmatch(read.name) and is_below(read.entry)


def test_a_digest_changes_only_with_the_manifest_and_the_files_that_it_names(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)

    def digest() -> str:
        return scan(tmp_path, PROGRAMS)["strange"].digest

    seen = [digest()]
    (made / "data.txt").write_text("its own business")
    assert digest() == seen[0]
    for name in ("manifest.json", "server.py", "index.js"):
        before = (made / name).read_text()
        (made / name).write_text(before + "\n")
        seen.append(digest())
        (made / name).write_text(before)
    assert len(set(seen)) == 4 and digest() == seen[0]


def test_moving_content_between_files_changes_the_digest(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    (made / "index.js").write_text("ab")
    (made / "server.py").write_text("c")
    first = scan(tmp_path, PROGRAMS)["strange"].digest
    (made / "index.js").write_text("a")
    (made / "server.py").write_text("bc")
    assert scan(tmp_path, PROGRAMS)["strange"].digest != first


def test_other_folders_are_skipped_and_broken_plugins_reported(tmp_path: Path) -> None:
    write_plugin(tmp_path, "good")
    (tmp_path / "nothing").mkdir()
    (tmp_path / ".hidden").mkdir()
    write_manifest(tmp_path / ".hidden", name="hidden")
    (tmp_path / "file").write_text("")
    missing = write_plugin(tmp_path, "missing")
    (missing / "server.py").unlink()
    outside = write_plugin(tmp_path, "outside")
    (outside / "index.js").unlink()
    (outside / "index.js").symlink_to("/etc/hostname")
    twice = tmp_path / "zwice"
    write_plugin(tmp_path, "zwice")
    write_manifest(twice, name="good")
    found = scan(tmp_path, PROGRAMS)
    assert sorted(found) == ["good", "missing", "outside", "zwice"]
    assert found["good"].problem == "" and found["good"].folder == str(tmp_path / "good")
    assert "server.py cannot be read" in found["missing"].problem
    assert "leads out" in found["outside"].problem
    assert "already" in found["zwice"].problem and found["zwice"].digest == ""


def test_the_number_of_plugins_read_is_limited(tmp_path: Path) -> None:
    assert scan(tmp_path / "missing", PROGRAMS) == {}
    for number in range(MOST + 5):
        (tmp_path / f"p{number:03}").mkdir()
        write_manifest(tmp_path / f"p{number:03}", name=f"p{number:03}", server="")
    assert len(scan(tmp_path, PROGRAMS)) == MOST


def test_a_plugin_may_be_a_symlink_to_another_folder(tmp_path: Path) -> None:
    real = write_plugin(tmp_path / "elsewhere", "mine")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "linked").symlink_to(real)
    found = scan(tmp_path / "plugins", PROGRAMS)["mine"]
    assert (found.folder, found.problem) == (str(real), "")
