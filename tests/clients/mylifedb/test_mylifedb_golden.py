"""The view by case: tests/golden/mylifedb/<case>/in.jsonl gives live.jsonl (frames for a connected client) and
history.jsonl (frames for a client that connects at the end). FAIRLEAD_WRITE=1 rewrites them: then read the difference.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clients.mylifedb.view_offline import ViewRecorder
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder

CASES = Path(__file__).parents[2] / "golden" / "mylifedb"
NAMES = sorted(path.name for path in CASES.iterdir())


def lines(case: str, name: str) -> list[Any]:
    return [json.loads(line) for line in (CASES / case / name).read_text().splitlines()]


def shown(case: str, variant: MyLifeDbEncoder | None = None) -> ViewRecorder:
    return ViewRecorder(variant).run(lines(case, "in.jsonl"))


def write(case: str, name: str, frames: list[Any]) -> None:
    text = "".join(json.dumps(frame, ensure_ascii=False, separators=(",", ":")) + "\n" for frame in frames)
    (CASES / case / name).write_text(text)


@pytest.mark.parametrize("case", NAMES)
def test_a_case_comes_out_as_written(case: str) -> None:
    showing = shown(case)
    if os.environ.get("FAIRLEAD_WRITE"):
        write(case, "live.jsonl", showing.live())
        write(case, "history.jsonl", showing.history())
    assert showing.live() == lines(case, "live.jsonl")
    assert showing.history() == lines(case, "history.jsonl")
