"""Keys of sessions, for protocols whose clients expect what they are sent to be encrypted. Set by an admin, kept with
the documents, read by the gateway alone: no answer and no log line ever has one.
"""

from typing import Final, Literal

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.requests import ServiceCall

Scheme = Literal["legacy", "dataKey"]
"""`legacy`: XSalsa20-Poly1305 (NaCl secretbox). `dataKey`: AES-256-GCM."""

KEY_BYTES: Final = 32
SPACE: Final = "session.keys"
"""The documents that hold them, by session."""


class SessionKey(msgspec.Struct, frozen=True):
    scheme: Scheme
    key: bytes

    def __repr__(self) -> str:
        return f"SessionKey({self.scheme!r}, ***)"


class ReadKey(ServiceCall, frozen=True):
    """-> `SessionKey`, or None where the session has none. Never for an answer to a client."""

    session: SessionId


class SetKey(ServiceCall, frozen=True):
    """-> None. What was sent before stays as it was sent."""

    session: SessionId
    key: SessionKey


class DropKey(ServiceCall, frozen=True):
    """-> whether there was one"""

    session: SessionId
