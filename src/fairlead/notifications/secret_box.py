"""Encryption of stored secrets. The key is in the data folder next to the database, but in no backup of it."""

import base64
from pathlib import Path
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from fairlead.model.errors import Damaged
from fairlead.system.private_files import make_key, read_key

FILE: Final = "secrets.key"


class FieldCipher:
    """Reads or creates the key at the first use: a gateway without secrets has no key file. `key`: the key that all
    nodes of a cluster have; there is no file then."""

    def __init__(self, folder: Path, key: bytes = b"") -> None:
        self._path = folder / FILE
        self._opened = SecretBox(key) if key else None

    def seal(self, text: str) -> str:
        return base64.b64encode(self._box().encrypt(text.encode())).decode()

    def open(self, sealed: str) -> str:
        try:
            return self._box().decrypt(base64.b64decode(sealed)).decode()
        except (CryptoError, ValueError):
            raise Damaged(
                f"A secret cannot be opened with {self._path}: put back the key file that it was made with, "
                "or delete the secret and store it again.",
                file=str(self._path),
            ) from None

    def _box(self) -> SecretBox:
        if self._opened is None:
            size = SecretBox.KEY_SIZE
            self._opened = SecretBox(read_key(self._path, size) or make_key(self._path, size))
        return self._opened
