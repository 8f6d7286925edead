"""The MyLifeDB protocol: its subscribe socket, REST, notifications, raw terminal. See docs/reference/mylifedb.md."""

from typing import Final

from fairlead.clients.mylifedb import counting, fold, notifications, rest, startup, terminal
from fairlead.clients.mylifedb.conversation import MyLifeDbConversation, check_session
from fairlead.clients.mylifedb.kinds import check_options
from fairlead.clients.mylifedb.variants import MSGPACK
from fairlead.model.views import ReducerProjection
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import SocketRoute

PROTOCOL: Final = ClientProtocol(
    name="mylifedb",
    prefix="/mylifedb",
    root_paths=("/api/claude",),
    routes=(*startup.routes, *rest.routes, *notifications.routes),
    sockets=(
        SocketRoute(
            path=f"{rest.ONE}/subscribe",
            access="view",
            name="mylifedb",
            open=MyLifeDbConversation,
            subprotocols=(MSGPACK,),
            token_query="access_token",
            compress_query="compress",
            check=check_session,
        ),
        terminal.SOCKET,
    ),
    views=(ReducerProjection(fold.NAME, fold.MyLifeDbReducer), ReducerProjection(counting.NAME, counting.CountReducer)),
    door_options=("pages", "records"),
    check_options=check_options,
    door_login="basic",
)
