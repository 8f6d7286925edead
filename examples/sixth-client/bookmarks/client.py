"""The reference client: what a user of this protocol sees after any frames."""

from typing import Any

import msgspec

from bookmarks.encoder import BookmarksEncoder
from fairlead.model.gateway import FrameEncoder
from fairlead_testing.replay import ReplayClient, Scene


class BookmarksClient:
    def __init__(self) -> None:
        self.texts: dict[int, tuple[str, str]] = {}
        self.marked: list[int] = []

    def apply(self, message: dict[str, Any]) -> None:
        if message["type"] == "text":
            self.texts[message["seq"]] = (message["by"], message["text"])
        elif message["type"] == "bookmarks":
            self.marked = message["seqs"]


class BookmarksReplay(ReplayClient):
    """The client of the replay law."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = BookmarksClient()

    def encoder(self) -> FrameEncoder:
        return BookmarksEncoder()

    def take(self, payload: bytes) -> None:
        self.client.apply(msgspec.json.decode(payload))

    def state(self) -> dict[int, tuple[str, str]]:
        return self.client.texts
