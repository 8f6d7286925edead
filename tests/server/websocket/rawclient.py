"""A WebSocket client on a plain socket, so that tests can send bytes that no library would."""

from __future__ import annotations

import os
import socket
import struct
from base64 import b64encode
from collections.abc import Callable
from time import monotonic, sleep
from types import TracebackType

TIMEOUT = 300.0
"""Seconds until a wait fails: far more than any test here needs."""

KEY = b64encode(bytes(range(16))).decode()


def masked_frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    mask: bool = True,
    reserved: int = 0,
    declared: int | None = None,
    key: bytes | None = None,
) -> bytes:
    """One client frame; `declared` is a false length, `reserved` are bits 0x10 to 0x40 of the first byte."""
    length = len(payload) if declared is None else declared
    bit = 0x80 if mask else 0
    head = bytes([(0x80 if fin else 0) | reserved | opcode])
    if length < 126:
        head += bytes([bit | length])
    elif length < 65536:
        head += bytes([bit | 126]) + struct.pack("!H", length)
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", length)
    if not mask:
        return head + payload
    key = key if key is not None else os.urandom(4)
    size = len(payload)
    pad = (key * (size // 4 + 1))[:size]
    return head + key + (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")


def big_frame(opcode: int, size: int, *, fin: bool = True) -> bytes:
    """A frame of zero bytes under a zero mask, which is cheap to build."""
    return masked_frame(opcode, fin=fin, declared=size, key=bytes(4)) + bytes(size)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end = monotonic() + TIMEOUT
    while not holds():
        if monotonic() > end:
            raise AssertionError(f"never came: {what}")
        sleep(0.002)


class RawClient:
    def __init__(
        self,
        port: int,
        path: str,
        headers: str = "",
        *,
        version: str = "13",
        key: str = KEY,
        receive_buffer: int | None = None,
        wait: bool = True,
    ) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = b""
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: {version}\r\n{headers}\r\n".encode()
        )
        if wait:
            self.read_head()

    def read_head(self) -> None:
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.head = head.decode("latin-1").lower()
        self.status = int(self.head.split()[1])

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def _fill(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError
        self.buffer += data

    def _take(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self._fill()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def body(self) -> bytes:
        """Everything that the server sends until it closes."""
        try:
            while True:
                self._fill()
        except EOFError:
            return self.buffer

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, opcode: int, payload: bytes = b"", *, fin: bool = True, reserved: int = 0) -> None:
        self.raw(masked_frame(opcode, payload, fin=fin, reserved=reserved))

    def text(self, payload: bytes) -> None:
        self.send(0x1, payload)

    def frame(self) -> tuple[int, bytes]:
        """The next frame: its first byte and its payload."""
        head, length = self._take(2)
        if length == 126:
            (length,) = struct.unpack("!H", self._take(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._take(8))
        return head, self._take(length)

    def close_code(self) -> int:
        """Read up to the server's close frame and return its code; 1005 if it has no code."""
        while True:
            head, payload = self.frame()
            if head == 0x88:
                return int.from_bytes(payload[:2], "big") if payload else 1005

    def at_eof(self) -> bool:
        try:
            self._fill()
        except (EOFError, ConnectionResetError):
            return True
        return False

    def leave(self, code: int = 1000) -> int:
        self.send(0x8, struct.pack("!H", code))
        return self.close_code()
