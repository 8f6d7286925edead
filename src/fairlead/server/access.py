"""Applies the gate's pure decision: spends tickets and logs rejections. Called for every request and upgrade.

And CORS for the origins of the setting `origins`: their pages may read responses. No response allows credentials of the
browser (`Access-Control-Allow-Credentials`): a page sends a token itself.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.auth.api.credentials import TooManyAttempts
from fairlead.auth.credentials import Credentials
from fairlead.auth.gate import (
    BAD_CREDENTIAL,
    AccessAllowed,
    AccessRefused,
    AccessRequirement,
    basic_to_check,
    decide,
)
from fairlead.auth.origins import AllowedOrigins, parse_origin
from fairlead.model.web.requests import Head
from fairlead.model.web.routes import METHODS
from fairlead.server.asgi import Application, Message, Receive, Scope, Send

log = logging.getLogger("fairlead.gate")

_PREFLIGHT_S: Final = 600
"""How long a browser may remember the answer."""


STORE_AWAY: Final = AccessRefused(
    503, "unavailable", "This node has lost the store and cannot check credentials: use another one, or try again."
)


class AccessControl:
    """`on_refused` is called with every request that is rejected."""

    def __init__(
        self,
        allowed_origins: AllowedOrigins,
        credentials: Credentials,
        on_refused: Callable[[Head, AccessRefused], None] = lambda head, verdict: None,
    ) -> None:
        self.allowed_origins = allowed_origins
        self._credentials = credentials
        self._on_refused = on_refused

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
                # Nothing was awaited since the decision, so no other request here can have spent it.
                self._credentials.tickets.redeem(verdict.ticket)
            return verdict
        return self._refused(head, verdict)

    async def spend(self, head: Head, ticket: str) -> AccessRefused | None:
        """Make sure that no other node has admitted a socket with this ticket. Raises Unavailable."""
        spent = await self._credentials.tickets.spend(ticket)
        return None if spent else self._refused(head, BAD_CREDENTIAL)

    def _refused(self, head: Head, verdict: AccessRefused) -> AccessRefused:
        kind = "websocket" if head.socket else head.method
        fields = {"peer": head.peer, "kind": kind, "path": head.path, "status": verdict.status, "code": verdict.code}
        log.info("refused", extra=fields)
        self._on_refused(head, verdict)
        return verdict


# --- CORS


def allow_cross_origin(
    handler: Application, allowed: AllowedOrigins, scope: Scope, receive: Receive, send: Send
) -> Awaitable[None]:
    """Answer a preflight of an allowed origin here; let the handler answer everything else."""
    origin = _allowed_origin(scope, allowed)
    if origin is None:
        return handler(scope, receive, send)
    if scope["method"] == "OPTIONS":
        return _answer_preflight(origin, send)
    return handler(scope, receive, _with_header(origin, send))


def _allowed_origin(scope: Scope, allowed: AllowedOrigins) -> bytes | None:
    if not allowed.origins:
        return None
    given = [value for name, value in scope["headers"] if name == b"origin"]
    origin = parse_origin(given[0].decode("latin-1")) if len(given) == 1 else None
    return given[0] if origin in allowed.origins else None


async def _answer_preflight(origin: bytes, send: Send) -> None:
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", ", ".join(METHODS).encode()),
        # The asterisk covers every header but this one.
        (b"access-control-allow-headers", b"authorization, *"),
        (b"access-control-max-age", str(_PREFLIGHT_S).encode()),
        (b"vary", b"origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _with_header(origin: bytes, send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", b"*")]
            message = {**message, "headers": [*message["headers"], *more, (b"vary", b"origin")]}
        await send(message)

    return send_more
