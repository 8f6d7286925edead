"""Finding a browser: the one that is there, else Debian's if we may install it, else a line that says what to do."""

from pathlib import Path

import pytest

from tools import browser
from tools.clis import InstallFailed


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine without programs, on which nothing can be installed; what was asked for."""
    wanted: list[str] = []

    def refuse(*packages: str) -> bool:
        wanted.extend(packages)
        return False

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "apt_install", refuse)
    return wanted


def test_without_a_browser_one_line_says_what_to_install(asked: list[str]) -> None:
    with pytest.raises(InstallFailed, match="apt-get install chromium"):
        browser.fetch_browser()
    assert asked == ["chromium"]


@pytest.mark.parametrize("name", browser.PROGRAMS)
def test_a_browser_that_is_there_is_used(asked: list[str], tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / name).chmod(0o755)
    browser.fetch_browser()
    assert browser.browser_path() == tmp_path / name
    assert asked == []
