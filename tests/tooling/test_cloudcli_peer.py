"""Fetching claudecodeui for the benchmark, with a stand-in for npm: by its hash, compiled here, all or nothing."""

from pathlib import Path

import pytest

from tooling.fake_programs import put_npm
from tools.clis import InstallFailed
from tools.cloudcli_app import INTEGRITY
from tools.cloudcli_peer import fetch_peer, peer_program

pytestmark = pytest.mark.process

NPM = """#!/bin/sh
echo "$*" >> "$NPM_LOG"
[ "$NPM_FAILS" = "$1" ] && exit 1
[ "$1" = install ] || exit 0
mkdir -p node_modules/@cloudcli-ai/cloudcli/dist-server/server
echo program > node_modules/@cloudcli-ai/cloudcli/dist-server/server/index.js
cat > node_modules/.package-lock.json <<END
{"packages": {"node_modules/@cloudcli-ai/cloudcli": {"integrity": "$NPM_INTEGRITY"}}}
END
"""


@pytest.fixture
def npm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NPM_INTEGRITY", INTEGRITY)
    return put_npm(tmp_path, monkeypatch, NPM)


def kept() -> list[Path]:
    return list(peer_program().parents[5].parent.iterdir())


def test_it_is_fetched_once_and_only_its_database_is_compiled(npm_runs: Path) -> None:
    fetch_peer()
    fetch_peer()
    install, rebuild = npm_runs.read_text().splitlines()
    assert install.startswith("install --ignore-scripts ")
    assert rebuild.startswith("rebuild better-sqlite3 ")
    assert peer_program().read_text() == "program\n"
    assert [path.name for path in kept()] == ["1.37.2"]


@pytest.mark.parametrize("step", ["install", "rebuild"])
def test_a_failed_fetch_leaves_nothing_and_says_which_step(
    npm_runs: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setenv("NPM_FAILS", step)
    with pytest.raises(InstallFailed, match=f"npm {step}` failed"):
        fetch_peer()
    assert kept() == []


def test_a_package_with_another_hash_is_not_kept(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_INTEGRITY", "sha512-other")
    with pytest.raises(InstallFailed, match="not the pinned one"):
        fetch_peer()
    assert kept() == []
