"""HTTP Basic on doors: a name with its password, or any name with a token, as browsers store and repeat them.

A browser sends both with every request, and a password is slow to check. So the result of a check is remembered: by a
digest under a key of this process, bounded, and only as long as the user keeps that password. A repeated wrong password
does not count as another attempt: pages keep sending the old one after the password was changed elsewhere.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from secrets import token_bytes
from typing import Final

from fairlead.auth.accounts import Accounts
from fairlead.auth.api.credentials import WrongPassword
from fairlead.auth.tokens import parse_token_id
from fairlead.auth.users import Users, salt_of
from fairlead.model.auth import Identity
from fairlead.model.formats.bounded_tables import keep_newest

KEPT: Final = 1024
"""Number of remembered checks; the least recently used are dropped first."""


class BasicSignIn:
    """`bearer` looks up a token."""

    def __init__(self, users: Users, accounts: Accounts, bearer: Callable[[str], Identity | None]) -> None:
        self._users = users
        self._accounts = accounts
        self._bearer = bearer
        self._key = token_bytes(32)
        self._checked: dict[bytes, tuple[str, bool]] = {}
        """By digest: the user's salt, which changes with the password, and whether the password was right."""
        self._checking: dict[bytes, asyncio.Task[None]] = {}

    def identity(self, name: str, password: str) -> Identity | None:
        """Return, without waiting, the identity of a token, or of a password that `check` found to be right."""
        token = self._bearer(password)
        if token is not None or parse_token_id(password):
            return token
        record = self._users.get(name)
        if record is None or not self._known(self._digest(name, password), salt_of(record)):
            return None
        return self._accounts.identity_of(record)

    async def check(self, name: str, password: str, peer: str) -> None:
        """Check a password and remember the result for `identity`. Raises TooManyAttempts, like every sign-in."""
        if parse_token_id(password) or self._bearer(password) is not None:
            return
        digest = self._digest(name, password)
        if self._known(digest, salt_of(self._users.get(name))) is not None:
            return
        # A page sends many requests at once: one check serves all of them and counts as one attempt.
        task = self._checking.get(digest)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._check(digest, name, password, peer))
            self._checking[digest] = task
            task.add_done_callback(lambda done: self._checking.pop(digest, None))
        await asyncio.shield(task)

    async def _check(self, digest: bytes, name: str, password: str, peer: str) -> None:
        salt, right = salt_of(self._users.get(name)), False
        with suppress(WrongPassword):
            salt, right = (await self._accounts.check(name, password, peer)).salt, True
        keep_newest(self._checked, digest, (salt, right), KEPT)

    def _known(self, digest: bytes, salt: str) -> bool | None:
        """Return the cached result; None without one, or if the user's password has changed since."""
        kept = self._checked.get(digest)
        if kept is None or kept[0] != salt:
            return None
        keep_newest(self._checked, digest, kept, KEPT)
        return kept[1]

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}:{password}".encode(errors="surrogatepass"), hashlib.sha256)
