"""Floods against a gateway that may open few files: clients with a credential are served during the flood."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus

from faults.gateway_process import TOKEN, GatewayProcess
from faults.native_client import Hangup, NativeClient
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.fault

MEGABYTE = 1 << 20
FLOOD = Path(__file__).with_name("flood.py")
FEW = ("sh", "-c", 'ulimit -Sn 1024; ulimit -Hn 1024; exec "$@"', "sh")


@pytest.fixture
def closing() -> Iterator[list[socket.socket]]:
    """Sockets that are closed when the test ends, however it ends."""
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


@asynccontextmanager
async def flood(gateway: GatewayProcess, words: str, count: int, first: int) -> AsyncIterator[None]:
    """A flood from ten addresses."""
    addresses = [f"127.0.0.{first + number}" for number in range(10)]
    port = str(urlsplit(gateway.url).port)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FLOOD), port, words, str(count), *addresses, stdin=-1, stdout=-1
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(2 * PATIENCE):
            assert await process.stdout.readline() == b"up\n"
        yield
        assert process.returncode is None, "it lasted"
    finally:
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), PATIENCE)
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.slow
async def test_a_client_is_served_while_strangers_hold_as_many_connections_as_they_can(tmp_path: Path) -> None:
    """With 1,024 descriptors, 5,000 upgrades and 3,000 bodies that never end, and more all the time."""
    gateway = GatewayProcess(tmp_path)
    gateway.prefix = FEW
    async with gateway:
        client = NativeClient(await gateway.create())
        async with flood(gateway, "upgrades", 5000, 10), flood(gateway, "bodies", 3000, 30):
            took: list[float] = []
            for number in range(5):
                began = time.monotonic()
                # A new connection each time: an established one would prove nothing.
                async with local_client(base_url=gateway.url) as http:
                    answer = await http.get("/v1/me", headers={"Authorization": f"Bearer {TOKEN}"})
                assert answer.status_code == 200
                await client.come(gateway)
                assert (await client.send(f"SCRIPT:text number {number}"))["type"] == "reply"
                await client.until("turn.ended", since=client.seq)
                await client.go()
                took.append(time.monotonic() - began)
            held = len(os.listdir(f"/proc/{gateway.pid}/fd"))
            print(f"served in {', '.join(f'{one:.2f}' for one in took)} s; the gateway has {held} descriptors open")
            assert held < 1024 * 3 / 4
    assert "Too many open files" not in gateway.log()


async def test_the_gateway_raises_its_descriptor_limit_and_its_agents_do_not(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    gateway.prefix = ("sh", "-c", 'ulimit -Sn 512; ulimit -Hn 2048; exec "$@"', "sh")
    async with gateway:
        assert _files(gateway.pid) == ("2048", "2048")
        session = await gateway.create()
        client = NativeClient(session)
        await client.come(gateway)
        await client.send("SCRIPT:slow 400")
        await client.until("text.delta")
        (agent,) = gateway.agents(session)
        assert _files(agent) == ("512", "2048")
        await client.go()


def _files(pid: int) -> tuple[str, str]:
    """Soft and hard limit of open files."""
    line = next(line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "open files" in line)
    soft, hard = line.split()[3:5]
    return soft, hard


# --- peers that never read


def silent(address: tuple[str, int], request: bytes) -> socket.socket:
    """A peer that sends a request, has the smallest receive buffer possible, and never reads."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(PATIENCE)
    made.connect(address)
    made.sendall(request)
    return made


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


async def steady(gateway: GatewayProcess) -> int:
    """Resident bytes, once they stop growing."""
    seen = 0
    async with asyncio.timeout(2 * PATIENCE):
        while (now := gateway.resident()) > seen + MEGABYTE:
            seen = now
            await asyncio.sleep(1)
    return now


async def test_readers_of_a_large_file_that_never_read_cost_no_memory(tmp_path: Path) -> None:
    """60 readers of a file of 40 MiB; each may have one piece of 64 KiB waiting, and one being read."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "large.bin").write_bytes(bytes(40 * MEGABYTE))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gateway = GatewayProcess(tmp_path)
    gateway.arguments = ("--door", f"claudecodeui={port},static={site}")
    async with gateway:
        before = gateway.resident()
        request = f"GET /large.bin HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        peers = [await asyncio.to_thread(silent, ("127.0.0.1", port), request) for _ in range(60)]
        grown = await steady(gateway) - before
        print(f"60 readers: {grown / MEGABYTE:.0f} MiB more")
        assert grown < 48 * MEGABYTE
        async with local_client(base_url=f"http://127.0.0.1:{port}") as http:
            assert len((await http.get("/large.bin")).content) == 40 * MEGABYTE
        for peer in peers:
            peer.close()


def frame(text: str) -> bytes:
    """A masked text frame, with a mask of zeros."""
    data = text.encode()
    long = len(data) >= 126
    assert len(data) < 65536
    size = bytes([0x80 | 126]) + len(data).to_bytes(2, "big") if long else bytes([0x80 | len(data)])
    return b"\x81" + size + bytes(4) + data


def read_until(peer: socket.socket, text: bytes) -> None:
    received = b""
    while text not in received:
        data = peer.recv(4096)
        assert data, received
        received += data


async def test_sockets_of_one_credential_that_never_read_are_bounded(
    tmp_path: Path, closing: list[socket.socket]
) -> None:
    """600, of which 512 are accepted; together they may have at most 32 MiB waiting, by the setting."""
    async with GatewayProcess(tmp_path, credential_bytes=32 * MEGABYTE) as gateway:
        session = await gateway.create()
        host = NativeClient(session)
        await host.come(gateway)
        for number in range(8):
            assert (await host.send(f"SCRIPT:text {number}\n" + "x" * MEGABYTE))["type"] == "reply"
            await host.until("turn.ended", since=host.seq)
        async with gateway.http() as http:
            guest = (await http.post("/v1/tokens", json={"name": "guest", "scopes": ["view"]})).json()["secret"]
        name, port = address_of(gateway.url)
        lines = (
            "GET /v1/ws HTTP/1.1",
            f"Host: {name}:{port}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            f"Authorization: Bearer {guest}",
        )
        asking = json.dumps({"id": 1, "type": "subscribe", "session": session, "after": 0})
        before = gateway.resident()
        request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        peers = [await asyncio.to_thread(silent, (name, port), request) for _ in range(600)]
        closing.extend(peers)
        statuses = [await asyncio.to_thread(peer.recv, 12) for peer in peers]
        assert statuses.count(b"HTTP/1.1 101") == 512
        assert statuses.count(b"HTTP/1.1 429") == 88
        for peer, status in zip(peers, statuses, strict=True):
            if status.endswith(b"101"):
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(peer.sendall, frame(asking))
        first = next(peer for peer, status in zip(peers, statuses, strict=True) if status.endswith(b"101"))
        await asyncio.to_thread(read_until, first, b'"subscribed"')
        grown = await steady(gateway) - before
        print(f"600 sockets: {grown / MEGABYTE:.0f} MiB more")
        # Plus 512 times the cost of a socket itself, with the 64 KiB it may have waiting before it counts as slow.
        assert grown < (32 + 512 / 4) * MEGABYTE
        # A client that reads is served meanwhile, also with the same credential.
        for peer in peers[:20]:
            peer.close()
        reader = NativeClient(session, guest)
        # It may itself be closed for its credential's waiting data: then it continues at its cursor.
        while len(reader.all("turn.ended")) < 8:
            with contextlib.suppress(Hangup, InvalidStatus):
                await reader.come(gateway)
                await reader.holds(lambda: len(reader.all("turn.ended")) == 8)
        await reader.go()
        await host.go()
