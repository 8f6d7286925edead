"""The key of a cluster: one file, the same on every node. The keys that all nodes must share are derived from it
(HKDF), each under a label of its own, so that none of them reveals another.
"""

from pathlib import Path
from secrets import token_hex
from typing import Final, Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.model.errors import BadRequest
from fairlead.system.private_files import write_private

Label = Literal["users", "urls", "tickets", "secrets"]
_SHORTEST: Final = 16


class ClusterKey:
    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    @classmethod
    def read(cls, path: Path) -> "ClusterKey":
        """Read the key file. Raises BadRequest if it cannot be used."""
        try:
            mode, secret = path.stat().st_mode, path.read_bytes().strip()
        except OSError as error:
            raise BadRequest(f"The cluster key {path} cannot be read: {error.strerror}.", file=str(path)) from None
        if mode & 0o077:
            raise BadRequest(f"Other users can read the cluster key {path}: chmod 600 {path}", file=str(path))
        if len(secret) < _SHORTEST:
            raise BadRequest(f"The cluster key {path} is too short: make one with fairlead nodes key.", file=str(path))
        return cls(secret)

    def derive(self, label: Label, size: int = 64) -> bytes:
        return HKDF(algorithm=hashes.SHA256(), length=size, salt=b"fairlead cluster key 1", info=label.encode()).derive(
            self.secret
        )


def make_cluster_key(path: Path) -> None:
    """Write a new key. BadRequest if the file exists: nodes that have the old key could not talk to this one."""
    if path.exists():
        raise BadRequest(f"{path} exists already: copy it to the other nodes.", file=str(path))
    write_private(path, f"{token_hex(32)}\n".encode())
