"""Fetching VS Code's server, with a stand-in for npm: by its hash, without what it does not need, completely or not at
all."""

import io
import tarfile
from pathlib import Path

import pytest

from tooling.fake_programs import put_npm
from tools import vscode_server
from tools.clis import InstallFailed
from tools.cloudcli_app import integrity_of
from tools.vscode_server import MODULES, fetch_server, server_command, server_folder, why_no_server

pytestmark = pytest.mark.process

NPM = """#!/bin/sh
echo "$*" >> "$NPM_LOG"
if [ "$1" = pack ]; then cp "$NPM_ARCHIVE" "$4/code-server.tgz"; fi
"""


@pytest.fixture
def npm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "made.tgz"
    with tarfile.open(made, "w:gz") as packed:
        for name in ("out/server-main.js", "extensions/git/package.json", "product.json", "bin/x", "out/../../escaped"):
            member = tarfile.TarInfo(f"package/lib/vscode/{name}")
            member.size = len(name)
            packed.addfile(member, io.BytesIO(name.encode()))
        packed.addfile(tarfile.TarInfo("package/out/node/entry.js"))
    monkeypatch.setattr(vscode_server, "INTEGRITY", integrity_of(made))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("NPM_ARCHIVE", str(made))
    return put_npm(tmp_path, monkeypatch, NPM)


def test_only_vs_codes_server_is_extracted_and_only_once(npm_runs: Path) -> None:
    assert why_no_server() is not None
    fetch_server()
    fetch_server()
    assert why_no_server() is None
    modules, server = npm_runs.read_text().splitlines()
    assert modules.startswith("ci --ignore-scripts ") and server.startswith("pack code-server@4.139.1 ")
    found = sorted(str(path.relative_to(server_folder())) for path in server_folder().rglob("*") if path.is_file())
    assert found == ["extensions/git/package.json", "out/server-main.js", "product.json"]
    node, script = server_command()
    assert node.startswith(str(MODULES.folder)) and script == str(server_folder() / "out" / "server-main.js")


def test_an_archive_with_another_hash_is_not_opened(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vscode_server, "INTEGRITY", "sha512-other")
    with pytest.raises(InstallFailed, match="not the pinned one"):
        fetch_server()
    assert why_no_server() is not None


def test_another_processor_has_no_server(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(InstallFailed, match="riscv64"):
        fetch_server()
    assert not npm_runs.exists()
