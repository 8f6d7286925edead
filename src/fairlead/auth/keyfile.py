"""The key that signs the tokens of users: in the data folder beside the database, and in no backup of it."""

from pathlib import Path
from secrets import token_bytes
from typing import Final

from fairlead.model.errors import Damaged
from fairlead.system.private import write_private

FILE: Final = "users.key"
SIZE: Final = 64


class TokenKey:
    """Made at the first use: a gateway without users who sign in has no such file. Damaged, if it is no key."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._key = self._read()

    def __call__(self) -> bytes:
        self._key = self._key or self._make()
        return self._key

    def _read(self) -> bytes:
        try:
            key = self._path.read_bytes()
        except FileNotFoundError:
            return b""
        if len(key) != SIZE:
            raise Damaged(
                f"{self._path} is no key: put back the one that was there, or delete it, and all users sign in again.",
                file=str(self._path),
            )
        return key

    def _make(self) -> bytes:
        key = token_bytes(SIZE)
        write_private(self._path, key)
        return key
