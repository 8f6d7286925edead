"""The measuring end of a WebSocket: blocking sockets and little work, so that the server dominates the result."""

import base64
import json
import os
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

TOKEN = "fl_" + "bench" * 9
END = (b'"type":"turn.ended"', b'"type":"result"', b'"type":"chat:stream_end"')
"""The last frame of a turn: the gateway's, a bare relay's, and that of Cognova's chat."""
_DELTA = (b'"type":"text.delta"', b'"type":"content_block_delta"', b'"type":"chat:text_delta"')
_PING, _PONG = 9, 10
_decode = msgspec.json.Decoder().decode


class Wire:
    """One connection."""

    def __init__(self, port: int, path: str, token: str = TOKEN) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(4096)
        if not head.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(head.decode(errors="replace"))
        self._rest = head.partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        self.socket.close()

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        # A mask of zeros is valid, and changes nothing.
        self.socket.sendall(b"\x81" + size + bytes(4) + data)

    def subscribe(self, session: str, **cursor: Any) -> dict[str, Any]:
        """Subscribe and return the reply."""
        self.send({"id": 1, "type": "subscribe", "session": session, **cursor})
        for _, payload in self.frames():
            answer: dict[str, Any] = _decode(payload)
            if answer["type"] in ("subscribed", "error"):
                return answer
        raise RuntimeError("the gateway hung up")

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """(nanoseconds of arrival, payload) of each frame, forever."""
        came = time.monotonic_ns()
        while True:
            start = 0
            data = self._rest
            while (frame := _frame(data, start)) is not None:
                begin, end = frame
                self._rest = data[end:]
                if data[start] & 0x0F == _PING:
                    self.socket.sendall(bytes((0x80 | _PONG, 0x80 | (end - begin))) + bytes(4) + data[begin:end])
                else:
                    yield came, data[begin:end]
                start = end
            more = self.socket.recv(1 << 18)
            came = time.monotonic_ns()
            if not more:
                return
            self._rest = data[start:] + more

    def until_end(self) -> int:
        """Read up to the end of a turn; return the number of frames."""
        for count, (_, payload) in enumerate(self.frames(), 1):
            if any(end in payload[:200] for end in END):
                return count
        raise RuntimeError("the server hung up")

    def until_seq(self, seq: int) -> None:
        """Read up to an event at or after that seq."""
        for _, payload in self.frames():
            if payload.startswith(b'{"seq":') and int(payload[7 : payload.index(b",")]) >= seq:
                return
        raise RuntimeError("the server hung up")

    def ages(self) -> Iterator[tuple[int, int, int]]:
        """(seq or 0, when the agent sent it, when it arrived) of each delta of a paced turn, in nanoseconds."""
        for came, payload in self.frames():
            if any(kind in payload for kind in _DELTA):
                line = _decode(payload)
                text = line.get("text") or line.get("delta") or line["event"]["delta"]["text"]
                yield line.get("seq", 0), int(text), came
            elif any(end in payload[:200] for end in END):
                return


def _frame(data: bytes, start: int) -> tuple[int, int] | None:
    """Where the payload of the frame at `start` begins and ends; None while it is incomplete."""
    if len(data) < start + 2:
        return None
    size, begin = data[start + 1], start + 2
    if size >= 126:
        width = 2 if size == 126 else 8
        begin += width
        size = int.from_bytes(data[start + 2 : begin], "big")
    return (begin, begin + size) if len(data) >= begin + size else None


def drain(wires: Sequence[Wire]) -> tuple[int, int]:
    """Read all until each has received the end of its turn: (bytes, nanoseconds when the last had it).

    Frames are not parsed here: with a hundred subscribers the measuring end must not be the bottleneck.
    """
    total = 0
    tails = dict.fromkeys(wires, b"")
    last = 0
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.socket, selectors.EVENT_READ, wire)
        while tails:
            for key, _ in selector.select(timeout=120):
                wire = key.data
                data = wire.socket.recv(1 << 20)
                total += len(data)
                seen = tails[wire] + data
                tails[wire] = seen[-64:]
                if not data or any(end in seen for end in END):
                    last = time.monotonic_ns()
                    selector.unregister(wire.socket)
                    del tails[wire]
    return total, last
