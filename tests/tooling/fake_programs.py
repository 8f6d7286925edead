"""Stand-ins for programs that the tools run, so that nothing is fetched."""

import os
from pathlib import Path

import pytest


def put_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """An npm first on PATH, an empty cache, and the file where each run may write its arguments ($NPM_LOG).

    With $NPM_FAILS set it is meant to fail.
    """
    programs = folder / "bin"
    programs.mkdir()
    (programs / "npm").write_text(script)
    (programs / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAIRLEAD_CACHE", str(folder / "cache"))
    monkeypatch.setenv("NPM_LOG", str(folder / "runs"))
    monkeypatch.setenv("NPM_FAILS", "")
    return folder / "runs"
