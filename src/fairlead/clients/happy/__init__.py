"""Happy's session protocol: a session's envelopes, numbered without gaps. Reference: docs/reference/happy.md."""

from typing import Final

from fairlead.clients.happy import routes
from fairlead.clients.happy.conversation import HappyConversation, check_session
from fairlead.clients.happy.mapper import VIEW, HappyReducer
from fairlead.model.views import ReducerProjection
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import SocketRoute

PROTOCOL: Final = ClientProtocol(
    name="happy",
    routes=tuple(routes.routes),
    sockets=(
        SocketRoute(
            path="/v1/sessions/{session}/envelopes",
            access="view",
            name="happy",
            open=HappyConversation,
            check=check_session,
            token_query="token",
        ),
    ),
    views=(ReducerProjection(VIEW, HappyReducer),),
)
