"""The whole server: TLS, proxies, signals, and a shutdown that loses nothing."""

import asyncio
import contextlib
import os
import signal
import ssl
from pathlib import Path

import httpx2
import pytest

from fairlead.model import commands as cmd
from fairlead.server.limits import ServerLimits
from fairlead.server.listeners import Binding
from fairlead.server.runner import KEEP_ALIVE_S
from patience import PATIENCE
from server.fakes import SESSION, Served, serving, until

TLS = Path(__file__).parent / "tls"


async def test_over_tls_our_origin_is_https() -> None:
    binding = Binding(port=0, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem")
    trust = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
    async with serving(binding=binding) as served:
        base = f"https://localhost:{served.port}"
        headers = {"authorization": f"Bearer {served.admin}"}
        async with httpx2.AsyncClient(base_url=base, headers=headers, verify=trust, trust_env=False) as client:
            assert (await client.get("/v1/me", headers={"origin": base})).status_code == 200
            plain = base.replace("https", "http")
            assert (await client.get("/v1/me", headers={"origin": plain})).status_code == 403
            link = (await client.post("/v1/login-codes", json={})).json()
            assert link["url"].startswith(f"{base}/#login=")


async def test_missing_tls_handshake_times_out() -> None:
    binding = Binding(port=0, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem")
    async with serving(ServerLimits(waiting_s=0.1), binding) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def status(served: Served, **headers: str) -> int:
    async with served.client() as client:
        return (
            await client.get("/v1/me", headers={name.replace("_", "-"): v for name, v in headers.items()})
        ).status_code


async def test_forwarded_headers_of_an_untrusted_peer_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fairlead.gate")
    async with serving() as served:
        async with served.client(None) as client:
            spoofed = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https", "forwarded": "for=203.0.113.9"}
            assert (await client.get("/v1/me", headers=spoofed)).status_code == 401
        assert await status(served, origin=f"https://127.0.0.1:{served.port}", x_forwarded_proto="https") == 403
    refusals = [record for record in caplog.records if record.getMessage() == "refused"]
    assert {record.__dict__["peer"] for record in refusals} == {"127.0.0.1"}


async def test_forwarded_headers_of_a_trusted_proxy_set_the_peer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fairlead.gate")
    binding = Binding(port=0, public_url="https://gw.example", trusted_proxies=("127.0.0.1",))
    async with serving(binding=binding, base="https://gw.example/") as served:
        public = {"host": "gw.example", "origin": "https://gw.example", "x-forwarded-proto": "https"}
        async with served.client() as client:
            assert (await client.get("/v1/me", headers=public)).status_code == 200
            link = (await client.post("/v1/login-codes", json={}, headers=public)).json()
            assert link["url"].startswith("https://gw.example/#login=")
        async with served.client(None) as client:
            await client.get("/v1/me", headers={**public, "x-forwarded-for": "203.0.113.9"})
    refusal = next(record for record in caplog.records if record.getMessage() == "refused")
    assert refusal.__dict__["peer"] == "203.0.113.9"


async def test_configured_origin_is_allowed_and_another_is_refused() -> None:
    async with serving(binding=Binding(port=0, origins=("https://friend.example",))) as served:
        assert await status(served, origin="https://friend.example") == 200
        assert await status(served, origin="https://enemy.example") == 403


async def test_a_request_under_way_is_answered_before_the_end() -> None:
    async with serving() as served:
        served.gateway.hold.add(cmd.Interrupt)
        async with served.client() as client:
            asking = asyncio.create_task(client.post(f"/v1/sessions/{SESSION}/interrupt"))
            await until(lambda: len(served.gateway.commands) == 1)
            served.runner.stop()
            served.gateway.release.set()
            assert (await asking).status_code == 200


def test_an_idle_connection_is_given_up_by_the_client_first() -> None:
    """Otherwise a request may cross the server's close and be lost."""
    expiry = httpx2.Limits().keepalive_expiry
    assert expiry is not None and expiry * 2 < KEEP_ALIVE_S


async def test_signal_stops_the_server() -> None:
    async with serving(signals=True) as served:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(served.done, PATIENCE)


async def test_second_stop_does_not_wait_for_pending_requests() -> None:
    async with serving() as served:
        served.gateway.hold.add(cmd.Interrupt)
        async with served.client() as client:
            asking = asyncio.create_task(client.post(f"/v1/sessions/{SESSION}/interrupt"))
            await until(lambda: len(served.gateway.commands) == 1)
            served.runner.stop()
            served.runner.stop()
            await asyncio.wait_for(served.done, 3)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, httpx2.HTTPError):
                await asking
        served.gateway.release.set()


async def test_an_idle_server_does_not_wake_up() -> None:
    """uvicorn's own main loop would wake up ten times a second."""
    async with serving() as served:
        loop = asyncio.get_running_loop()
        timers = [handle for handle in getattr(loop, "_scheduled", []) if not handle.cancelled()]
        assert [handle for handle in timers if handle.when() < loop.time() + 1] == []
        assert served.runner.urls == (served.url,)
