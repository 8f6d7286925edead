"""Single-use codes for the buttons of a push message: each gives one answer to one request from one device.

Stored as hashes, like every secret. A code alone decides nothing: the caller must also present the device's key.
"""

import hashlib
import secrets
from typing import Final, Literal

import msgspec

from fairlead.model.ids import RequestId, SessionId
from fairlead.model.store import Documents
from fairlead.notifications.api.targets import AnswerOf, BadAnswerCode
from fairlead.system.clock import Clock

SPACE: Final = "answer_codes"
LIFETIME_MS: Final = 3_600_000
"""The same period in which a notice is sent; an older request is answered on its card."""
OPEN_AT_MOST: Final = 2000


class _StoredCode(AnswerOf, frozen=True, kw_only=True):
    device: str
    expires: int


class AnswerCodes:
    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock

    async def make(self, session: SessionId, request: RequestId, device: str) -> dict[str, str]:
        """Make a code for each answer; none if too many are open: the request's card still works."""
        if not await self._room():
            return {}
        expires = self._clock.now_ms() + LIFETIME_MS
        made: dict[str, str] = {}
        answers: tuple[Literal["allow", "deny"], ...] = ("allow", "deny")
        for behavior in answers:
            code = made[behavior] = secrets.token_urlsafe(32)
            kept = _StoredCode(session=session, request=request, behavior=behavior, device=device, expires=expires)
            await self._documents.put(SPACE, _digest(code), msgspec.to_builtins(kept))
        return made

    async def revoked(self, device: str) -> None:
        """Delete the codes of a revoked device, which can no longer be redeemed."""
        for key, kept in (await self._documents.list(SPACE)).items():
            if kept["device"] == device:
                await self._documents.delete(SPACE, key)

    async def redeem(self, code: str, device: str) -> AnswerOf:
        """Use up a code and return its answer. Raises the same BadAnswerCode for a code that is unknown, used, expired
        or another device's."""
        key = _digest(code)
        found = await self._documents.get(SPACE, key)
        if found is None:
            raise BadAnswerCode
        kept = msgspec.convert(found, _StoredCode)
        used = kept.device == device and await self._documents.delete(SPACE, key)
        if not used or self._clock.now_ms() >= kept.expires:
            raise BadAnswerCode
        return msgspec.convert(found, AnswerOf)

    async def _room(self) -> bool:
        now = self._clock.now_ms()
        kept = await self._documents.list(SPACE)
        old = [key for key, value in kept.items() if value["expires"] <= now]
        for key in old:
            await self._documents.delete(SPACE, key)
        return len(kept) - len(old) < OPEN_AT_MOST


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
