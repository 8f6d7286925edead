"""The names of a cell's streams, subjects and keys. Pure.

A token of a subject that has other characters than letters, digits, `_` and `-` is written as `=` and base64url.
"""

import base64
import re
from typing import Final

import msgspec

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
CELL: Final = re.compile(r"[a-z0-9]{1,16}")
NODE: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")


def token(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return "=" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def untoken(text: str) -> str:
    if not text.startswith("="):
        return text
    padded = text[1:] + "=" * (-len(text[1:]) % 4)
    return base64.urlsafe_b64decode(padded).decode()


class Names(msgspec.Struct, frozen=True):
    """All names of one cell."""

    cell: str

    # --- streams

    @property
    def log_stream(self) -> str:
        return f"fl_{self.cell}_log"

    @property
    def bucket_stream(self) -> str:
        """Named like a NATS key-value bucket, so that `nats kv` shows it."""
        return f"KV_fl_{self.cell}"

    @property
    def object_stream(self) -> str:
        return f"fl_{self.cell}_obj"

    # --- subjects of stored messages

    def log(self, session: str) -> str:
        return f"fl.{self.cell}.log.{token(session)}"

    def key(self, *parts: str) -> str:
        """The subject of a key in the bucket."""
        return f"$KV.fl_{self.cell}.{'.'.join(map(token, parts))}"

    def object(self, name: str, part: int | str) -> str:
        return f"fl.{self.cell}.obj.{token(name)}.{part}"

    # --- subjects of passing messages

    @property
    def live_log(self) -> str:
        return f"fl.{self.cell}.live.log"

    @property
    def live_bucket(self) -> str:
        return f"fl.{self.cell}.live.kv"

    def node(self, node: str, *rest: str) -> str:
        return ".".join((f"fl.{self.cell}.node.{token(node)}", *rest))

    def tell(self, topic: str) -> str:
        return f"fl.{self.cell}.tell.{topic}"


def session_of(subject: str) -> str:
    """The session of a stored subject of the log."""
    return untoken(subject.rpartition(".")[2])


def key_of(subject: str) -> tuple[str, ...]:
    """The key of a stored subject of the bucket."""
    return tuple(map(untoken, subject.split(".")[2:]))
