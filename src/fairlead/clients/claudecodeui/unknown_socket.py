"""Sockets at unknown paths: on this protocol's own port they are opened and closed at once. Pure."""

from collections.abc import Sequence
from typing import Final

from fairlead.model.web.sockets import CloseSocket, Effect, SilentProtocol, SocketRoute

NO_CODE: Final = 1005


class RejectSocket(SilentProtocol):
    def opened(self) -> Sequence[Effect]:
        return (CloseSocket(NO_CODE, ""),)


SOCKET: Final = SocketRoute(
    path="/{path...}", access="view", name="claudecodeui.unknown", open=lambda opening: RejectSocket()
)
