"""The Agent Client Protocol (ACP) for editors: Fairlead is the agent. Reference: docs/reference/acp.md."""

from typing import Final

from fairlead.clients.acp.conversation import AcpConversation
from fairlead.model.web.routes import ClientProtocol
from fairlead.model.web.sockets import SocketRoute

PATH: Final = "/acp"
MESSAGE_BYTES: Final = 32 << 20
"""Maximum size of a message of the client, and of a line of `fairlead acp`: prompts contain images and files."""

PROTOCOL: Final = ClientProtocol(
    name="acp",
    sockets=(SocketRoute(path=PATH, access="view", name="acp", open=AcpConversation, message_limit=MESSAGE_BYTES),),
)
