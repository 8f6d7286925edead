"""What each credential was shown of which session: a number of turns that only grows. The log does not depend on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.news import What
from fairlead.model.reading import SPACE, MarkShown, ReadShown, Shown
from fairlead.model.requests import Action
from fairlead.model.store import Documents


class ShownBook:
    """One document a session, turns by credential: it goes with the session."""

    def __init__(self, documents: Documents, news: Callable[[SessionId, What], None]) -> None:
        self._documents = documents
        self._news = news
        self._lock = asyncio.Lock()

    def performers(self) -> Mapping[type[Action], Callable[[Identity, Any], Awaitable[Any]]]:
        return {MarkShown: self._mark, ReadShown: self._read}

    async def _mark(self, who: Identity, action: MarkShown) -> None:
        async with self._lock:
            turns = await self._documents.get(SPACE, action.session) or {}
            before = turns.get(who.credential)
            if before is not None and before >= action.turns:
                return
            await self._documents.put(SPACE, action.session, {**turns, who.credential: action.turns})
        self._news(action.session, "read")

    async def revoked(self, credential: str) -> None:
        """Nobody is shown anything with it any more."""
        async with self._lock:
            for session, turns in (await self._documents.list(SPACE)).items():
                if credential in turns:
                    left = {other: number for other, number in turns.items() if other != credential}
                    await self._documents.put(SPACE, session, left)

    async def _read(self, who: Identity, action: ReadShown) -> Shown:
        found: dict[str, int] = {}
        for session in action.sessions:
            turns = await self._documents.get(SPACE, session) or {}
            if who.credential in turns:
                found[session] = turns[who.credential]
        return Shown(found)
