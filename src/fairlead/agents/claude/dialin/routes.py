"""Where the CLI comes in: its socket, and the posts of its hybrid transport. Declared as a protocol's routes are.

The gate has decided before anything here runs: the token is that of the session in the path. Each session has at most
one agent that is expected.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.framing import RECORD_LIMIT
from fairlead.agents.links.dialin import DialInLink
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, FairleadError, NotFound
from fairlead.model.ids import SessionId, session_id
from fairlead.model.requests import ServiceCall
from fairlead.model.routes import ClientProtocol, Request, Route, Steps, json_response
from fairlead.model.sockets import AttachOwner, Do, Handshake, SocketOwner, SocketRoute

SOCKET: Final = "/v1/cli/ws/{session}"
EVENTS: Final = "/v1/cli/session/{session}/events"
"""The CLI makes the second from the first: /ws/ becomes /session/, and /events is added."""

LARGEST: Final = RECORD_LIMIT + (1 << 20)
"""A record, and what stands around it."""


class AcceptPost(ServiceCall, frozen=True):
    """-> None. What an agent posted, in order."""

    session: SessionId
    events: tuple[msgspec.Raw, ...]


class _Posted(msgspec.Struct):
    events: tuple[msgspec.Raw, ...]


class DialInRoutes:
    """The agents that are expected, by their session."""

    def __init__(self) -> None:
        self._expected: dict[SessionId, DialInLink] = {}

    def open(self, session: SessionId, link: DialInLink) -> None:
        self._expected[session] = link

    def shut(self, session: SessionId, link: DialInLink) -> bool:
        """False if another is expected by now."""
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
            routes=(
                Route(
                    method="POST",
                    path=EVENTS,
                    access="agent",
                    name="claude.events",
                    handle=_post,
                    about="Messages of a CLI that receives over its socket and sends by post.",
                    body_limit=LARGEST,
                ),
            ),
            sockets=(
                SocketRoute(
                    path=SOCKET,
                    access="agent",
                    name="claude.dial-in",
                    open=self._enter,
                    about="A CLI that dials in.",
                    message_limit=LARGEST,
                ),
            ),
        )

    def performers(self) -> Mapping[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return {AcceptPost: self._hand_in}

    async def _hand_in(self, who: Identity, action: AcceptPost) -> None:
        await self.find(action.session).post(b"".join(map(_line, action.events)))

    def _enter(self, opening: Handshake) -> "_DialInProtocol":
        link = self.find(session_id(opening.params["session"]))
        return _DialInProtocol(link.enter(opening.head.first("x-last-request-id")))


def _post(request: Request) -> Steps:
    body = request.json(_Posted)
    yield AcceptPost(session_id(request.params["session"]), body.events)
    return json_response({})


def _line(event: msgspec.Raw) -> bytes:
    raw = bytes(event)
    if b"\n" in raw or b"\r" in raw:
        raw = msgspec.json.encode(msgspec.json.decode(raw))
    return raw + b"\n"


class _DialInProtocol:
    """The conversation of a CLI's socket: it hands itself over and has nothing to say."""

    def __init__(self, holder: SocketOwner) -> None:
        self._holder = holder

    def opened(self) -> Sequence[Do]:
        return (AttachOwner(self._holder),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        raise BadRequest("A socket that was handed over gets its messages elsewhere.")

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        return ()

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        return ()

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return ()
