"""Sessions of a real CLI started outside the gateway: they appear unasked, are followed and resumed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import on_versions
from patience import PATIENCE


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


WHOLE = {"CLAUDE_CODE_EAGER_FLUSH": "1"}
"""Seen with 2.1.37 on a busy machine: without this it exits before it has written the last row of its transcript, and
the file does not show that its turn is over.
"""


async def by_hand(claude: Path, env: dict[str, str], cwd: Path, *words: str) -> None:
    """Run the CLI as a person does, without a gateway."""
    command = [str(claude), "-p", *words, "--permission-mode", "default", "--allowedTools", "Bash"]
    process = await asyncio.create_subprocess_exec(
        *command, env={**env, **WHOLE}, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0


async def found(harness: GatewayHarness) -> dict[str, Any]:
    """The listed session."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows: list[dict[str, Any]] = (await harness.http.get("/v1/sessions")).json()["sessions"]
            if rows:
                return rows[0]
            await asyncio.sleep(0.02)


@pytest.mark.slow
@on_versions(core=True)
@pytest.mark.rules("S001-006", "S000-237", "S000-199")
async def test_a_session_started_by_hand_is_followed_and_goes_on_here_and_then_there_again(
    harness: GatewayHarness, claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    await a_session_started_by_hand_appears_and_is_followed(harness, claude, cli_env, cli_cwd)
    harness.scene()
    await it_goes_on_here_and_then_there_again(harness, claude, cli_env, cli_cwd)


async def a_session_started_by_hand_appears_and_is_followed(
    harness: GatewayHarness, claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    running = asyncio.create_task(by_hand(claude, cli_env, cli_cwd, f"SCRIPT:subagent bash touch {cli_cwd}/made"))
    row = await found(harness)
    assert (row["state"], Path(row["cwd"])) == ("transcript", cli_cwd)
    await harness.watch(row["session"])
    end = await harness.until("turn.ended")
    await running
    assert end["status"] == "completed"
    assert (cli_cwd / "made").exists()
    (started,) = harness.all("subagent.started")
    inside = [line for line in harness.events if line.get("subagent") == started["child"]]
    assert {"user.message", "tool.called", "tool.ended", "text"} <= {line["type"] for line in inside}
    assert [line for line in harness.all("notice") if line["kind"] == "unresolved"] == []
    ids = [line["id"] for line in harness.events]
    assert len(set(ids)) == len(ids)


async def it_goes_on_here_and_then_there_again(
    harness: GatewayHarness, claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    await harness.turn("SCRIPT:text two")
    await harness.do("close")
    await harness.until("session.closed")
    await by_hand(claude, cli_env, cli_cwd, "SCRIPT:text three", "--resume", harness.session)
    rows = (await harness.http.get("/v1/sessions")).json()["sessions"]
    await harness.until(lambda line: line["type"] == "user.message" and "three" in str(line["content"]))
    await harness.until("turn.ended")
    prompts = [line["content"][0]["text"] for line in harness.all("user.message")]
    assert prompts == ["SCRIPT:text two", "SCRIPT:text three"], "nothing is told twice"
    assert len(harness.texts()) == 2
    assert [line["status"] for line in harness.all("turn.ended")] == ["completed"] * 2
    assert [row["session"] for row in rows] == [harness.session]


def written(env: dict[str, str], session: str = "*") -> list[list[dict[str, Any]]]:
    """The rows of a session's file, or of all sessions' files."""
    files = sorted(Path(env["HOME"], ".claude", "projects").glob(f"*/{session}.jsonl"))
    return [[json.loads(row) for row in file.read_bytes().splitlines()] for file in files]


@on_versions()
async def test_a_session_that_runs_here_keeps_its_rows_as_the_cli_wrote_them_and_is_not_listed_twice(
    harness: GatewayHarness, cli_env: dict[str, str]
) -> None:
    """Every row of the file, once, whole or spilled; no event is emitted twice, and none differs."""
    session = await harness.open("SCRIPT:bash true", settings={"mode": "acceptEdits"})
    asked = await harness.until(lambda line: line["type"] in ("permission.asked", "turn.ended"))
    if asked["type"] == "permission.asked":
        await harness.answer(asked)
        await harness.until("turn.ended")
    await harness.turn("SCRIPT:text two")
    await harness.do("close")
    await harness.until("session.closed")
    (rows,) = written(cli_env, session)
    spoken = [row["uuid"] for row in rows if row["type"] in ("user", "assistant")]
    assert len(spoken) >= 5
    async with asyncio.timeout(PATIENCE):
        while not {*spoken} <= {line.get("of") for line in harness.all("record")}:
            await asyncio.sleep(0.02)
    copies = [line["of"] for line in harness.all("record") if line.get("of")]
    assert len(copies) == len({*copies})
    assert [name for name in copies if name in spoken] == spoken
    differing = [line["data"] for line in harness.all("notice") if line["kind"] == "transcript.differs"]
    assert differing == [], [row for row in rows if str(row.get("uuid")) in str(differing)]
    assert len(harness.texts()) == 2
    await harness.raw()
    await harness.turn("SCRIPT:text three")
    listed = (await harness.http.get("/v1/sessions")).json()["sessions"]
    assert [(row["session"], row["state"]) for row in listed] == [(session, "idle")]
    assert len(harness.texts()) == 3
