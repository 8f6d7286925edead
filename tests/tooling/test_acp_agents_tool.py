"""Fetching the ACP agents, with a stand-in for npm: once, by their hashes, without scripts, all or nothing."""

import json
from pathlib import Path

import pytest

from tooling.fake_programs import put_npm
from tools import acp_agents
from tools.acp_agents import JUDGES, fetch, program_path
from tools.clis import InstallFailed, cache_folder

pytestmark = pytest.mark.process

NPM = """#!/bin/sh
echo "$*" >> "$NPM_LOG"
[ -n "$NPM_FAILS" ] && exit 1
mkdir -p node_modules "$(dirname "$NPM_PROGRAM")"
echo program > "$NPM_PROGRAM"
printf '%s' "$NPM_LOCK" > node_modules/.package-lock.json
"""

CODEX = JUDGES["codex"]
RELEASES = (CODEX.release, *CODEX.parts)


@pytest.fixture
def npm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NPM_PROGRAM", CODEX.release.program)
    monkeypatch.setenv("NPM_LOCK", lock({release.package: release.integrity for release in RELEASES}))
    return put_npm(tmp_path, monkeypatch, NPM)


def lock(hashes: dict[str, str]) -> str:
    """What npm notes about the packages that it has installed."""
    packages = {f"node_modules/{package}": {"integrity": value} for package, value in hashes.items()}
    return json.dumps({"packages": packages})


def kept() -> list[str]:
    return [path.name for path in cache_folder().glob("acp/*/*")]


def test_an_agent_is_fetched_once_with_the_pinned_packages_and_runs_no_script(npm_runs: Path) -> None:
    assert acp_agents.main(["codex"]) == 0
    assert acp_agents.main(["codex"]) == 0
    (run,) = npm_runs.read_text().splitlines()
    assert run.startswith("install --ignore-scripts ")
    assert all(f" {release.package}@{release.version} " in run for release in RELEASES)
    assert program_path("codex").read_text() == "program\n"
    assert kept() == [CODEX.release.version]


@pytest.mark.parametrize("package", [release.package for release in RELEASES])
def test_an_agent_of_which_one_package_has_another_hash_is_not_kept(
    npm_runs: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    hashes = {release.package: release.integrity for release in RELEASES}
    monkeypatch.setenv("NPM_LOCK", lock(hashes | {package: "sha512-other"}))
    with pytest.raises(InstallFailed, match=f"{package}@.* not the pinned one"):
        fetch("codex")
    assert kept() == []


def test_a_package_without_the_program_is_not_kept(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_PROGRAM", "elsewhere/program")
    with pytest.raises(InstallFailed, match="has no node_modules"):
        fetch("codex")
    assert kept() == []


def test_a_failed_fetch_leaves_nothing(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    assert acp_agents.main(["codex"]) == 1
    assert kept() == []


def test_an_unknown_name_is_refused(npm_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert acp_agents.main(["codex", "nonsense"]) == 2
    assert "no such ACP agent: nonsense" in capsys.readouterr().out
    assert not npm_runs.exists()


def test_each_package_has_its_hash() -> None:
    releases = [release for judge in JUDGES.values() for release in (judge.release, *judge.parts)]
    assert all(release.integrity.startswith("sha512-") and release.size for release in releases)
