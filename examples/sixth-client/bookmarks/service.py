"""Stores the bookmarks of each user. The gateway calls a handler only for a session that the caller may see."""

import asyncio

from bookmarks.api import AddBookmark, ListBookmarks
from fairlead.model.auth import Identity
from fairlead.model.store import Documents
from fairlead.system.services import Service, ServiceContext

SPACE = "bookmarks"
"""The namespace of our documents: one for each user and session."""


class Bookmarks:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._writing = asyncio.Lock()

    async def read(self, who: Identity, call: ListBookmarks) -> list[int]:
        found: list[int] = await self._documents.get(SPACE, f"{who.user}/{call.session}") or []
        return found

    async def add(self, who: Identity, call: AddBookmark) -> list[int]:
        # One after another: two clients of a user may mark at the same time.
        async with self._writing:
            marked = sorted({*await self.read(who, ListBookmarks(call.session)), call.seq})
            await self._documents.put(SPACE, f"{who.user}/{call.session}", marked)
        return marked

    async def forget_user(self, name: str) -> None:
        for key in await self._documents.list(SPACE):
            if key.startswith(f"{name}/"):
                await self._documents.delete(SPACE, key)


def bookmarks(context: ServiceContext) -> Service:
    kept = Bookmarks(context.store.documents)
    return Service(handlers={ListBookmarks: kept.read, AddBookmark: kept.add}, forget_user=kept.forget_user)
