"""CORS: pages of the configured origins may read responses, pages of all others may not."""

import pytest

from fairlead.server.listeners import Binding
from server.fakes import serving

PAGE = "https://page.example"
BINDING = Binding(port=0, origins=(PAGE,))
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,last-event-id"}


async def test_a_page_of_a_configured_origin_may_send_and_read() -> None:
    async with serving(binding=BINDING) as served, served.client() as client, served.client(None) as anonymous:
        asked = await anonymous.options("/v1/sessions", headers={"origin": PAGE, **PREFLIGHT})
        assert asked.status_code == 204 and asked.content == b""
        assert asked.headers["access-control-allow-origin"] == PAGE
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert asked.headers["access-control-allow-headers"] == "authorization, *"
        for answer in (
            await client.get("/v1/me", headers={"origin": PAGE, "sec-fetch-site": "cross-site"}),
            await anonymous.get("/v1/me", headers={"origin": PAGE}),
        ):
            assert answer.headers["access-control-allow-origin"] == PAGE
            assert "origin" in answer.headers["vary"]
            assert "access-control-allow-credentials" not in answer.headers
        assert answer.status_code == 401, "the page sees why, and a token is needed all the same"


@pytest.mark.parametrize("origin", ["https://other.example", "http://page.example", f"{PAGE}:444", "null", "", "x"])
async def test_a_page_of_another_origin_gets_no_such_header(origin: str) -> None:
    async with serving(binding=BINDING) as served, served.client() as client:
        for answer in (
            await client.options("/v1/me", headers={"origin": origin, **PREFLIGHT}),
            await client.get("/v1/me", headers={"origin": origin}),
        ):
            assert answer.status_code in (403, 405)
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_two_origins_in_one_request_are_none() -> None:
    async with serving(binding=BINDING) as served, served.client() as client:
        answer = await client.get("/v1/me", headers=[("origin", PAGE), ("origin", PAGE)])
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
