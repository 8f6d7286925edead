"""One turn with five permissions goes through three restarts of the gateway: two pages stay open and reconnect by
themselves, and clients of the other protocols come back. Each permission is answered by another one of them."""

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from browser.chromium import eventually
from browser.ui_gateway import TOKEN, Gateway, shown_texts, told_texts
from e2e.all_clients import Clients, all_clients, happy_words
from keeper_process import keeper_of
from patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

CALLS = 5


class Restarted(Gateway):
    """The gateway with the names under which the clients of the other protocols look for it."""

    token = TOKEN
    session = ""

    @property
    def gateway(self) -> "Restarted":
        return self

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


async def _on_page(page: Page, request: str) -> None:
    await page.get_by_role("button", name="Allow once").click()


async def _on_mylifedb(clients: Clients, request: str) -> None:
    answer = {"subtype": "success", "response": {"behavior": "allow"}}
    await clients.tab.say(type="control_response", request_id=request, response=answer)


async def _on_direct(clients: Clients, request: str) -> None:
    await clients.direct.until(lambda client: client.pending)
    clients.direct.client.respond_to_permission(request, "allow")
    await clients.direct.flush()


async def _on_cognova(clients: Clients, request: str) -> None:
    await clients.peer.say("chat:permission_response", requestId=request, allow=True)


@pytest.mark.slow
async def test_one_turn_goes_through_three_restarts_and_every_client_sees_all_of_it(
    chromium: Browser, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    gateway = Restarted(tmp_path, env={"FAIRLEAD_ON_STOP": "detach"}, agent="demo")
    await gateway.start()
    try:
        desk, phone = await gateway.page(chromium), await gateway.page(chromium, "Phone")
        await phone.set_viewport_size({"width": 390, "height": 844})
        made = await gateway.http.post("/v1/sessions", json={"text": f"SCRIPT:loop {CALLS}"})
        gateway.session = made.json()["session"]
        for page in (desk, phone):
            await page.goto(f"{gateway.url}/app/s/{gateway.session}")
        answered: set[str] = set()
        others: list[Callable[[Clients, str], Awaitable[None]]] = [_on_mylifedb, _on_direct, _on_cognova]
        for number in range(CALLS):
            request = await gateway.pending(answered)
            if number in (1, 2, 3):
                await gateway.restart([desk, phone])
                assert await gateway.pending(answered) == request, "it waits as before"
                async with all_clients(gateway) as clients:  # type: ignore[arg-type]
                    await others[number - 1](clients, request)
                    answered.add(request)
                    await gateway.pending(answered)
                continue
            await _on_page((desk, phone)[number % 2], request)
            answered.add(request)
        for page in (desk, phone):
            await expect(page.locator(".turn-end")).to_have_count(1)
        log = await gateway.log(gateway.session)
        await _check(log)
        for page in (desk, phone):
            await eventually(partial(shown_texts, page), lambda shown: shown == told_texts(log))
            await expect(page.locator(".follow-status")).to_have_attribute("data-following", "live")
        async with all_clients(gateway) as clients:  # type: ignore[arg-type]
            words = told_texts(log)[-1]
            await clients.hearing.until(
                lambda: words in [" ".join(text.split()) for text in happy_words(clients.envelopes)]
            )
            await clients.tab.until("result")
        for page in (desk, phone):
            await page.goto("about:blank")
    finally:
        await gateway.http.post("/v1/gateway/stop", json={"agents": True})
        await gateway.end(signal.SIGTERM)
        await gateway.http.aclose()
    assert keeper_of(tmp_path / "data") is None, "nothing is left behind"


def _one_line(text: str) -> str:
    return " ".join(text.split())


async def _check(log: list[dict[str, Any]]) -> None:
    def of(kind: str) -> list[dict[str, Any]]:
        return [event for event in log if event["type"] == kind]

    (end,) = of("turn.ended")
    assert end["status"] == "completed", end
    assert len(of("agent.started")) == 1 and not of("agent.exited"), "one process did it all"
    assert len(of("permission.asked")) == len(of("permission.resolved")) == len(of("tool.ended")) == CALLS
    assert not of("permission.cancelled")
