"""One seed repeats a whole run: also what hypothesis draws."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


def drawn(file: Path, seed: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"DRAWN_NUMBERS": str(file), "FAIRLEAD_SEED": seed}
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/tooling/drawn_numbers.py"]
    ran = subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert f"seed: {seed} " in ran.stdout
    return file.read_text()


def test_the_seed_of_a_run_repeats_the_examples_of_hypothesis(tmp_path: Path) -> None:
    first, again, other = (drawn(tmp_path / name, seed) for name, seed in (("a", "7"), ("b", "7"), ("c", "8")))
    assert first == again
    assert first != other
