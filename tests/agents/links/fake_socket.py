"""A socket without a network, for the tests of the dial-in link: a recording handle and the agent's end of it."""

from collections.abc import Callable

from fairlead.agents.links.dialin import DialInLink


class FakeSocket:
    """Implements `model.web.sockets.SocketHandle`. `sent` lists payloads; `taken` confirms their receipt."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed: tuple[int, str] | None = None
        self.waiting = 0
        self.pauses: list[bool] = []
        self._probes: list[Callable[[], None]] = []

    def send(self, frames: bytes) -> None:
        while frames:
            size, start = frames[1], 2
            if size == 126:
                size, start = int.from_bytes(frames[2:4], "big"), 4
            elif size == 127:
                size, start = int.from_bytes(frames[2:10], "big"), 10
            self.sent.append(frames[start : start + size])
            frames = frames[start + size :]

    def backlog(self) -> int:
        return self.waiting

    def probe(self, answered: Callable[[], None]) -> None:
        self._probes.append(answered)

    def pause(self) -> None:
        self.pauses.append(True)

    def resume(self) -> None:
        self.pauses.append(False)

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def taken(self) -> None:
        probes, self._probes = self._probes, []
        for answered in probes:
            answered()


class Agent:
    """The agent's side of one socket."""

    def __init__(self, link: DialInLink, last: str = "") -> None:
        self.wire = FakeSocket()
        self._holder = link.accept_socket(last)
        self._holder.attached(self.wire)

    def say(self, *lines: str) -> None:
        self._holder.received("".join(f"{line}\n" for line in lines).encode(), True)

    def say_bytes(self, data: bytes) -> None:
        self._holder.received(data, True)

    def drain(self) -> None:
        self.wire.waiting = 0
        self._holder.drained()

    def drop(self, code: int = 1006) -> None:
        self._holder.detached(code, "")
