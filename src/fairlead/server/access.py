"""Applies the gate's pure decision: spends tickets and logs rejections. Called for every request and upgrade."""

import logging

from fairlead.auth.api.credentials import TooManyAttempts
from fairlead.auth.credentials import Credentials
from fairlead.auth.gate import AccessAllowed, AccessRefused, AccessRequirement, basic_to_check, decide
from fairlead.auth.origins import AllowedOrigins
from fairlead.model.web.requests import Head

log = logging.getLogger("fairlead.gate")


class AccessControl:
    def __init__(self, allowed_origins: AllowedOrigins, credentials: Credentials) -> None:
        self.allowed_origins = allowed_origins
        self._credentials = credentials

    async def check_basic(self, head: Head, demand: AccessRequirement) -> AccessRefused | None:
        """Check a password, which is slow, before `admit`. Rejects only callers with too many failed attempts."""
        given = basic_to_check(head, demand, self.allowed_origins)
        if given is not None:
            try:
                await self._credentials.basic_sign_in.check(*given, head.peer)
            except TooManyAttempts as error:
                return self._refused(head, AccessRefused(error.status, error.code, error.message, wait=error.seconds))
        return None

    def admit(self, head: Head, demand: AccessRequirement) -> AccessAllowed | AccessRefused:
        verdict = decide(head, demand, self.allowed_origins, self._credentials)
        if isinstance(verdict, AccessAllowed):
            if verdict.ticket:
                # Nothing was awaited since the decision, so no other request can have spent it.
                self._credentials.tickets.redeem(verdict.ticket)
            return verdict
        return self._refused(head, verdict)

    def _refused(self, head: Head, verdict: AccessRefused) -> AccessRefused:
        kind = "websocket" if head.socket else head.method
        fields = {"peer": head.peer, "kind": kind, "path": head.path, "status": verdict.status, "code": verdict.code}
        log.info("refused", extra=fields)
        return verdict
