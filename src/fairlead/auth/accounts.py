"""Users who sign in: issues signed tokens for passwords, verifies tokens, and manages invitations of new users.

A token is a JWT (HS256) with the claims `{userId, username, iat, exp}`, valid for 7 days. Its signing key is derived
from the gateway's own key and the user's salt: changing the password or removing the user invalidates all earlier
tokens.
"""

import hashlib
import hmac
import logging
from collections.abc import Callable
from typing import Any, Final, Literal

from fairlead.auth.api.credentials import BadInvitation, LoginCode, SignedIn, WrongPassword
from fairlead.auth.login_codes import BadCode, LoginCodes
from fairlead.auth.login_throttle import LoginThrottle
from fairlead.auth.passwords import Passwords, check_password
from fairlead.auth.tokens import check_scopes
from fairlead.auth.users import SIGNER, StoredUser, Users
from fairlead.model.auth import Identity, Scope
from fairlead.system.clock import Clock

LIFETIME_S: Final = 7 * 24 * 3600
INVITED_MS: Final = 24 * 3600 * 1000
"""Lifetime of an invitation, which is passed from person to person."""
_ALGORITHM: Final = "HS256"
_CLAIMS: Final = ("userId", "username", "iat", "exp")
_LONGEST: Final = 2048
"""Characters of the longest token that is parsed: ours have about 200."""

log = logging.getLogger("fairlead.auth")


class Accounts:
    """`key` returns the gateway's own secret and is called when it is needed; `ended` closes a user's connections."""

    def __init__(
        self, users: Users, invitations: LoginCodes, clock: Clock, key: Callable[[], bytes], ended: Callable[[str], int]
    ) -> None:
        self._users = users
        self._invitations = invitations
        self._clock = clock
        self._key = key
        self._ended = ended
        self._passwords = Passwords()
        self._attempts = LoginThrottle(clock)
        self.on_checked: Callable[[Identity | None, str, str], None] = lambda who, user, peer: None
        """Called after each check of a password, with the identity if it was right, the user if there is one, and the
        address."""

    # --- tokens: without waiting, and a bad one reveals no reason

    def token(self, record: StoredUser) -> SignedIn:
        import jwt  # late: it loads much, and most gateways have no signed-in users

        now = self._clock.now_ms() // 1000
        expires = now + LIFETIME_S
        claims = {"userId": record.number, "username": record.name, "iat": now, "exp": expires}
        signed = jwt.encode(claims, self._key_of(record), algorithm=_ALGORITHM)
        return SignedIn(id=record.number, name=record.name, token=signed, expires=expires * 1000)

    def identity(self, token: str) -> Identity | Literal["expired"] | None:
        """Return the owner of a token. `expired`: the token was valid once, and its user could still sign in."""
        if len(token) > _LONGEST or token.count(".") != 2:
            return None
        claimed = self._claims(token, b"", verify=False)
        number = None if claimed is None else claimed["userId"]
        record = self._users.by_number(number) if type(number) is int else None
        claims = None if record is None else self._claims(token, self._key_of(record), verify=True)
        if record is None or claims is None or claims["username"] != record.name:
            return None
        expires = int(claims["exp"]) * 1000
        return "expired" if self._clock.now_ms() >= expires else self.identity_of(record, expires)

    def identity_of(self, record: StoredUser, expires: int = 0) -> Identity:
        return Identity(credential_of(record), record.name, record.name, frozenset(record.scopes), expires)

    def record(self, credential: str) -> StoredUser | None:
        """Return the user behind a credential id of the form `user:<number>`, or None."""
        kind, _, number = credential.partition(":")
        return self._users.by_number(int(number)) if kind == "user" and number.isdecimal() else None

    def user(self, credential: str) -> Identity | None:
        """Return the identity behind a credential id of a user, or None."""
        record = self.record(credential)
        return None if record is None else self.identity_of(record)

    def renew(self, who: Identity, *, now: bool) -> SignedIn | None:
        record = self._users.get(who.user)
        if record is None or not who.expires or who.credential != credential_of(record):
            return None
        left = who.expires - self._clock.now_ms()
        return self.token(record) if now or left < LIFETIME_S * 1000 // 2 else None

    def _claims(self, token: str, key: bytes, *, verify: bool) -> dict[str, Any] | None:
        """Decode a token; None unless it has our claims and (with `verify`) our signature. The caller checks the
        expiry, because our clock is injected."""
        import jwt

        options: Any = {"verify_signature": verify, "verify_exp": False, "verify_iat": False, "require": list(_CLAIMS)}
        try:
            claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options=options)
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            return None
        whole = all(type(claims.get(name)) is int for name in ("userId", "iat", "exp"))
        return claims if whole and isinstance(claims["username"], str) else None

    def _key_of(self, record: StoredUser) -> bytes:
        return hmac.new(self._key(), f"{record.number}:{record.salt}".encode(), hashlib.sha256).digest()

    # --- signing in

    async def sign_in(self, name: str, password: str, peer: str) -> SignedIn:
        return self.token(await self.check(name, password, peer))

    async def check(self, name: str, password: str, peer: str) -> StoredUser:
        """Return the user with this name and password. Raises WrongPassword or TooManyAttempts."""
        await self._attempts.begin(peer, name)
        record = self._users.get(name)
        fits = await self._passwords.verify(record.password if record else "", password)
        if record is None or not fits or self._users.get(name) is not record:
            log.info("sign-in refused", extra={"peer": peer, "user": name if record else ""})
            self.on_checked(None, name if record else "", peer)
            raise WrongPassword
        self._attempts.succeeded(peer, name)
        log.info("signed in", extra={"peer": peer, "user": name})
        self.on_checked(self.identity_of(record), name, peer)
        return record

    async def invite(self, scopes: tuple[Scope, ...]) -> LoginCode:
        return await self._invitations.create("", "", check_scopes(scopes, SIGNER))

    async def accept(self, code: str, name: str, password: str) -> SignedIn:
        """Create a user. Errors in name or password are raised before the invitation is used up, and only for callers
        with a valid invitation."""
        try:
            await self._invitations.peek(code)
            self._users.check_free(name)
            check_password(password)
            hashed = await self._passwords.hash(password)
            self._users.check_free(name)
            invited = await self._invitations.redeem(code)
        except BadCode:
            raise BadInvitation from None
        record = await self._users.add(name, hashed, invited.scopes)
        log.info("invitation accepted", extra={"user": name, "scopes": invited.scopes})
        return self.token(record)

    # --- the owner's actions

    async def add(self, name: str, password: str, scopes: tuple[Scope, ...]) -> StoredUser:
        self._users.check_free(name)
        if not password:
            return await self._users.add(name)
        check_password(password)
        return await self._users.add(name, await self._passwords.hash(password), scopes)

    async def set_password(self, name: str, password: str) -> StoredUser:
        self._users.check(name)
        check_password(password)
        hashed = await self._passwords.hash(password)
        try:
            return await self._users.set_password(name, hashed)
        finally:
            self._end("password set", self._users.get(name))

    async def remove(self, name: str) -> None:
        record = self._users.get(name)
        try:
            await self._users.remove(name)
        finally:
            if self._users.get(name) is None:
                self._end("user removed", record)

    def _end(self, event: str, record: StoredUser | None) -> None:
        """Close the user's connections. Also called when the store failed: in this process the change is in effect."""
        if record is not None:
            log.info(event, extra={"user": record.name, "sockets": self._ended(credential_of(record))})


def credential_of(record: StoredUser) -> str:
    """Return the credential id shared by all tokens of a user: they become invalid together."""
    return f"user:{record.number}"
