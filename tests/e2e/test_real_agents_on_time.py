"""Agents of the notifications protocol on the real CLI: on schedule by a real clock, by hand, over budget, cancelled;
each reported correctly on the feed.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, on_versions
from fairlead.system.clock import SystemClock
from patience import PATIENCE

MINUTE = 60_000
MINUTES = 3 * PATIENCE
"""On a busy machine the next minute may have passed before the agent was created; then it runs in the one after."""


class SetClock(SystemClock):
    """The real clock, shifted so that the next minute is near."""

    def __init__(self) -> None:
        self._ahead = MINUTE - super().now_ms() % MINUTE - 4000

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GatewayHarness]:
    monkeypatch.setattr("fairlead.wiring.gateway.SystemClock", SetClock)
    passed = ["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"]
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=passed)
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


class ChangeListener:
    def __init__(self, wire: Any) -> None:
        self._wire = wire

    async def until(self, *actions: str) -> dict[str, Any]:
        """The next change of an agent with one of these actions."""
        async with asyncio.timeout(MINUTES):
            while True:
                frame: dict[str, Any] = json.loads(await self._wire.recv())
                if frame.get("resource") == "agent" and frame["action"] in actions:
                    return frame


@contextlib.asynccontextmanager
async def bell(harness: GatewayHarness) -> AsyncIterator[ChangeListener]:
    url = harness.gateway.url.replace("http", "ws", 1) + "/notifications"
    async with connect(url, additional_headers={"Authorization": f"Bearer {harness.gateway.token}"}) as wire:
        assert json.loads(await wire.recv())["type"] == "connected"
        yield ChangeListener(wire)


async def agent(harness: GatewayHarness, prompt: str, schedule: str = "0 0 29 2 *", **more: Any) -> str:
    body = {"name": "Tidy", "schedule": schedule, "prompt": prompt, "folder": str(harness.cwd), **more}
    answer = await harness.http.post("/cognova/api/agents", json=body)
    assert answer.status_code == 200, answer.text
    made: str = answer.json()["data"]["id"]
    return made


async def run(harness: GatewayHarness, made: str) -> None:
    assert (await harness.http.post(f"/cognova/api/agents/{made}/run")).json()["message"] == "Agent started"


@on_versions(NEWEST)
@pytest.mark.timeout(2 * MINUTES)
@pytest.mark.rules("S002-105", "S002-116", "S002-118")
async def test_an_agent_runs_when_its_minute_comes(harness: GatewayHarness) -> None:
    async with bell(harness) as rung:
        made = await agent(harness, "SCRIPT:text tidied", schedule="* * * * *")
        started = await rung.until("run")
        done = await rung.until("complete", "fail", "cancel")
    assert (done["action"], done["meta"]["status"], done["meta"]["runId"]) == (
        "complete",
        "success",
        started["meta"]["runId"],
    )
    (first, *_) = reversed((await harness.http.get(f"/cognova/api/agents/{made}")).json()["data"]["runs"])
    assert (first["status"], first["costUsd"] > 0) == ("success", True)
    events = (await harness.http.get(f"/v1/sessions/{first['sessionId']}/messages")).json()["events"]
    assert "tidied" in json.dumps(events)


@on_versions(NEWEST)
@pytest.mark.rules("S002-117", "S002-119")
async def test_a_failed_a_cancelled_and_an_over_budget_run_are_told_as_they_were(harness: GatewayHarness) -> None:
    async with bell(harness) as rung:
        await run(harness, await agent(harness, "SCRIPT:error 400"))
        failed = await rung.until("complete", "fail", "cancel")
        slow = await agent(harness, "SCRIPT:slow 200")
        await run(harness, slow)
        await rung.until("run")
        session = (await harness.http.get(f"/cognova/api/agents/{slow}")).json()["data"]["runs"][0]["sessionId"]
        await harness.watch(session, after=0)
        await harness.until("text.delta")
        assert (await harness.http.post(f"/cognova/api/agents/{slow}/cancel")).json()["cancelledCount"] == 1
        cancelled = await rung.until("complete", "fail", "cancel")
        await run(harness, await agent(harness, "SCRIPT:bash echo hello", maxBudgetUsd=0.0001))
        spent = await rung.until("complete", "fail", "cancel")
    assert (failed["action"], failed["meta"]["status"]) == ("fail", "error")
    assert (cancelled["action"], cancelled["meta"]["status"]) == ("cancel", "cancelled")
    assert (spent["action"], spent["meta"]["status"]) == ("cancel", "budget_exceeded")
