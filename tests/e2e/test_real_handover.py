"""The real CLI handed over from one link to another and back: its history, its turns and its processes."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import API_KEY, LAST_DIAL_IN, NEWEST, dials_in, on_versions, parameters
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE


def elsewhere(core: bool = False) -> pytest.MarkDecorator:
    """The links that a session can move to from stdio. The core is the terminal, which every version supports."""
    dialed_in = parameters(last=LAST_DIAL_IN, more=["dial-in"])
    return pytest.mark.parametrize(("version", "link"), [*parameters(core=core, more=["terminal"]), *dialed_in])


@pytest.fixture(autouse=True)
def agreed(cli_home: Path, cli_cwd: Path) -> None:
    """A HOME in which a person has already answered: the CLI is set up, the key may be used, the folder is trusted."""
    answers = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []},
        "projects": {os.path.realpath(cli_cwd): {"hasTrustDialogAccepted": True}},
    }
    (cli_home / ".claude.json").write_text(json.dumps(answers))


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(
        tmp_path / "data",
        tmp_path,
        agent="claude",
        claude=str(claude),
        pass_env=["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"],
    )
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


def alive(harness: GatewayHarness) -> list[int]:
    """The processes of the session that are still running."""
    started = [line["pid"] for line in (*harness.earlier, *harness.events) if line["type"] == "agent.started"]
    return [pid for pid in started if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def known(model: ScriptedModel) -> int:
    """How many messages of the conversation the last request to the model contained."""
    return [request for request in model.requests if request.kind == "messages"][-1].messages


async def check_consistent(harness: GatewayHarness) -> None:
    """Check that no event and no process appears twice, every turn ended, and the live state equals the log's."""
    lines = await harness.raw()
    ids = [line["id"] for line in lines]
    assert [line["id"] for line in lines if ids.count(line["id"]) > 1] == []
    assert len(alive(harness)) <= 1
    started = [line["turn"] for line in lines if line["type"] == "turn.started"]
    assert started == [line["turn"] for line in lines if line["type"] == "turn.ended"]


def messages(harness: GatewayHarness) -> list[str]:
    return ["".join(block["text"] for block in line["content"]) for line in harness.all("user.message")]


def answers(harness: GatewayHarness) -> list[str]:
    return [text.removeprefix("Hello from the scripted model. ") for text in harness.texts()]


@pytest.mark.slow
@elsewhere(core=True)
@pytest.mark.rules("S001-123", "S001-143")
async def test_there_and_back_with_the_history(harness: GatewayHarness, link: str, model: ScriptedModel) -> None:
    await harness.open("SCRIPT:text one")
    await harness.until("turn.ended")
    for place in (link, "stdio"):
        before = known(model)
        reply = await harness.do("hand_over", link=place)
        assert reply["data"] == {"state": "moved", "link": place}
        assert len(alive(harness)) == 1
        assert (await harness.turn(f"SCRIPT:text over {place}"))["status"] == "completed"
        assert known(model) >= before + 2
    assert [line["reason"] for line in harness.all("agent.exited")] == [
        f"handed over to {link}",
        "handed over to stdio",
    ]
    assert all(line["expected"] for line in harness.all("agent.exited"))
    assert messages(harness) == [f"SCRIPT:text {words}" for words in ("one", f"over {link}", "over stdio")]
    assert answers(harness) == ["one", f"over {link}", "over stdio"]
    assert {line["status"] for line in harness.all("turn.ended")} == {"completed"}
    await check_consistent(harness)


@pytest.mark.slow
@elsewhere()
@pytest.mark.rules("S001-012")
async def test_a_session_moves_at_any_time(
    harness: GatewayHarness, version: str, link: str, model: ScriptedModel
) -> None:
    """Each scene finds the session on stdio; the last leaves it in the terminal."""
    await now_in_mid_stream_and_now_back(harness, link, model)
    if link == "terminal":
        if not dials_in(version):
            harness.scene()
            await a_version_that_does_not_dial_in_stays_where_it_was(harness, model)
        harness.scene()
        await a_request_is_answered_and_a_mode_taken_along(harness)
        harness.scene()
        await at_the_turns_end_before_the_queue(harness, model)


async def at_the_turns_end_before_the_queue(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.send("SCRIPT:slow 20")
    await harness.until("text.delta")
    reply = await harness.do("hand_over", link="terminal")
    assert reply["data"] == {"state": "waiting", "link": "terminal", "waits_for": ["a running turn"]}
    second = await harness.send("SCRIPT:text two")
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert (await harness.until("handover.settled"))["outcome"] == "moved"
    assert (await harness.until("message.dequeued"))["message"] == second
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert known(model) >= 3
    await check_consistent(harness)


async def now_in_mid_stream_and_now_back(harness: GatewayHarness, link: str, model: ScriptedModel) -> None:
    await harness.open("SCRIPT:slow 200")
    await harness.until("text.delta")
    assert (await harness.do("hand_over", link=link, when="now"))["data"]["state"] == "moved"
    assert (await harness.until("turn.ended"))["status"] == "cancelled"
    await harness.send("SCRIPT:slow 300")
    await model.wait_for(lambda request: request.argument == "300", timeout=PATIENCE)
    await harness.until("user.message")
    assert (await harness.do("hand_over", link="stdio", when="now"))["data"]["state"] == "moved"
    assert (await harness.until("turn.ended"))["status"] == "cancelled"
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"
    assert answers(harness)[-1] == "after"
    await check_consistent(harness)


@on_versions()
async def test_before_anything_was_said(harness: GatewayHarness) -> None:
    await harness.open()
    for place in ("terminal", "stdio", "terminal"):
        assert (await harness.do("hand_over", link=place))["data"] == {"state": "moved", "link": place}
    assert (await harness.turn("SCRIPT:text at last"))["status"] == "completed"
    assert (messages(harness), answers(harness)) == (["SCRIPT:text at last"], ["at last"])
    await check_consistent(harness)


async def a_request_is_answered_and_a_mode_taken_along(harness: GatewayHarness) -> None:
    """Remembered rules and the chosen mode on one link also apply on the other."""
    first, second = harness.cwd / "first", harness.cwd / "second"
    await harness.send(f"SCRIPT:bash touch {first}")
    asked = await harness.until("permission.asked")
    assert (await harness.do("hand_over", link="terminal"))["data"]["state"] == "waiting"
    await harness.answer(asked, remember=["Bash(touch:*)"])
    await harness.until("handover.settled")
    assert (await harness.turn(f"SCRIPT:bash touch {second}"))["status"] == "completed"
    assert first.exists() and second.exists() and len(harness.all("permission.asked")) == 1
    await harness.do("set_mode", mode="acceptEdits")
    assert (await harness.do("hand_over", link="stdio"))["data"]["state"] == "moved"
    written = harness.cwd / "written"
    assert (await harness.turn(f"SCRIPT:write {written}"))["status"] == "completed"
    assert written.exists() and len(harness.all("permission.asked")) == 1
    await check_consistent(harness)


async def a_version_that_does_not_dial_in_stays_where_it_was(harness: GatewayHarness, model: ScriptedModel) -> None:
    before = known(model)
    reply = await harness.ask("hand_over", session=harness.session, link="dial-in")
    assert reply["type"] == "error" and "stdio" in reply["message"]
    settled = await harness.until("handover.settled")
    assert (settled["outcome"], settled["link"]) == ("failed", "stdio")
    assert (await harness.turn("SCRIPT:text two"))["status"] == "completed"
    assert known(model) >= before + 2
    await check_consistent(harness)


@on_versions(LAST_DIAL_IN, NEWEST, first=LAST_DIAL_IN)
async def test_background_work_is_named_and_waited_for(harness: GatewayHarness) -> None:
    done = harness.cwd / "done"
    await harness.open(f"SCRIPT:bgbash until [ -e {done} ]; do sleep 0.05; done")
    await harness.answer(await harness.until("permission.asked"))
    assert (await harness.until("turn.ended"))["status"] == "completed"
    refused = await harness.ask("hand_over", session=harness.session, link="terminal", wait=False)
    assert refused["code"] == "busy" and "background job" in refused["message"]
    assert (await harness.do("hand_over", link="terminal"))["data"]["state"] == "waiting"
    done.touch()
    assert (await harness.until("handover.settled"))["outcome"] == "moved"
    assert (await harness.turn("SCRIPT:text after"))["status"] == "completed"
    await check_consistent(harness)
