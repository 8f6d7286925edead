"""Fairlead's own protocol: REST under /v1 and the WebSocket /v1/ws. Reference: docs/reference/native-protocol.md."""

from typing import Final

from fairlead.clients.native import (
    admin,
    audit,
    changes,
    files,
    insight,
    nodes,
    notices,
    operation,
    overview,
    plugins,
    sessions,
    shells,
    stored_transcripts,
    terminal,
    transcripts,
)
from fairlead.clients.native.codec import SUBPROTOCOLS
from fairlead.clients.native.conversation import NativeConversation
from fairlead.clients.native.openapi import document
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import ClientProtocol, Request, Routes, json_response
from fairlead.model.web.sockets import SocketRoute

routes = Routes()


@routes.get("/v1/openapi.json", "any", "openapi", answer=dict)
def openapi(request: Request) -> Response:
    """This document."""
    return json_response(document(ROUTES, request.version))


_MODULES: Final = (
    sessions,
    files,
    overview,
    admin,
    changes,
    transcripts,
    stored_transcripts,
    terminal,
    plugins,
    shells,
    notices,
    insight,
    operation,
    audit,
    nodes,
)
ROUTES: Final = (*(route for module in _MODULES for route in module.routes), *routes)

PROTOCOL: Final = ClientProtocol(
    name="native",
    routes=ROUTES,
    sockets=(
        SocketRoute(path="/v1/ws", access="view", name="native", open=NativeConversation, subprotocols=SUBPROTOCOLS),
        terminal.SOCKET,
        shells.SOCKET,
        notices.SOCKET,
    ),
)
