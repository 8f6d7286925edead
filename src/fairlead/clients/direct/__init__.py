"""The CLI's own client protocol: NDJSON on a socket; a session can have several clients. docs/reference/direct.md."""

from typing import Final

from fairlead.clients.direct import routes
from fairlead.clients.direct.conversation import DirectConversation, check_session
from fairlead.clients.direct.view import NAME, DirectReducer
from fairlead.model.views import ReducerProjection
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import SocketRoute

PROTOCOL: Final = ClientProtocol(
    name="direct",
    routes=tuple(routes.routes),
    sockets=(
        SocketRoute(
            path="/v1/sessions/ws/{session}/subscribe",
            access="view",
            name="direct",
            open=DirectConversation,
            check=check_session,
            token_query="token",
        ),
    ),
    views=(ReducerProjection(NAME, DirectReducer),),
)
