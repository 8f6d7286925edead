"""Fetching the real CLIs, with a stand-in for npm: completely or not at all, by hash, once, and outside the clone."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tooling.fake_programs import put_npm
from tools import clis
from tools.clis import RELEASES, InstallFailed, cache_folder, fetch, program_path

pytestmark = pytest.mark.process

RELEASE = replace(RELEASES[1], integrity="sha512-right")

NPM = """#!/bin/sh
echo run >> "$NPM_LOG"
[ -n "$NPM_FAILS" ] && exit 1
mkdir -p node_modules/@anthropic-ai/claude-code-linux-x64
echo program > node_modules/@anthropic-ai/claude-code-linux-x64/claude
cat > node_modules/.package-lock.json <<END
{"packages": {"node_modules/@anthropic-ai/claude-code-linux-x64": {"integrity": "$NPM_INTEGRITY"}}}
END
"""


@pytest.fixture
def npm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NPM_INTEGRITY", "sha512-right")
    return put_npm(tmp_path, monkeypatch, NPM)


def test_a_cli_is_fetched_once_and_is_a_program(npm_runs: Path) -> None:
    fetch(RELEASE)
    fetch(RELEASE)
    assert npm_runs.read_text() == "run\n"
    assert os.access(program_path(RELEASE.version), os.X_OK)
    assert [path.name for path in (cache_folder() / "cli").iterdir()] == [RELEASE.version]


def test_a_package_with_another_hash_is_not_installed(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_INTEGRITY", "sha512-wrong")
    with pytest.raises(InstallFailed, match="not the pinned one"):
        fetch(RELEASE)
    assert list((cache_folder() / "cli").iterdir()) == []


def test_a_failed_fetch_leaves_nothing_and_can_be_repeated(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(InstallFailed, match="npm could not install"):
        fetch(RELEASE)
    assert list((cache_folder() / "cli").iterdir()) == []
    monkeypatch.setenv("NPM_FAILS", "")
    fetch(RELEASE)
    assert program_path(RELEASE.version).exists()


def test_a_half_made_folder_is_replaced(npm_runs: Path) -> None:
    left = program_path(RELEASE.version).parent
    left.mkdir(parents=True)
    (left / "package.json").write_text("{}")
    fetch(RELEASE)
    assert program_path(RELEASE.version).exists()


def test_without_npm_one_line_says_what_to_install(
    npm_runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(npm_runs.parent / "nowhere"))
    assert clis.attempt(lambda: fetch(RELEASE)) is False
    assert capsys.readouterr().out.splitlines() == [
        f"clis: npm is missing, Claude Code {RELEASE.version} was not fetched: install nodejs and npm"
    ]


def test_the_cache_is_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLEAD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "fairlead"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "fairlead"
    monkeypatch.setenv("FAIRLEAD_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_every_release_is_pinned_by_hash() -> None:
    assert [release.version for release in RELEASES] == ["2.1.37", "2.1.120", "2.1.325"]
    assert all(json.dumps(release.integrity).startswith('"sha512-') for release in RELEASES)
