"""Fetching locked npm packages, with a stand-in for npm: all or nothing, once, by the lock, outside the clone."""

from pathlib import Path

import pytest

from tooling.fake_programs import put_npm
from tools.acp_clients import ACP_CLIENTS
from tools.agui_sdks import CLIENT, LOCK
from tools.browser import XTERM
from tools.clis import InstallFailed
from tools.happy_wire import WIRE
from tools.npm_locked import Locked

pytestmark = pytest.mark.process

NPM = """#!/bin/sh
echo "$*" >> "$NPM_LOG"
[ -f package-lock.json ] || exit 3
[ -n "$NPM_FAILS" ] && exit 1
mkdir -p node_modules/@slopus/happy-wire
"""


@pytest.fixture
def npm_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put_npm(tmp_path, monkeypatch, NPM)


def test_it_is_fetched_once_by_its_lock_and_runs_no_script(npm_runs: Path) -> None:
    WIRE.fetch()
    WIRE.fetch()
    (run,) = npm_runs.read_text().splitlines()
    assert run.startswith("ci ")
    assert "--ignore-scripts" in run
    assert (WIRE.folder / "node_modules" / "@slopus" / "happy-wire").is_dir()
    assert [path.name for path in WIRE.folder.parent.iterdir()] == [WIRE.folder.name]


def test_a_failed_fetch_leaves_nothing_and_can_be_repeated(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(InstallFailed, match="npm ci` failed"):
        WIRE.fetch()
    assert list(WIRE.folder.parent.iterdir()) == []
    monkeypatch.setenv("NPM_FAILS", "")
    WIRE.fetch()
    assert WIRE.folder.exists()


def test_without_npm_it_says_what_to_install(npm_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(npm_runs.parent / "nowhere"))
    with pytest.raises(InstallFailed, match="install nodejs and npm"):
        WIRE.fetch()


@pytest.mark.parametrize("locked", [ACP_CLIENTS, WIRE, XTERM, CLIENT], ids=lambda locked: locked.name)
def test_everything_in_the_lock_has_its_hash_and_names_no_host(locked: Locked) -> None:
    lock = (locked.pinned / "package-lock.json").read_text()
    assert lock.count('"integrity": "sha512-') == lock.count('"node_modules/')
    assert '"resolved"' not in lock


def test_the_python_models_of_agui_are_pinned_by_hash() -> None:
    pinned = LOCK.read_text().replace("\\\n", " ").splitlines()
    assert any(line.startswith("ag-ui-protocol==1.0.0 ") for line in pinned)
    assert all("==" in line and "--hash=sha256:" in line for line in pinned)
