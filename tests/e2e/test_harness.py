"""The harness itself: each real CLI answers one prompt over plain stdio, from the scripted model and nothing else."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import (
    API_KEY,
    LAST_DIAL_IN,
    NEWEST,
    OLDEST,
    PARTS,
    VERSIONS,
    chosen,
    cli_env,
    has_its_turn,
    left_for_another_day,
    on_versions,
    parameters,
    why_not_isolated,
)
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE

FLAGS = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
PROMPT = "SCRIPT:text the harness works"


async def one_turn(claude: Path, cwd: Path, env: dict[str, str], prompt: str) -> list[dict[str, Any]]:
    """Every record that the CLI wrote for one prompt; its stdin is closed at once, so it exits by itself."""
    child = await asyncio.create_subprocess_exec(
        claude,
        *FLAGS,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    line = json.dumps({"type": "user", "message": {"role": "user", "content": prompt}})
    try:
        out, err = await asyncio.wait_for(child.communicate(line.encode() + b"\n"), timeout=PATIENCE)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, err.decode()
    return [json.loads(text) for text in out.decode().splitlines()]


def names(folder: Path, pattern: str) -> list[str]:
    return [path.name for path in folder.glob(pattern)]


@on_versions(core=True)
async def test_each_real_cli_answers_from_the_scripted_model(
    claude: Path,
    version: str,
    cli_cwd: Path,
    cli_home: Path,
    cli_env: dict[str, str],
    model: ScriptedModel,
) -> None:
    records = await one_turn(claude, cli_cwd, cli_env, PROMPT)

    started, ended = records[0], records[-1]
    assert (started["type"], started["subtype"]) == ("system", "init")
    assert started["claude_code_version"] == version
    assert Path(started["cwd"]) == cli_cwd
    assert (ended["type"], ended["is_error"]) == ("result", False)
    texts = [block["text"] for r in records if r["type"] == "assistant" for block in r["message"]["content"]]
    assert texts == [ended["result"]]
    assert "the harness works" in ended["result"]
    assert names(cli_home, ".claude/projects/*/*.jsonl") == [f"{ended['session_id']}.jsonl"]
    assert names(cli_cwd, "*") == []
    assert [request.script for request in model.requests if request.kind == "messages"] == ["text"]


def test_the_environment_of_a_cli_is_built_from_nothing(tmp_path: Path) -> None:
    env = cli_env(tmp_path, "http://127.0.0.1:1")
    assert env["HOME"] == str(tmp_path)
    assert env["ANTHROPIC_API_KEY"] == API_KEY
    assert not {name for name in env if name.startswith(("CLAUDE_CODE_OAUTH", "AWS_", "GOOGLE_"))}


def test_elsewhere_than_in_a_namespace_the_harness_says_why_it_will_not_run() -> None:
    reason = why_not_isolated()
    assert reason is None or "tools/innet" in reason


def test_each_test_runs_on_the_newest_it_is_for_and_on_another_by_the_day() -> None:
    assert [chosen(VERSIONS, "", day) for day in (0, 1, 2)] == [
        [OLDEST, NEWEST],
        [LAST_DIAL_IN, NEWEST],
        [OLDEST, NEWEST],
    ]
    assert chosen([OLDEST, LAST_DIAL_IN], "", 7) == [OLDEST, LAST_DIAL_IN]
    assert all(chosen([only], "", day) == [only] for only in VERSIONS for day in range(3)), "whatever the day is"


def test_in_a_few_days_each_test_meets_every_version() -> None:
    """The newest version runs all tests every day; each of the others runs an eighth of them when its day comes."""
    tests = [f"tests/e2e/test_file.py::test_{number}" for number in range(300)]
    for others in (1, 2, 3):
        met = {test: set[int]() for test in tests}
        for day in range(10**5, 10**5 + others * PARTS):
            today = [test for test in tests if has_its_turn(test, others, day)]
            assert 0.6 < PARTS * len(today) / len(tests) < 1.5, "no day has them all, none has nothing"
            for test in today:
                met[test].add(day % others)
        assert all(versions == {*range(others)} for versions in met.values())


def turns(*usual: str, **how: Any) -> dict[object, int]:
    """How many versions take turns in the place of each version of this run; 0: it always runs."""
    return {
        given.values[0]: mark.kwargs["turns"]
        for given in parameters(*usual, **how)
        for mark in given.marks
        if mark.name == "cli"
    }


def test_the_newest_that_a_test_is_for_and_the_core_are_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLEAD_CLIS", raising=False)
    other, newest = turns().items()
    assert (other[1], newest) == (2, (NEWEST, 0)), "two others take turns"
    assert turns(last=LAST_DIAL_IN) == {OLDEST: 1, LAST_DIAL_IN: 0}
    assert turns(OLDEST) == {OLDEST: 0}
    assert turns(OLDEST, daily=False) == {OLDEST: 1}, "unless it waits for its turn"
    assert turns(OLDEST) == {OLDEST: 0}
    assert set(turns(core=True).values()) == {0}
    monkeypatch.setenv("FAIRLEAD_CLIS", "all")
    assert turns() == dict.fromkeys(VERSIONS, 0), "versions that are asked for have every test"
    monkeypatch.setenv("FAIRLEAD_CLIS", "both")
    assert turns() == {other[0]: 0, NEWEST: 0}


def test_only_what_has_its_turn_is_left_for_another_day() -> None:
    tests = [f"tests/e2e/test_file.py::test_{number}" for number in range(30)]
    always, sometimes = pytest.mark.cli(NEWEST, turns=0).mark, pytest.mark.cli(OLDEST, turns=2).mark
    assert not any(left_for_another_day(test, always) for test in tests)
    assert not any(left_for_another_day(test, pytest.mark.cli(NEWEST).mark) for test in tests)
    left = [test for test in tests if left_for_another_day(test, sometimes)]
    assert 0 < len(left) < len(tests)


def test_versions_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(VERSIONS, "all", 0) == [*VERSIONS]
    assert chosen(VERSIONS, "2.1.200, 2.1.77", 0) == ["2.1.77", "2.1.200"]
    monkeypatch.setenv("FAIRLEAD_CLIS", "2.1.77,2.1.200")

    def taken(**bounds: Any) -> list[object]:
        return [parameter.values[0] for parameter in parameters(**bounds)]

    assert taken() == ["2.1.77", "2.1.200"]
    assert taken(last=LAST_DIAL_IN) == ["2.1.77"]
    assert taken(first="2.1.121") == ["2.1.200"]
    assert taken(first=NEWEST) == ["none"], "it is skipped, and says so"
