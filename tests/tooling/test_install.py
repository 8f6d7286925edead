"""The install: nothing is done when nothing changed, and a missing requirement is reported in one line."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tools import debian, install


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files an install depends on, and an installed-looking .venv."""
    for name in install.INPUTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "fairlead").touch()
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "VENV", venv)
    monkeypatch.setattr(install, "STAMP", venv / "stamp")
    install.STAMP.write_text(install.fingerprint())
    return tmp_path


def test_an_unchanged_clone_is_current(clone: Path) -> None:
    assert install.is_current()


@pytest.mark.parametrize("name", install.INPUTS)
def test_a_change_of_any_input_asks_for_a_new_install(clone: Path, name: str) -> None:
    (clone / name).write_text("changed")
    assert not install.is_current()


def test_a_missing_command_asks_for_a_new_install(clone: Path) -> None:
    (install.VENV / "bin" / "fairlead").unlink()
    assert not install.is_current()


@pytest.mark.process
def test_a_venv_whose_python_is_gone_is_not_healthy(clone: Path) -> None:
    assert not install.healthy()
    (install.VENV / "bin" / "python").symlink_to(clone / "gone")
    assert not install.healthy()


def test_without_ensurepip_one_line_names_the_debian_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(install, "apt_install", lambda *packages: False)
    with pytest.raises(SystemExit) as stopped:
        install.make_venv()
    assert "run `apt-get install python3." in str(stopped.value)
    assert "\n" not in str(stopped.value)


def test_a_step_that_fails_fails_the_install_and_leaves_no_stamp(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*argv: object) -> None:
        raise subprocess.CalledProcessError(2, [str(part) for part in argv])

    (clone / "requirements.lock").write_text("changed")
    monkeypatch.setattr(install, "healthy", lambda: True)
    monkeypatch.setattr(install, "run", refuse)
    assert install.main() == 1
    assert "exited 2; its own words are above" in capsys.readouterr().out
    assert not install.STAMP.exists()


def test_debian_packages_are_not_installed_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert debian.apt_install("iproute2") is False
