"""Session keys, for protocols whose clients expect encrypted messages. Set by an admin, kept in the document store,
read by the gateway alone: no response and no log line ever contains one.
"""

from typing import Final, Literal

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall

Scheme = Literal["legacy", "dataKey"]
"""`legacy`: XSalsa20-Poly1305 (NaCl secretbox). `dataKey`: AES-256-GCM."""

KEY_BYTES: Final = 32
SPACE: Final = "session.keys"
"""The document space of the keys, by session."""


class SessionKey(msgspec.Struct, frozen=True):
    scheme: Scheme
    key: bytes

    def __repr__(self) -> str:
        return f"SessionKey({self.scheme!r}, ***)"


class ReadKey(ServiceCall["SessionKey | None"], frozen=True):
    """-> `SessionKey`, or None if the session has none. Never put it into a response to a client."""

    session: SessionId


class SetKey(ServiceCall[None], frozen=True):
    """-> None. Messages sent earlier are not changed."""

    session: SessionId
    key: SessionKey


class DropKey(ServiceCall[bool], frozen=True):
    """-> whether there was one"""

    session: SessionId
