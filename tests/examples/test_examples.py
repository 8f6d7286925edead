"""The examples of a protocol and of an agent, each a package: found by entry points, with nothing changed in src."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = {"sixth-client": "bookmarks", "second-agent": "runbook"}
"""The packages by their folder."""


def install(example: Path, package: str, target: Path) -> None:
    """Put the package and its entry points where Python finds them, as an installer does."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    shutil.copytree(example / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_its_tests_without_a_change_in_src(name: str, tmp_path: Path) -> None:
    before, example = git_status(), ROOT / "examples" / name
    install(example, EXAMPLES[name], tmp_path / "site")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT / "src")])}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(example / "pyproject.toml")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(example / "tests")],
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
