"""Fetching claudecodeui's app, with a stand-in for npm: by its hash, the front end alone, completely or not at all."""

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tooling.fake_programs import put_npm
from tools import cloudcli_app
from tools.clis import InstallFailed
from tools.cloudcli_app import app_folder, fetch_app

pytestmark = pytest.mark.process

NPM = """#!/bin/sh
echo "$*" >> "$NPM_LOG"
[ -n "$NPM_FAILS" ] && exit 1
cp "$NPM_ARCHIVE" "$4/app.tgz"
"""


def archive(folder: Path) -> Path:
    """A package with a front end, a server, a link, and a file whose path leads out of the folder."""
    made = folder / "made.tgz"
    with tarfile.open(made, "w:gz") as packed:
        for name in ("dist/index.html", "dist/assets/app.js", "server/index.js", "dist/../../escaped"):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(name)
            packed.addfile(member, io.BytesIO(name.encode()))
        link = tarfile.TarInfo("package/dist/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    return made


@pytest.fixture
def npm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = archive(tmp_path)
    digest = base64.b64encode(hashlib.sha512(made.read_bytes()).digest()).decode()
    monkeypatch.setattr(cloudcli_app, "INTEGRITY", f"sha512-{digest}")
    monkeypatch.setenv("NPM_ARCHIVE", str(made))
    return put_npm(tmp_path, monkeypatch, NPM)


def kept() -> list[str]:
    return [path.name for path in app_folder().parents[1].iterdir()]


def test_only_the_front_end_is_extracted_and_only_once(npm_runs: Path) -> None:
    fetch_app()
    fetch_app()
    (run,) = npm_runs.read_text().splitlines()
    assert run.startswith("pack @cloudcli-ai/cloudcli@1.37.2 ")
    found = sorted(str(path.relative_to(app_folder())) for path in app_folder().rglob("*") if not path.is_dir())
    assert found == ["assets/app.js", "index.html"]
    assert kept() == ["1.37.2"]


def test_an_archive_with_another_hash_is_not_opened(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudcli_app, "INTEGRITY", "sha512-other")
    with pytest.raises(InstallFailed, match="not the pinned one"):
        fetch_app()
    assert kept() == []


def test_a_failed_fetch_leaves_nothing_and_can_be_repeated(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(InstallFailed, match="npm pack` failed"):
        fetch_app()
    assert kept() == []
    monkeypatch.setenv("NPM_FAILS", "")
    fetch_app()
    assert (app_folder() / "index.html").exists()


def test_without_npm_it_says_what_to_install(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(npm_runs.parent / "nowhere"))
    with pytest.raises(InstallFailed, match="install nodejs and npm"):
        fetch_app()
