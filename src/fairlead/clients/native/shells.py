"""Users' own shells: list, share and end them, and a socket for each. Pure.

The socket has the same protocol as a session's terminal (see `terminal`).
"""

from typing import Final

import msgspec

from fairlead.clients.native import schemas as b
from fairlead.clients.native.terminal import MESSAGE_LIMIT, NativeTerminalCodec, TerminalJoining
from fairlead.model.agents import Exit
from fairlead.model.web.routes import Request, Route, Steps, json_response
from fairlead.model.web.sockets import Handshake, SocketRoute
from fairlead.terminals.api import EndShell, JoinShell, ListShells, ShareShell, ShellView

PATH: Final = "/v1/terminals"


class ShareBody(b.Body, frozen=True, kw_only=True):
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


def list_shells(request: Request) -> Steps:
    return json_response(ShellList((yield ListShells())))


def share(request: Request) -> Steps:
    return json_response((yield ShareShell(request.params["name"], request.json(ShareBody).shared)))


def end(request: Request) -> Steps:
    return json_response((yield EndShell(request.params["name"])))


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        access="terminal",
        name="terminals.list",
        handle=list_shells,
        about="Your shells that run, and those that others share.",
        answer=ShellList,
    ),
    Route(
        method="PATCH",
        path=f"{PATH}/{{name}}",
        access="terminal",
        name="terminals.share",
        handle=share,
        about="Let other users with the scope terminal watch it, or no longer. Nobody but you types there.",
        body=ShareBody,
        answer=ShellView,
    ),
    Route(
        method="DELETE",
        path=f"{PATH}/{{name}}",
        access="terminal",
        name="terminals.end",
        handle=end,
        about="End the shell and what runs in it.",
        answer=Exit,
    ),
)

SOCKETS: Final = (
    SocketRoute(
        path=f"{PATH}/{{name}}",
        access="terminal",
        name="native.shell",
        open=ShellConversation,
        about="A shell of yours, started if it does not run: its bytes out, keys and sizes in.",
        message_limit=MESSAGE_LIMIT,
    ),
)
