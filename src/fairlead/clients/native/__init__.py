"""Fairlead's own protocol: REST under /v1 and the WebSocket /v1/ws. Reference: docs/reference/native-protocol.md."""

from typing import Final

from fairlead.clients.native import (
    admin,
    insight,
    notices,
    overview,
    plugins,
    sessions,
    shells,
    terminal,
    transcripts,
)
from fairlead.clients.native.codec import SUBPROTOCOLS
from fairlead.clients.native.conversation import NativeConversation
from fairlead.clients.native.openapi import document
from fairlead.model.web.routes import ClientProtocol, Request, Route, Steps, json_response
from fairlead.model.web.sockets import SocketRoute


def openapi(request: Request) -> Steps:
    yield from ()
    return json_response(document(ROUTES, request.version))


ROUTES: Final = (
    *sessions.ROUTES,
    *overview.ROUTES,
    *admin.ROUTES,
    *transcripts.ROUTES,
    *terminal.ROUTES,
    *plugins.ROUTES,
    *shells.ROUTES,
    *notices.ROUTES,
    *insight.ROUTES,
    Route(
        method="GET",
        path="/v1/openapi.json",
        access="any",
        name="openapi",
        handle=openapi,
        about="This document.",
        answer=dict,
    ),
)

PROTOCOL: Final = ClientProtocol(
    name="native",
    routes=ROUTES,
    sockets=(
        SocketRoute(
            path="/v1/ws",
            access="view",
            name="native",
            open=NativeConversation,
            about="Events, commands, presence and typing of many sessions on one socket.",
            subprotocols=SUBPROTOCOLS,
        ),
        *terminal.SOCKETS,
        *shells.SOCKETS,
        *notices.SOCKETS,
    ),
)
