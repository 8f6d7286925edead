"""The key of a cluster: one file, the same on every node. The keys that all nodes must share are derived from it
(HKDF), each under a label of its own, so that none of them reveals another.
"""

import base64
import binascii
from pathlib import Path
from secrets import token_bytes
from typing import Final, Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.model.errors import Damaged

Label = Literal["users", "urls", "tickets", "secrets", "peers", "fingerprint"]
_SECRET_BYTES: Final = 32
_PREFIX: Final = "fairlead-cluster-key:"


class ClusterKey:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def read(cls, path: Path) -> "ClusterKey":
        """Read the key file. Raises Damaged if it is missing or is no key."""
        try:
            text = path.read_text(encoding="ascii").strip()
            secret = base64.b64decode(text.removeprefix(_PREFIX), altchars=b"-_", validate=True)
        except FileNotFoundError:
            raise Damaged(f"There is no cluster key {path}: copy it from another node.", file=str(path)) from None
        except (binascii.Error, UnicodeDecodeError):
            text, secret = "", b""
        if not text.startswith(_PREFIX) or len(secret) != _SECRET_BYTES:
            raise Damaged(f"{path} is not a cluster key: copy it from another node.", file=str(path))
        return cls(secret)

    def derive(self, label: Label, size: int = 64) -> bytes:
        return HKDF(algorithm=hashes.SHA256(), length=size, salt=b"fairlead cluster key 1", info=label.encode()).derive(
            self._secret
        )

    @property
    def fingerprint(self) -> str:
        """Names the key without revealing it: nodes with different keys must not work together."""
        return self.derive("fingerprint", 8).hex()


def new_cluster_key() -> str:
    """The content of a new key file."""
    return f"{_PREFIX}{base64.urlsafe_b64encode(token_bytes(_SECRET_BYTES)).decode()}\n"
