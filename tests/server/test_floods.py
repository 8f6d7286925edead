"""Before the gate: a flood of silent or endless connections is bounded, and a good client still gets in."""

import asyncio
import contextlib
import random

import pytest

from fairlead.server.http import HEAD_LIMIT
from fairlead.server.limits import ServerLimits, backlog, unauthenticated_hard_limit
from patience import PATIENCE
from server.fakes import Served, raw_request, serving, until

SMALL = ServerLimits(waiting=40, waiting_per_address=20)


class Idle:
    """Connections that send a few bytes and then nothing."""

    def __init__(self) -> None:
        self.opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self, port: int, count: int, data: bytes) -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            self.opened.append((reader, writer))

    def held(self) -> int:
        """The number of connections that the server has not closed."""
        return sum(not reader.at_eof() and reader.exception() is None for reader, _ in self.opened)

    async def close(self) -> None:
        for _, writer in self.opened:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


HALF = b"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"


async def good(served: Served) -> int:
    async with served.client() as client:
        return (await client.get("/v1/me")).status_code


async def test_idle_upgrades_are_bounded_and_a_good_client_still_connects() -> None:
    async with serving(SMALL) as served:
        idle = Idle()
        await idle.open(served.port, 300, HALF)
        assert len(served.runner.unauthenticated) <= 160
        assert await good(served) == 200
        await until(lambda: len(served.runner.unauthenticated) <= 20)
        assert await good(served) == 200
        await idle.close()
        await until(lambda: len(served.runner.unauthenticated) == 0)


UNFINISHED = {
    "a body in pieces": b"GET /health HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a body that was promised": b"POST /v1/login HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 99\r\n\r\n{",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
async def test_unfinished_bodies_without_credential_are_bounded_like_idle_connections(sent: bytes) -> None:
    async with serving(SMALL) as served:
        idle = Idle()
        await idle.open(served.port, 300, sent % served.port)
        assert len(served.runner.unauthenticated) <= 160
        assert await good(served) == 200
        await until(lambda: idle.held() <= 20)
        await idle.close()
        await until(lambda: len(served.runner.unauthenticated) == 0)


async def test_upgrade_counts_as_unauthenticated_until_its_credential_was_checked() -> None:
    async with serving() as served:
        lines = (
            "GET /v1/ws HTTP/1.1",
            f"Host: 127.0.0.1:{served.port}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )
        request = "\r\n".join(lines)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(request.encode())
        await until(lambda: len(served.runner.unauthenticated) == 1)
        writer.write(f"\r\nAuthorization: Bearer {served.admin}\r\n\r\n".encode())
        assert b" 101 " in await reader.readline()
        assert len(served.runner.unauthenticated) == 0
        writer.close()
        await writer.wait_closed()
        assert b" 401 " in await raw_request(served.port, f"{request}\r\n\r\n".encode())
        await until(lambda: len(served.runner.unauthenticated) == 0)


def test_unauthenticated_connections_never_take_all_descriptors() -> None:
    for descriptors in (64, 256, 1024, 4096, 1 << 20):
        limits = ServerLimits(descriptors=descriptors)
        assert unauthenticated_hard_limit(limits) < descriptors / 2
        assert unauthenticated_hard_limit(limits) + 2 * backlog(limits) < descriptors * 4 / 5
    assert (unauthenticated_hard_limit(ServerLimits()), backlog(ServerLimits())) == (1024, 512)


async def test_an_endless_head_is_cut_off() -> None:
    async with serving() as served:
        line = b"x-a: " + b"y" * 1000 + b"\r\n"
        many = await raw_request(served.port, b"GET /health HTTP/1.1\r\n" + line * (HEAD_LIMIT // 1000 + 2))
        assert many.startswith(b"HTTP/1.1 400 ")
        with contextlib.suppress(ConnectionError):
            one = await raw_request(served.port, b"GET /health HTTP/1.1\r\nx-a: " + b"y" * (1 << 20))
            assert one == b"" or one.startswith(b"HTTP/1.1 400 ")
        assert await good(served) == 200


async def test_authenticated_connection_no_longer_counts_as_unauthenticated() -> None:
    async with serving() as served:
        async with served.client() as client:
            await client.get("/v1/me")
            assert len(served.runner.unauthenticated) == 0
        async with served.client(None) as anonymous:
            await anonymous.get("/health")
            assert len(served.runner.unauthenticated) == 1
        await until(lambda: len(served.runner.unauthenticated) == 0)


async def test_a_refused_request_gets_no_second_one_on_its_connection() -> None:
    async with serving() as served:
        request = f"GET /v1/me HTTP/1.1\r\nHost: localhost:{served.port}\r\n\r\n".encode()
        answer = await raw_request(served.port, request * 3)
        assert answer.count(b"HTTP/1.1 401 ") == 1


async def test_idle_connection_is_closed_after_its_timeout() -> None:
    async with serving(ServerLimits(waiting_s=0.2)) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_all_clients_of_a_burst_with_credentials_get_in() -> None:
    async with serving(SMALL) as served:
        request = (
            f"GET /v1/me HTTP/1.1\r\nHost: localhost:{served.port}\r\n"
            f"Authorization: Bearer {served.admin}\r\nConnection: close\r\n\r\n"
        ).encode()
        answers = await asyncio.gather(*(raw_request(served.port, request) for _ in range(100)))
        assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)


async def test_garbage_does_not_affect_the_next_request(rng: random.Random, caplog: pytest.LogCaptureFixture) -> None:
    """Good requests with bytes changed, cut or repeated at random: answered or cut off, and the next one served."""
    async with serving() as served:
        request = (
            f"POST /v1/sessions HTTP/1.1\r\nHost: localhost:{served.port}\r\nAuthorization: Bearer {served.admin}\r\n"
            'Content-Length: 13\r\nConnection: close\r\n\r\n{"title":"x"}'
        ).encode()
        for _ in range(150):
            broken = bytearray(request)
            for _ in range(rng.randrange(1, 6)):
                place = rng.randrange(len(broken))
                match rng.randrange(3):
                    case 0:
                        broken[place] = rng.randrange(256)
                    case 1:
                        del broken[place]
                    case _:
                        broken[place:place] = broken[place : place + rng.randrange(40)]
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(bytes(broken))
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        assert await good(served) == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
