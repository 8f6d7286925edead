"""The service of stored transcripts: the database, in a thread of its own."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from fairlead.model.auth import Identity
from fairlead.model.errors import NotAllowed, Unavailable
from fairlead.model.web.requests import ServiceHandlers
from fairlead.system.clock import Clock
from fairlead.system.services import Service, ServiceContext, ServiceFactory
from fairlead.transcripts import api
from fairlead.transcripts.database import TranscriptDatabase

T = TypeVar("T")


class StoredTranscripts:
    def __init__(self, database: TranscriptDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "transcripts")

    def handlers(self) -> ServiceHandlers:
        return {
            api.AppendEntries: self._append,
            api.LoadEntries: self._load,
            api.ListTranscripts: self._list,
            api.DeleteTranscripts: self._delete,
        }

    async def _append(self, who: Identity, call: api.AppendEntries) -> api.TranscriptState:
        now = self._clock.now_ms()
        return await self._do(lambda: self._database.append(_user(who), call, now))

    async def _load(self, who: Identity, call: api.LoadEntries) -> api.TranscriptEntries:
        return await self._do(lambda: self._database.load(_user(who), call))

    async def _list(self, who: Identity, call: api.ListTranscripts) -> api.TranscriptList:
        return await self._do(lambda: self._database.list(_user(who), call))

    async def _delete(self, who: Identity, call: api.DeleteTranscripts) -> api.DeletedTranscripts:
        return await self._do(lambda: self._database.delete(_user(who), call))

    async def forget(self, user: str) -> None:
        await self._do(lambda: self._database.forget(user))

    async def stop(self) -> None:
        await self._do(self._database.close)
        self._thread.shutdown(wait=False)

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"The transcripts cannot be used: {error}. Try again later.") from error


def _user(who: Identity) -> str:
    if not who.user:
        raise NotAllowed("Transcripts belong to a user: use the token of one.")
    return who.user


def transcripts(context: ServiceContext) -> Service:
    kept = StoredTranscripts(context.get(TranscriptDatabase), context.clock)
    return Service(handlers=kept.handlers(), stop=kept.stop, forget_user=kept.forget)


SERVICES: Final[tuple[ServiceFactory, ...]] = (transcripts,)
