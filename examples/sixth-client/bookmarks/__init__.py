"""The bookmarks protocol: the texts of a session, and a user's bookmarks in them."""

from bookmarks.conversation import BookmarksConversation
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import SocketRoute

PROTOCOL = ClientProtocol(
    name="bookmarks",
    sockets=(
        SocketRoute(
            path="/bookmarks/{session}",
            access="view",
            name="bookmarks.socket",
            open=BookmarksConversation,
        ),
    ),
)
