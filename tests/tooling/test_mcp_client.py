"""The official MCP client is fetched by a lock in which everything has its hash, into a folder named by the lock."""

import re
import shutil

import pytest

from tools import mcp_client
from tools.clis import InstallFailed


def test_everything_in_the_lock_has_its_hash_and_names_no_host() -> None:
    lock = mcp_client.LOCK.read_text()
    packages = re.split(r"(?m)^(?=[A-Za-z0-9])", lock)[1:]
    assert len(packages) > 10 and all("--hash=sha256:" in package and "==" in package for package in packages)
    assert "://" not in lock and "index-url" not in lock


def test_another_lock_is_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mcp_client.packages_folder()
    monkeypatch.setattr(mcp_client, "LOCK", mcp_client.LOCK.with_name("requirements.in"))
    assert mcp_client.packages_folder() != before and mcp_client.packages_folder().parent == before.parent


def test_without_uv_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_client, "LOCK", mcp_client.LOCK.with_name("requirements.in"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InstallFailed, match="run make install"):
        mcp_client.fetch()
