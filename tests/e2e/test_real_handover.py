"""The real CLI handed over from one link to another and back: its history, its turns and its processes."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.desk import Desk, at_desk, settings
from e2e.harness import LAST_DIAL_IN, NEWEST, OLDEST, on_versions
from fairlead.testing.model_api import ScriptedModel

dialing = on_versions(OLDEST, LAST_DIAL_IN)


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
        yield sitting


def alive(desk: Desk) -> list[int]:
    """The processes of the session that still run."""
    return [line["pid"] for line in desk.all("agent.started") if _runs(line["pid"])]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def known(model: ScriptedModel) -> int:
    """How many messages of the conversation the model was last sent."""
    return [request for request in model.requests if request.kind == "messages"][-1].messages


async def told_once(desk: Desk) -> None:
    """No event and no process twice; live and from the log the same."""
    lines = await desk.raw()
    ids = [line["id"] for line in lines]
    assert len(ids) == len(set(ids))
    assert len(alive(desk)) <= 1


@dialing
@pytest.mark.rules("S001-123", "S001-143")
async def test_there_and_back_with_the_history(desk: Desk, model: ScriptedModel) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    for link in ("dial-in", "stdio"):
        before = known(model)
        reply = await desk.do("hand_over", link=link)
        assert reply["data"] == {"state": "moved", "link": link}
        assert len(alive(desk)) == 1
        assert (await desk.turn(f"SCRIPT:text over {link}"))["status"] == "completed"
        assert known(model) >= before + 2
    assert [line["reason"] for line in desk.all("agent.exited")] == ["handed over to dial-in", "handed over to stdio"]
    assert all(line["expected"] for line in desk.all("agent.exited"))
    assert [text.split(". ", 1)[-1] for text in desk.texts()] == ["one", "over dial-in", "over stdio"]
    assert len(desk.all("user.message")) == len(desk.all("turn.started")) == 3
    await told_once(desk)


@dialing
async def test_at_the_turns_end_before_the_queue(desk: Desk, model: ScriptedModel) -> None:
    await desk.open("SCRIPT:slow 20")
    await desk.until("text.delta")
    reply = await desk.do("hand_over", link="dial-in")
    assert reply["data"] == {"state": "waiting", "link": "dial-in", "waits_for": ["a running turn"]}
    await desk.send("SCRIPT:text two")
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert (await desk.until("handover.settled"))["outcome"] == "moved"
    assert (await desk.until("turn.ended"))["status"] == "completed"
    assert known(model) >= 3
    kinds = desk.kinds()
    assert kinds.index("handover.settled") < kinds.index("message.dequeued", kinds.index("message.queued", 4))
    await told_once(desk)


@dialing
async def test_now_in_mid_stream(desk: Desk) -> None:
    await desk.open("SCRIPT:slow 200")
    await desk.until("text.delta")
    reply = await desk.do("hand_over", link="dial-in", when="now")
    assert reply["data"]["state"] == "moved"
    assert (await desk.until("turn.ended"))["status"] == "cancelled"
    assert (await desk.turn("SCRIPT:text after"))["status"] == "completed"
    await told_once(desk)


@on_versions(NEWEST)
async def test_a_version_that_does_not_dial_in_stays_where_it_was(desk: Desk, model: ScriptedModel) -> None:
    await desk.open("SCRIPT:text one")
    await desk.until("turn.ended")
    before = known(model)
    reply = await desk.ask("hand_over", session=desk.session, link="dial-in")
    assert reply["type"] == "error" and "stdio" in reply["message"]
    settled = await desk.until("handover.settled")
    assert (settled["outcome"], settled["link"]) == ("failed", "stdio")
    assert (await desk.turn("SCRIPT:text two"))["status"] == "completed"
    assert known(model) >= before + 2
    await told_once(desk)
