"""One chat socket in a test: the frames it received, and the reference client that shows them. Each protocol defines
`word`, the short name of a frame."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from patience import PATIENCE

Frame = dict[str, Any]
Wanted = str | Callable[[Frame], bool]


class Client(Protocol):
    def feed(self, text: str | bytes) -> None: ...
    def closed(self) -> None: ...


C = TypeVar("C", bound=Client)


class ChatPeer(Generic[C]):
    def __init__(self, socket: ClientConnection, client: C) -> None:
        self.socket = socket
        self.client = client
        self.frames: list[Frame] = []
        self.close_code: int | None = None
        self.taken = 0
        self._news = asyncio.Condition()

    def word(self, frame: Frame) -> str:
        """The short name of a frame in tests."""
        raise AssertionError("each protocol has its own")

    async def listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in self.socket:
                assert isinstance(text, str)
                async with self._news:
                    self.frames.append(json.loads(text))
                    self.client.feed(text)
                    self._news.notify_all()
        async with self._news:
            self.close_code = self.socket.close_code
            self.client.closed()
            self._news.notify_all()

    async def say(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def until(self, wanted: Wanted) -> Frame:
        """Wait for the next matching frame after the last one returned."""
        fits = (lambda frame: self.word(frame) == wanted) if isinstance(wanted, str) else wanted
        async with self._news:
            try:
                async with asyncio.timeout(PATIENCE):
                    while True:
                        for place in range(self.taken, len(self.frames)):
                            if fits(self.frames[place]):
                                self.taken = place + 1
                                return self.frames[place]
                        assert self.close_code is None, f"closed with {self.close_code}"
                        await self._news.wait()
            except TimeoutError:
                raise AssertionError(f"{wanted} did not come; there were {self.kinds()[-30:]}") from None

    async def closed(self) -> int:
        async with self._news, asyncio.timeout(PATIENCE):
            await self._news.wait_for(lambda: self.close_code is not None)
        assert self.close_code is not None
        return self.close_code

    def kinds(self) -> list[str]:
        return [self.word(frame) for frame in self.frames]
