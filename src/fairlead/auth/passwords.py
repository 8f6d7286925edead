"""Passwords: hashed with argon2id, slowly and off the event loop, few at a time: a flood of logins must not take all
memory and both cores."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from argon2 import PasswordHasher, profiles
from argon2.exceptions import InvalidHashError, VerificationError

from fairlead.auth.api.accounts import TooManyAttempts
from fairlead.model.errors import BadRequest

T = TypeVar("T")

PARAMETERS = profiles.RFC_9106_LOW_MEMORY
"""Three passes over 64 MiB: what RFC 9106 says for where memory is dear. Tests put a cheaper one here."""
SHORTEST: Final = 8
"""Characters of a password, as NIST SP 800-63B has it."""
LARGEST: Final = 1024
"""Bytes of one: more is no password."""
AT_ONCE: Final = 2
WAITING: Final = 32
"""Hashes that may wait for their turn; one takes 64 MiB and about a tenth of a second."""


def check_password(password: str) -> None:
    """BadRequest, if nobody should have it."""
    if len(password) < SHORTEST:
        raise BadRequest(f"A password has at least {SHORTEST} characters.", field="password")
    if len(password.encode(errors="surrogatepass")) > LARGEST:
        raise BadRequest(f"A password has at most {LARGEST} bytes.", field="password")


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher.from_parameters(PARAMETERS)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._nobodys = ""

    async def hash(self, password: str) -> str:
        return await self._turn(lambda: self._hasher.hash(_bytes(password)))

    async def fits(self, kept: str, password: str) -> bool:
        """As slow for somebody who is not there (`kept` empty) as for everybody else."""
        return await self._turn(lambda: self._fits(kept, password))

    def _fits(self, kept: str, password: str) -> bool:
        if not self._nobodys:
            self._nobodys = self._hasher.hash("nobody's")
        try:
            self._hasher.verify(kept or self._nobodys, _bytes(password))
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
