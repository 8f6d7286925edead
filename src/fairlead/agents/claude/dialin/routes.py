"""The routes on which the CLI connects: its socket, and the posts of its hybrid transport.

They are declared like the routes of a client protocol. Access control has run before any handler here: the token
belongs to the session in the path. Each session expects at most one agent.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.agents.links.dialin import DialInLink
from fairlead.agents.links.framing import RECORD_LIMIT
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.requests import ServiceCall, ServiceHandlers
from fairlead.model.web.routes import ClientProtocol, Request, Routes, Steps, json_response
from fairlead.model.web.sockets import AttachOwner, Effect, Handshake, SilentProtocol, SocketOwner, SocketRoute

SOCKET: Final = "/v1/cli/ws/{session}"
EVENTS: Final = "/v1/cli/session/{session}/events"
"""The CLI derives the second path from the first: /ws/ becomes /session/, and /events is appended."""

LARGEST: Final = RECORD_LIMIT + (1 << 20)
"""The largest record, plus its envelope."""


class AcceptPost(ServiceCall[None], frozen=True):
    """-> None. The messages that an agent posted, in order."""

    session: SessionId
    events: tuple[msgspec.Raw, ...]


class _Posted(msgspec.Struct):
    events: tuple[msgspec.Raw, ...]


class DialInRoutes:
    """The links of expected agents, by session."""

    def __init__(self) -> None:
        self._expected: dict[SessionId, DialInLink] = {}

    def open(self, session: SessionId, link: DialInLink) -> None:
        self._expected[session] = link

    def close(self, session: SessionId, link: DialInLink) -> bool:
        """Stop expecting this link's agent. Return False if the session already expects another one."""
        if self._expected.get(session) is not link:
            return False
        del self._expected[session]
        return True

    def find(self, session: SessionId) -> DialInLink:
        link = self._expected.get(session)
        if link is None:
            raise NotFound("expected agent of session", session)
        return link

    def protocol(self) -> ClientProtocol:
        return ClientProtocol(
            name="claude",
            routes=tuple(ROUTES),
            sockets=(
                SocketRoute(
                    path=SOCKET, access="agent", name="claude.dial-in", open=self._open_socket, message_limit=LARGEST
                ),
            ),
        )

    def handlers(self) -> ServiceHandlers:
        return {AcceptPost: self._accept_post}

    async def _accept_post(self, who: Identity, action: AcceptPost) -> None:
        await self.find(action.session).post(b"".join(map(_line, action.events)))

    def _open_socket(self, opening: Handshake) -> "_DialInProtocol":
        link = self.find(session_id(opening.params["session"]))
        return _DialInProtocol(link.accept_socket(opening.head.first("x-last-request-id")))


ROUTES: Final = Routes()


@ROUTES.post(EVENTS, "agent", "claude.events", body_limit=LARGEST)
def _post(request: Request) -> Steps:
    """Messages of a CLI that receives over its socket and sends by post."""
    body = request.json(_Posted)
    yield AcceptPost(session_id(request.params["session"]), body.events)
    return json_response({})


def _line(event: msgspec.Raw) -> bytes:
    raw = bytes(event)
    if b"\n" in raw or b"\r" in raw:
        raw = msgspec.json.encode(msgspec.json.decode(raw))
    return raw + b"\n"


class _DialInProtocol(SilentProtocol):
    """The socket protocol of the CLI: it attaches the link as the socket's owner and does nothing else."""

    def __init__(self, holder: SocketOwner) -> None:
        self._holder = holder

    def opened(self) -> Sequence[Effect]:
        return (AttachOwner(self._holder),)
