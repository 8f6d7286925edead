"""What each credential was shown of which session: a number of turns that only grows. The log does not depend on it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.news import What
from fairlead.model.reading import MarkShown, ReadShown, Shown
from fairlead.model.requests import Action
from fairlead.model.store import Documents

SPACE = "shown"


class ShownBook:
    def __init__(self, documents: Documents, news: Callable[[SessionId, What], None]) -> None:
        self._documents = documents
        self._news = news

    def performers(self) -> Mapping[type[Action], Callable[[Identity, Any], Awaitable[Any]]]:
        return {MarkShown: self._mark, ReadShown: self._read}

    async def _mark(self, who: Identity, action: MarkShown) -> None:
        key = _key(who, action.session)
        before = await self._documents.get(SPACE, key)
        if not isinstance(before, int) or before < action.turns:
            await self._documents.put(SPACE, key, action.turns)
            self._news(action.session, "read")

    async def _read(self, who: Identity, action: ReadShown) -> Shown:
        found: dict[str, int] = {}
        for session in action.sessions:
            turns = await self._documents.get(SPACE, _key(who, session))
            if isinstance(turns, int):
                found[session] = turns
        return Shown(found)


def _key(who: Identity, session: str) -> str:
    return f"{who.credential}:{session}"
