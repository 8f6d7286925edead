"""Unwanted sockets: those of a revoked token, and a flood of connections that never send a token."""

import asyncio
from pathlib import Path

import pytest

from faults.gateway_process import GatewayProcess
from faults.native_client import NativeClient

pytestmark = pytest.mark.fault

FLOOD = 1500
MEGABYTE = 1 << 20


async def test_revoking_a_token_closes_its_sockets(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway, gateway.http() as http:
        session = await gateway.create()
        made = (await http.post("/v1/tokens", json={"name": "guest"})).json()
        guests = [NativeClient(session, made["secret"]) for _ in range(3)]
        host = NativeClient(session)
        for client in (*guests, host):
            await client.come(gateway)
        await host.send("SCRIPT:slow 8")
        await host.until("text.delta")
        answer = await http.delete(f"/v1/tokens/{made['credential']['id']}")
        assert answer.status_code == 200, answer.text
        for guest in guests:
            await guest.gone()
            assert guest.close_code == 4401
        with pytest.raises(Exception, match="401"):
            await guests[0].come(gateway)
        await host.until("turn.ended")
        await host.go()


async def test_a_flood_without_credentials_locks_out_no_client(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        before = gateway.resident()
        host, port = gateway.url.removeprefix("http://").rsplit(":", 1)
        session = await gateway.create()
        upgrade = f"GET /v1/ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n".encode()
        open_ones: list[asyncio.StreamWriter] = []
        client = NativeClient(session)
        try:
            for number in range(FLOOD):
                _, writer = await asyncio.open_connection(host, int(port))
                open_ones.append(writer)
                # Some send nothing, some half a request, some a whole one without a credential.
                writer.write((b"", upgrade, upgrade + b"\r\n")[number % 3])
                if number % 500 == 250:
                    await client.come(gateway)
                    assert (await client.send("SCRIPT:text"))["type"] == "reply"
                    await client.until("turn.ended", since=client.seq)
                    await client.go()
            await client.come(gateway)
            assert len(client.all("turn.ended")) == 3
            assert gateway.resident() - before < 48 * MEGABYTE
        finally:
            await client.go()
            for writer in open_ones:
                writer.transport.abort()
