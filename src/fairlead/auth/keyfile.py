"""Signing keys of the gateway: in the data folder next to the database, and never in its backups."""

from pathlib import Path
from typing import Final

from fairlead.system.private_files import make_key, read_key

FILE: Final = "users.key"
"""Signs the tokens of users."""
URLS: Final = "urls.key"
"""Signs links to downloads."""
SIZE: Final = 64


class KeyFile:
    """A key in a file, created at first use: a gateway without users who sign in has no `users.key`. Raises Damaged if
    the file is not a key."""

    def __init__(self, folder: Path, name: str = FILE) -> None:
        self._path = folder / name
        self._key = read_key(self._path, SIZE)

    def __call__(self) -> bytes:
        self._key = self._key or make_key(self._path, SIZE)
        return self._key
