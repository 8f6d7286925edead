"""Messages between nodes, signed with the cluster key: the NATS servers carry them, but cannot make them."""

import hashlib
import hmac
from typing import Final

import msgspec

_MAC_BYTES: Final = 16


class Sealed(msgspec.Struct, frozen=True, array_like=True):
    """A message: its sender, an id that is used once, its place in an exchange, and its content."""

    sender: str
    id: str
    kind: str
    number: int
    last: bool
    body: bytes


class Seal:
    """`subject` is part of what is signed: a message cannot be sent again to another topic or node."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"fairlead messages between nodes", hashlib.sha256)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Sealed).decode

    def close(self, subject: str, message: Sealed) -> bytes:
        data = self._encode(message)
        return self._mac(subject, data) + data

    def open(self, subject: str, data: bytes) -> Sealed | None:
        """The message; None if it is not of a node of this cell."""
        mac, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(subject, content)):
            return None
        try:
            return self._decode(content)
        except msgspec.MsgspecError:
            return None

    def _mac(self, subject: str, data: bytes) -> bytes:
        return hmac.digest(self._key, subject.encode() + b"\0" + data, hashlib.sha256)[:_MAC_BYTES]
