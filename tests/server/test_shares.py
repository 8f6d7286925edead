"""Limits per credential: its connections, and the bytes that wait for its clients, whatever the clients do."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.auth.gate import ANONYMOUS
from fairlead.model.auth import Identity
from fairlead.model.errors import TooMany
from fairlead.server.limits import ServerLimits, open_per_credential
from fairlead.server.shares import CredentialShare, CredentialShares, HeldBody
from server.fakes import SESSION, serving, until

MOST = 1000
ANN = Identity("c1", "ann", "ann", frozenset({"view"}))
BOB = Identity("c2", "bob", "bob", frozenset({"view"}))


@dataclass(eq=False)
class Peer:
    """A connection with a send buffer that tests fill and read. After `too_slow` it accepts nothing new."""

    share: CredentialShare
    size: int = 0
    asked_to_close: bool = False
    gone: bool = False
    sent: list[int] = field(default_factory=list)

    def backlog(self) -> int:
        return self.size

    def too_slow(self) -> None:
        self.asked_to_close = True

    def cut(self) -> None:
        self.gone = True
        self.size = 0
        self.share.forget(self)

    def send(self, size: int) -> None:
        if not self.asked_to_close and not self.gone:
            self.size += size
            self.share.note(self, self.size)

    def read(self) -> None:
        self.size = 0
        self.share.forget(self)


Acts = st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(1, 400))), max_size=200)


@given(Acts)
def test_waiting_bytes_of_a_credential_are_bounded_after_every_send(acts: list[tuple[int, int | None]]) -> None:
    """In `acts`, `None` reads everything that waits, and a number sends that many bytes."""
    share = CredentialShare(MOST)
    peers = [Peer(share) for _ in range(10)]
    for which, size in acts:
        if size is None:
            peers[which].read()
        else:
            peers[which].send(size)
        assert sum(peer.size for peer in peers) == share.held <= MOST


@given(Acts)
def test_client_that_reads_is_not_affected_by_clients_that_do_not(acts: list[tuple[int, int | None]]) -> None:
    share = CredentialShare(MOST)
    peers = [Peer(share) for _ in range(10)]
    good = Peer(share)
    for which, size in acts:
        peers[which].send(size or 1)
        good.send(10)
        good.read()
    assert not good.asked_to_close and not good.gone


def test_largest_buffers_are_closed_first_and_asked_to_close_before_they_are_cut() -> None:
    share = CredentialShare(MOST)
    peers = [Peer(share) for _ in range(4)]
    for peer, size in zip(peers, (300, 100, 200, 200), strict=True):
        peer.send(size)
    assert [peer.asked_to_close for peer in peers] == [True, False, False, False]
    assert not any(peer.gone for peer in peers)
    peers[1].send(200)
    assert share.held == MOST
    assert not any(peer.gone for peer in peers), "at the limit, and not beyond it"
    peers[2].send(50)
    assert [peer.gone for peer in peers] == [True, False, False, False], "who was told to go"
    assert share.held == 750


def test_connections_are_counted_by_credential_and_released() -> None:
    shares = CredentialShares(2, MOST)
    _, first = shares.take(ANN)
    shares.take(ANN)
    with pytest.raises(TooMany):
        shares.take(ANN)
    _, other = shares.take(BOB)
    first()
    shares.take(ANN)
    other()
    assert len(shares) == 1, "nothing is kept of those who left"
    for _ in range(5):
        shares.take(ANONYMOUS)


def test_no_credential_has_more_than_a_quarter_of_the_descriptors() -> None:
    assert open_per_credential(ServerLimits()) == 512
    assert open_per_credential(ServerLimits(descriptors=1024)) == 256


def upgrade(port: int, token: str) -> bytes:
    lines = (
        "GET /v1/ws HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: Bearer {token}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def test_socket_above_the_limit_is_refused_with_429_and_other_credentials_connect() -> None:
    async with serving(ServerLimits(open_per_credential=3)) as served:
        guest = await served.token("view")
        opened = []
        for expected in (b" 101 ", b" 101 ", b" 101 ", b" 429 "):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            opened.append(writer)
            writer.write(upgrade(served.port, guest))
            assert expected in await reader.readline()
        async with served.client(guest) as client:
            answer = await client.get("/v1/me")
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many")
        async with served.client() as admin:
            assert (await admin.get("/v1/me")).status_code == 200
        for writer in opened:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await until(lambda: len(served.app._shares) == 0)
        async with served.client(guest) as client:
            assert (await client.get("/v1/me")).status_code == 200


class FakeConnection:
    """The connection on which a response is sent."""

    congested = False
    gone = False

    def cut(self) -> None:
        self.gone = True


def test_a_large_answer_is_counted_while_its_client_is_behind_and_cut_off_beyond_the_limit() -> None:
    share = CredentialShare(MOST)
    line = FakeConnection()
    with HeldBody(share, line) as body:
        body.set_remaining(5 * MOST)
        assert (share.held, line.gone) == (0, False), "who reads gets as much as there is"
        line.congested = True
        body.set_remaining(MOST // 2)
        assert (share.held, line.gone) == (MOST // 2, False)
        body.set_remaining(2 * MOST)
        assert line.gone
    assert share.held == 0


async def test_response_that_the_client_does_not_read_is_dropped() -> None:
    async with serving(ServerLimits(bytes_per_credential=1 << 20)) as served:
        for _ in range(200):
            served.gateway.say("x" * 100_000)
        request = (
            f"GET /v1/sessions/{SESSION}/events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            f"Authorization: Bearer {served.admin}\r\n\r\n"
        ).encode()
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", served.port))
            await asyncio.get_running_loop().sock_sendall(peer, request)
            await until(lambda: len(served.gateway.queries) > 0)
            await until(lambda: len(served.app._shares) == 0)
