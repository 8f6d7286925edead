"""Passwords: hashed with argon2id, slowly and off the event loop, and only a few at a time: a flood of logins must not
take all memory and both cores."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from argon2 import PasswordHasher, profiles
from argon2.exceptions import InvalidHashError, VerificationError

from fairlead.auth.api.credentials import TooManyAttempts
from fairlead.model.errors import BadRequest

T = TypeVar("T")

PARAMETERS = profiles.RFC_9106_LOW_MEMORY
"""Three passes over 64 MiB: RFC 9106's recommendation for limited memory. Tests set cheaper parameters here."""
SHORTEST: Final = 8
"""Minimum characters of a password, as in NIST SP 800-63B."""
LARGEST: Final = 1024
"""Maximum bytes of a password."""
AT_ONCE: Final = 2
WAITING: Final = 32
"""Limit of hashes that run or wait; one takes 64 MiB and about a tenth of a second."""


def check_password(password: str) -> None:
    """Raise BadRequest for a password that is too short or too long."""
    if len(password) < SHORTEST:
        raise BadRequest(f"A password has at least {SHORTEST} characters.", field="password")
    if len(password.encode(errors="surrogatepass")) > LARGEST:
        raise BadRequest(f"A password has at most {LARGEST} bytes.", field="password")


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher.from_parameters(PARAMETERS)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._dummy_hash = ""

    async def hash(self, password: str) -> str:
        return await self._turn(lambda: self._hasher.hash(_bytes(password)))

    async def verify(self, kept: str, password: str) -> bool:
        """Check a password. It takes as long for an unknown user (`kept` is empty) as for any other."""
        return await self._turn(lambda: self._fits(kept, password))

    def _fits(self, kept: str, password: str) -> bool:
        if not self._dummy_hash:
            self._dummy_hash = self._hasher.hash("no user")
        try:
            self._hasher.verify(kept or self._dummy_hash, _bytes(password))
        except (VerificationError, InvalidHashError):
            return False
        return bool(kept)

    async def _turn(self, work: Callable[[], T]) -> T:
        if self._waiting >= WAITING:
            raise TooManyAttempts(1)
        self._waiting += 1
        try:
            async with self._places:
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")
