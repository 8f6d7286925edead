"""The real CLI in a terminal behind the whole gateway: the scenarios of the foundation, where a terminal has them."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.desk import Desk, at_desk, settings
from e2e.harness import API_KEY, on_versions
from fairlead.testing.model_api import ScriptedModel


@pytest.fixture
def agreed(cli_home: Path, cli_cwd: Path) -> None:
    """What a person has answered in this HOME before: the CLI is set up, the key may be used, the folder is trusted."""
    answers = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(cli_cwd): {"hasTrustDialogAccepted": True}},
    }
    (cli_home / ".claude.json").write_text(json.dumps(answers))


@pytest.fixture
async def desk(claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path) -> AsyncIterator[Desk]:
    config = settings(
        tmp_path / "data",
        tmp_path,
        agent="claude",
        claude=str(claude),
        pass_env=["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"],
    )
    async with at_desk(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as sitting:
        sitting.settings = {"link": "terminal"}
        yield sitting


def messages(desk: Desk) -> list[str]:
    return ["".join(block["text"] for block in line["content"]) for line in desk.all("user.message")]


@on_versions()
async def test_a_plain_turn(desk: Desk, version: str, agreed: None) -> None:
    await desk.open("SCRIPT:text one")
    end = await desk.until("turn.ended")
    assert end["status"] == "completed"
    (ready,) = desk.all("agent.ready")
    assert (ready["version"], ready["agent_session"]) == (version, desk.session)
    (said,) = desk.all("user.message")
    (queued,) = desk.all("message.queued")
    assert (said["message"], said["by"], said["record"] != "") == (queued["message"], queued["by"], True)
    assert messages(desk) == ["SCRIPT:text one"]
    assert [text.split()[-1] for text in desk.texts()] == ["one"]
    assert desk.all("text.delta") == []
    await desk.raw()
