"""One-time login codes: what turns a link into a browser's device key.

A code has 256 bits, lives 10 minutes and is spent once, whoever comes first: the store's `delete` says who that
was. It travels in the fragment of a URL, which browsers send to nobody. Kept by hash, like every secret.
"""

from typing import Final

import msgspec

from fairlead.auth.tokens import SECRET_BYTES, Random, digest, spell
from fairlead.model.admin import LoginCode
from fairlead.model.auth import Scope
from fairlead.model.errors import NotAllowed, TooMany
from fairlead.model.store import Documents
from fairlead.system.clock import Clock

SPACE: Final = "login_codes"
LIFETIME_MS: Final = 10 * 60 * 1000
OPEN_AT_MOST: Final = 256


class BadCode(NotAllowed):
    """The same words for a code that never was, was spent, or is too old: nothing is told to who guesses."""

    code = "bad_code"
    status = 401

    def __init__(self) -> None:
        super().__init__("This login link is not valid any more: make a new one with: fairlead login")


class PendingLogin(msgspec.Struct, frozen=True):
    name: str
    user: str
    scopes: tuple[Scope, ...]
    expires: int


class LoginCodes:
    def __init__(self, documents: Documents, clock: Clock, random: Random) -> None:
        self._documents = documents
        self._clock = clock
        self._random = random

    async def create(self, name: str, user: str, scopes: tuple[Scope, ...]) -> LoginCode:
        await self._forget_expired()
        code = spell(self._random(SECRET_BYTES))
        expires = self._clock.now_ms() + LIFETIME_MS
        pending = PendingLogin(name, user, scopes, expires)
        await self._documents.put(SPACE, digest(code), msgspec.to_builtins(pending))
        return LoginCode(code=code, expires=expires)

    async def redeem(self, code: str) -> PendingLogin:
        key = digest(code)
        found = await self._documents.get(SPACE, key)
        if found is None or not await self._documents.delete(SPACE, key):
            raise BadCode
        pending = msgspec.convert(found, PendingLogin)
        if self._clock.now_ms() >= pending.expires:
            raise BadCode
        return pending

    async def _forget_expired(self) -> None:
        now = self._clock.now_ms()
        codes = await self._documents.list(SPACE)
        expired = [key for key, value in codes.items() if msgspec.convert(value, PendingLogin).expires <= now]
        for key in expired:
            await self._documents.delete(SPACE, key)
        if len(codes) - len(expired) >= OPEN_AT_MOST:
            raise TooMany(f"{OPEN_AT_MOST} login links are open: wait until they have expired.")
