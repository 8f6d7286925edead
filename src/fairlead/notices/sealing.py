"""Secrets at rest: sealed with a key that is in the data folder beside the database, and in no backup of it."""

import base64
from pathlib import Path
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox
from nacl.utils import random

from fairlead.model.errors import Damaged
from fairlead.system.private import write_private

FILE: Final = "secrets.key"


class Seal:
    """The key is read, or made, at the first use: a gateway without secrets has no such file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._opened: SecretBox | None = None

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
            self._opened = SecretBox(self._read() or self._make())
        return self._opened

    def _read(self) -> bytes:
        try:
            key = self._path.read_bytes()
        except FileNotFoundError:
            return b""
        if len(key) != SecretBox.KEY_SIZE:
            raise Damaged(f"{self._path} is no key: put back the one that was there.", file=str(self._path))
        return key

    def _make(self) -> bytes:
        key = random(SecretBox.KEY_SIZE)
        write_private(self._path, key)
        return key
