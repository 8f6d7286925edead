"""One turn with five permissions goes through three restarts of the gateway: two pages and a client of each of six
protocols stay, notice each cut, reconnect by themselves, and miss nothing. Each permission is answered by another one
of them."""

import asyncio
import contextlib
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from browser.chromium import eventually
from browser.ui_gateway import TOKEN, Gateway, shown_texts, told_texts
from fairlead_testing.live_clients import LIVE_CLIENTS, LiveClient
from keeper_process import keeper_of
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

ANSWERED_BY = ("desk", "mylifedb", "direct", "cognova", "claudecodeui")
"""Who answers each permission. The gateway is restarted while the second, third and fourth wait."""
RESTARTS = (1, 2, 3)


class Restarted(Gateway):
    session = ""

    async def restart(self, pages: list[Page]) -> None:
        await self.end(signal.SIGTERM)
        for page in pages:
            await expect(page.locator(".follow-status")).to_contain_text("Offline")
        await self.start()
        for page in pages:
            await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")

    async def pending(self, answered: set[str]) -> str:
        async def look() -> list[str]:
            open_ones = (await self.http.get(f"/v1/sessions/{self.session}/permissions")).json()["permissions"]
            return [one["event"]["request"] for one in open_ones if one["event"]["request"] not in answered]

        (request,) = await eventually(look, bool)
        return request

    def clients(self) -> list[LiveClient]:
        return [kind(self.url, TOKEN, self.session) for kind in LIVE_CLIENTS]


@pytest.mark.slow
async def test_one_turn_goes_through_three_restarts_and_every_client_sees_all_of_it(
    chromium: Browser, tmp_path: Path
) -> None:
    await one_turn_through_three_restarts(chromium, tmp_path)


@pytest.mark.timeout(0)
@pytest.mark.long
async def test_a_turn_of_ten_minutes_goes_through_three_restarts(chromium: Browser, tmp_path: Path) -> None:
    await one_turn_through_three_restarts(chromium, tmp_path, seconds=600)


async def one_turn_through_three_restarts(chromium: Browser, folder: Path, seconds: float = 0) -> None:
    """`seconds`: how long the turn lasts, because its permissions wait."""
    (folder / "work").mkdir()
    gateway = Restarted(folder, env={"FAIRLEAD_ON_STOP": "detach"}, agent="demo")
    await gateway.start()
    try:
        desk, phone = await gateway.page(chromium), await gateway.page(chromium, "Phone")
        await phone.set_viewport_size({"width": 390, "height": 844})
        made = await gateway.http.post("/v1/sessions", json={"text": f"SCRIPT:loop {len(ANSWERED_BY)}"})
        gateway.session = made.json()["session"]
        for page in (desk, phone):
            await page.goto(f"{gateway.url}/app/s/{gateway.session}")
        async with contextlib.AsyncExitStack() as staying:
            stayed = {client.name: await staying.enter_async_context(client) for client in gateway.clients()}
            answered: set[str] = set()
            for number, name in enumerate(ANSWERED_BY):
                request = await gateway.pending(answered)
                await asyncio.sleep(seconds / len(ANSWERED_BY))
                if number in RESTARTS:
                    await gateway.restart([desk, phone])
                    assert await gateway.pending(answered) == request, "it waits as before"
                for client in stayed.values():
                    await client.until(partial(_waits, client, request))
                if number == len(ANSWERED_BY) - 1:
                    fresh = {client.name: await staying.enter_async_context(client) for client in gateway.clients()}
                    for client in fresh.values():
                        await client.until(partial(_waits, client, request))
                if name == "desk":
                    await desk.get_by_role("button", name="Allow once").click()
                else:
                    await stayed[name].allow(request)
                answered.add(request)
            for client in (*stayed.values(), *fresh.values()):
                await client.until(partial(_is_over, client))
            for name, client in stayed.items():
                assert (client.cuts, client.connections) == (len(RESTARTS), len(RESTARTS) + 1), name
                await client.until(partial(_equal, client, fresh[name]))
        for page in (desk, phone):
            await expect(page.locator(".turn-end")).to_have_count(1)
        log = await gateway.log(gateway.session)
        _check(log)
        for page in (desk, phone):
            await eventually(partial(shown_texts, page), lambda shown: shown == told_texts(log))
            await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
            await page.goto("about:blank")
    finally:
        await gateway.http.post("/v1/gateway/stop", json={"agents": True})
        await gateway.end(signal.SIGTERM)
        await gateway.http.aclose()
    assert keeper_of(folder / "data") is None, "nothing is left behind"


def _waits(client: LiveClient, request: str) -> bool:
    """Whether a client is connected and shows the request. Happy's envelopes have no requests."""
    connected = client.connections > client.cuts
    return connected and (client.name == "happy" or client.pending == {request})


def _is_over(client: LiveClient) -> bool:
    return client.over and not client.pending


def _equal(client: LiveClient, fresh: LiveClient) -> bool:
    """Whether both show the same. A client that has the end of a turn may not have all that comes after it."""
    return bool(client.shown() == fresh.shown())


def _check(log: list[dict[str, Any]]) -> None:
    def of(kind: str) -> list[dict[str, Any]]:
        return [event for event in log if event["type"] == kind]

    (end,) = of("turn.ended")
    assert end["status"] == "completed", end
    assert len(of("agent.started")) == 1, "one process did it all"
    assert not of("agent.exited")
    assert len(of("permission.asked")) == len(of("permission.resolved")) == len(of("tool.ended")) == len(ANSWERED_BY)
    assert not of("permission.cancelled")
