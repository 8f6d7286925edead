"""One-time login codes: a link with a code gives a browser its device key.

A code has 256 bits, lives 10 minutes and is spent once by the first caller, which the store's `delete` determines. It
is in the fragment of a URL, which browsers never send. Stored as a hash, like every secret.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from fairlead.auth.api.credentials import LoginCode
from fairlead.auth.tokens import SECRET_BYTES, Random, digest, encode_base32
from fairlead.model.auth import Scope
from fairlead.model.errors import NotAllowed, TooMany
from fairlead.model.store import Documents
from fairlead.system.clock import Clock

SPACE: Final = "login_codes"
LIFETIME_MS: Final = 10 * 60 * 1000
OPEN_AT_MOST: Final = 256


class BadCode(NotAllowed, code="bad_code", status=401):
    """The same message for a code that never existed, was spent, or has expired: guessing reveals nothing."""

    def __init__(self) -> None:
        super().__init__("This login link is not valid any more: make a new one with: fairlead login")


class PendingLogin(msgspec.Struct, frozen=True):
    name: str
    user: str
    scopes: tuple[Scope, ...]
    expires: int


@dataclass(frozen=True)
class LoginCodes:
    """`_space` and `_lifetime` differ for codes that are not for a device."""

    _documents: Documents
    _clock: Clock
    _random: Random
    _space: str = SPACE
    _lifetime: int = LIFETIME_MS

    async def create(self, name: str, user: str, scopes: tuple[Scope, ...]) -> LoginCode:
        await self._forget_expired()
        code = encode_base32(self._random(SECRET_BYTES))
        expires = self._clock.now_ms() + self._lifetime
        pending = PendingLogin(name, user, scopes, expires)
        await self._documents.put(self._space, digest(code), msgspec.to_builtins(pending))
        return LoginCode(code=code, expires=expires)

    async def peek(self, code: str) -> PendingLogin:
        """Return the pending login without spending the code. Raises BadCode."""
        found = await self._documents.get(self._space, digest(code))
        if found is None:
            raise BadCode
        pending = msgspec.convert(found, PendingLogin)
        if self._clock.now_ms() >= pending.expires:
            raise BadCode
        return pending

    async def redeem(self, code: str) -> PendingLogin:
        """Spend the code and return its pending login. Raises BadCode."""
        pending = await self.peek(code)
        if not await self._documents.delete(self._space, digest(code)):
            raise BadCode
        return pending

    async def _forget_expired(self) -> None:
        now = self._clock.now_ms()
        codes = await self._documents.list(self._space)
        expired = [key for key, value in codes.items() if msgspec.convert(value, PendingLogin).expires <= now]
        for key in expired:
            await self._documents.delete(self._space, key)
        if len(codes) - len(expired) >= OPEN_AT_MOST:
            raise TooMany(f"{OPEN_AT_MOST} links are open: wait until they have expired.")
