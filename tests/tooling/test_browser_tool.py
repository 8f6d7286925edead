"""Finding a browser: an installed one, else Debian's if we may install it, else a line with instructions."""

from pathlib import Path

import pytest

from tools import browser
from tools.clis import InstallFailed


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine without programs, on which nothing can be installed; returns the requested packages."""
    wanted: list[str] = []

    def refuse(*packages: str) -> bool:
        wanted.extend(packages)
        return False

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "apt_install", refuse)
    return wanted


def test_without_a_browser_one_line_says_what_to_install(asked: list[str]) -> None:
    with pytest.raises(InstallFailed, match="apt-get install chromium-headless-shell"):
        browser.fetch_browser()
    assert asked == ["chromium-headless-shell", "chromium"]


def test_the_shell_is_installed_in_addition_to_a_full_browser_where_debian_has_it(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setattr(browser, "apt_has", lambda package: package == browser.SHELL)
    browser.fetch_browser()
    assert asked == [browser.SHELL]
    assert browser.browser_path() == tmp_path / "chromium", "it could not be installed, and the other one does"


@pytest.mark.parametrize("name", browser.PROGRAMS)
def test_an_installed_browser_is_used(asked: list[str], tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / name).chmod(0o755)
    browser.fetch_browser()
    assert browser.browser_path() == tmp_path / name
    assert asked == []
