"""The example of a protocol in a package of its own: found by its entry points, with nothing changed in src."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "sixth-client"


def install(target: Path) -> None:
    """Put the package and its entry points where Python finds them, as an installer does."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / "bookmarks", target / "bookmarks", ignore=shutil.ignore_patterns("__pycache__"))
    info = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def git_status() -> str:
    shown = subprocess.run(
        ["git", "status", "--porcelain", "src"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return shown.stdout


def test_the_sixth_client_passes_its_tests_and_the_replay_law_without_a_change_in_src(tmp_path: Path) -> None:
    before = git_status()
    install(tmp_path / "site")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT / "src")])}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(EXAMPLE / "pyproject.toml")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(EXAMPLE / "tests")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
    assert git_status() == before, "in a clean clone it is empty"
