"""Users' own shells: list, share and end them, and a socket for each. Pure.

The socket has the same protocol as a session's terminal (see `terminal`).
"""

from typing import Final

import msgspec

from fairlead.clients.native import schemas as b
from fairlead.clients.native.terminal import MESSAGE_LIMIT, NativeTerminalCodec, TerminalJoining
from fairlead.model.agents import Exit
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.model.web.sockets import Handshake, SocketRoute
from fairlead.terminals.api import EndShell, JoinShell, ListShells, ShareShell, ShellView

routes = Routes()
PATH: Final = "/v1/terminals"


class ShareTerminal(b.Body, frozen=True, kw_only=True):
    shared: bool


class ShellList(msgspec.Struct, frozen=True):
    terminals: tuple[ShellView, ...]


class ShellConversation(TerminalJoining):
    def __init__(self, opening: Handshake) -> None:
        codec = NativeTerminalCodec()
        query = opening.query
        join = JoinShell(
            name=opening.params["name"],
            codec=codec,
            folder=query.get("cwd", ""),
            read_only=query.get("watch") == "true",
            owner=query.get("owner", ""),
        )
        super().__init__(join, codec)


@routes.get(PATH, "terminal", "terminals.list", answer=ShellList)
def list_shells(request: Request) -> Steps:
    """Your running shells, and those that other users share."""
    return json_response(ShellList((yield ListShells())))


@routes.patch(f"{PATH}/{{name}}", "terminal", "terminals.share", body=ShareTerminal, answer=ShellView)
def share(request: Request) -> Steps:
    """Let other users with the scope terminal watch the shell, or stop that. Only you can type."""
    return json_response((yield ShareShell(request.params["name"], request.json(ShareTerminal).shared)))


@routes.delete(f"{PATH}/{{name}}", "terminal", "terminals.end", answer=Exit)
def end(request: Request) -> Steps:
    """End the shell and its processes."""
    return json_response((yield EndShell(request.params["name"])))


SOCKET: Final = SocketRoute(
    path=f"{PATH}/{{name}}", access="terminal", name="native.shell", open=ShellConversation, message_limit=MESSAGE_LIMIT
)
