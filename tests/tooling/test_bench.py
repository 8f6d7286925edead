"""The benchmark: each of its parts runs, with small numbers. The figures are for a person to read."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    *("latency", "chat", "commit", "fanout", "length", "reconnect", "idle", "views", "envelopes", "changes"),
    *("terminals", "transcripts", "ccui_chat", "claudecodeui", "shim", "keeper", "web"),
)

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_benchmark_runs(part: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), "--quick", "--only", part],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_no_part_is_left_out() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), "--help"], capture_output=True, text=True, check=True
    )
    assert f"{{{','.join(PARTS)}}}" in done.stdout.replace("\n", "").replace(" ", "")
