"""Sockets at unknown paths: on this protocol's own port they are opened and closed at once. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.model.errors import FairleadError
from fairlead.model.web.sockets import CloseSocket, Do, SocketRoute

NO_CODE: Final = 1005


class RejectSocket:
    def opened(self) -> Sequence[Do]:
        return (CloseSocket(NO_CODE, ""),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        return ()

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        return ()

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        return ()

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return ()


SOCKET: Final = SocketRoute(
    path="/{path...}",
    access="view",
    name="claudecodeui.unknown",
    open=lambda opening: RejectSocket(),
    about="Any other path: closed at once.",
)
