"""The handshake as bytes, and the application's side of it."""

from __future__ import annotations

import pytest

from fairlead.server.websocket.errors import BadHandshake, Misuse, PeerGone
from fairlead.server.websocket.handshake import accept_response, parse_head, refusal, refusal_head

GOOD = {
    "host": "x",
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
}


def request(line: str = "GET /a%20b?q=%31 HTTP/1.1", extra: str = "", **changes: str | None) -> bytes:
    headers = {**GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
    return f"{line}\r\n{lines}{extra}\r\n".encode()


def test_good_request_head_is_parsed() -> None:
    head = parse_head(request(extra="X-Some:  a: b \r\nSec-WebSocket-Protocol: one ,two,\r\n"))
    assert (head.path, head.query) == (b"/a%20b", b"q=%31")
    assert head.headers[0] == (b"host", b"x")
    assert head.all(b"x-some") == [b"a: b"]
    assert head.subprotocols == ["one", "two"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("POST / HTTP/1.1"), 400),
        (request("GET / with a blank HTTP/1.1"), 400),
        (request()[:-2], 400),
        (request(sec_websocket_version=None), 426),
        (request(sec_websocket_version="8"), 426),
        (request(extra="Sec-WebSocket-Version: 13\r\n"), 426),
        (request(sec_websocket_key=None), 400),
        (request(sec_websocket_key="AAAA"), 400),
        (request(sec_websocket_key="dGhlIHNhbXBsZSBub25jZ"), 400),
        (request(sec_websocket_key="!!!!IHNhbXBsZSBub25jZQ=="), 400),
        (request(extra="Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), 400),
    ],
)
def test_request_that_is_not_a_handshake_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadHandshake) as caught:
        parse_head(data)
    assert caught.value.status == status


def test_a_refusal_closes_and_keeps_the_applications_headers() -> None:
    head = refusal_head(401, [(b"www-authenticate", b"Bearer"), (b"Connection", b"keep-alive")])
    assert head == b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\nconnection: close\r\n\r\n"
    assert refusal_head(599, []).startswith(b"HTTP/1.1 599 \r\n")
    assert refusal(400, "no").endswith(b"content-length: 3\r\nconnection: close\r\n\r\nno\n")


@pytest.mark.parametrize("header", [(b"x", b"a\r\nset-cookie: b"), (b"x\n", b"a")])
def test_header_value_cannot_inject_another_header(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(Misuse, match="line break"):
        accept_response(b"key", [header])


def test_a_peer_that_left_is_an_os_error_with_its_close_code() -> None:
    gone = PeerGone(1006)
    assert isinstance(gone, OSError)  # ASGI requires it of a send to a peer that left
    assert gone.code == 1006
