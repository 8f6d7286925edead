"""An invitation's link in a real browser: our page creates the account and passes the token to the app."""

from pathlib import Path

from playwright.async_api import Browser

from clients.claudecodeui.signed_gateway import SignedGateway, signed_gateway
from patience import PATIENCE

APP = "<!doctype html><title>App</title><p>The app</p>"


async def invitation(signed: SignedGateway) -> str:
    made: str = (await signed.admin.post("/v1/invitations", json={})).json()["url"]
    return made


async def test_opening_the_link_creates_an_account_and_signs_in(chromium: Browser, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(APP)
    door = {"claudecodeui": {"port": 0, "static": str(site)}}
    async with signed_gateway(tmp_path, door=door) as signed:
        link = await invitation(signed)
        page = await (await chromium.new_context()).new_page()
        page.set_default_timeout(PATIENCE * 1000)
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(link)
        await page.fill("#username", "Ann")
        await page.fill("#password", "correct horse")
        await page.fill("#again", "battery staple")
        await page.click("button")
        await page.get_by_text("The two passwords differ.").wait_for()
        await page.fill("#again", "correct horse")
        await page.click("button")
        await page.get_by_text("There is a user ann already.").wait_for()
        await page.fill("#username", "Bob")
        await page.click("button")
        await page.get_by_text("Welcome, bob").wait_for()
        assert "#" not in page.url, "the code does not stay in the address"
        assert not any(link.partition("#")[2] in url for url in asked), "nor did it ever go into one"
        # The browser itself logs that one call was rejected; nothing else went wrong, especially not the page's policy.
        assert [line for line in wrong if "409" not in line] == []
        token = await page.evaluate("localStorage.getItem('auth-token')")
        own = {"authorization": f"Bearer {token}"}
        assert (await signed.http.get("/api/auth/user", headers=own)).json()["user"]["username"] == "bob"
        await page.click("a")
        await page.get_by_text("The app").wait_for()
        assert await page.evaluate("localStorage.getItem('auth-token')") == token


async def test_a_used_or_broken_link_explains_what_to_do(chromium: Browser, tmp_path: Path) -> None:
    async with signed_gateway(tmp_path) as signed:
        used = await invitation(signed)
        body = {"username": "bob", "password": "correct horse", "invitation": used.partition("#")[2]}
        assert (await signed.http.post("/api/auth/register", json=body)).status_code == 200
        for link in (used, used.partition("#")[0]):
            page = await (await chromium.new_context()).new_page()
            page.set_default_timeout(PATIENCE * 1000)
            await page.goto(link)
            for field in ("#password", "#again"):
                await page.fill(field, "correct horse")
            await page.fill("#username", "eve")
            await page.click("button")
            await page.get_by_text("fairlead user invite").wait_for()
            assert await page.evaluate("localStorage.getItem('auth-token')") is None
