"""Large bodies: an object is several messages, one subject each, in a stream of its own.

An object's name is never used for another content, and nothing refers to an object before it is complete. So storing it
again is harmless, and there is nothing to commit.
"""

import asyncio
import json
from typing import Final

from fairlead.model.errors import Unavailable
from fairlead.stores.nats.connection import PAUSE_S, TRANSIENT, TRY_S, JetStream
from fairlead.stores.nats.messages import PART
from fairlead.stores.nats.names import Names
from fairlead.stores.nats.publishing import DEADLINE_S

_PART_BYTES: Final = 256 << 10
# Parts that are sent or requested at a time.
_AT_ONCE: Final = 16


class Objects:
    def __init__(self, js: JetStream, names: Names) -> None:
        self._js = js
        self._names = names

    async def put(self, name: str, data: bytes) -> None:
        size = min(_PART_BYTES, self._js.client.max_payload // 2)
        parts = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
        for first in range(0, len(parts), _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, len(parts)))
            await asyncio.gather(*(self._put_part(name, number, len(parts), parts[number]) for number in numbers))

    async def get(self, name: str) -> bytes | None:
        """The content; None if there is no such object."""
        first = await self._get_part(name, 0)
        if first is None:
            return None
        body, count = first
        parts = [body]
        for start in range(1, count, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, count))
            found = await asyncio.gather(*(self._get_part(name, number) for number in numbers))
            for part in found:
                if part is None:
                    return None
                parts.append(part[0])
        return b"".join(parts)

    async def delete(self, name: str) -> None:
        await self._js.purge(self._names.object_stream, self._names.object(name, "*"))

    async def _put_part(self, name: str, number: int, count: int, body: bytes) -> None:
        subject = self._names.object(name, number)
        until = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            problem = "no answer"
            try:
                answer = await self._js.request(subject, body, TRY_S * 2, {PART: f"{number}/{count}"})
                found = json.loads(answer.data)
                if "error" not in found:
                    return
                problem = str(found["error"].get("description"))
            except TRANSIENT as error:
                problem = str(error) or type(error).__name__
            if self._js.client.is_closed or asyncio.get_running_loop().time() > until:
                raise Unavailable(f"A large record cannot be stored ({problem}): repeating is safe.")
            await asyncio.sleep(PAUSE_S)

    async def _get_part(self, name: str, number: int) -> tuple[bytes, int] | None:
        subject = self._names.object(name, number)
        until = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            try:
                # The leader decides whether there is none: a replica that lags may not have it yet.
                found = await self._js.last_of(self._names.object_stream, subject)
                return None if found is None else (found.body, int(found.headers[PART].partition("/")[2]))
            except TRANSIENT as error:
                if self._js.client.is_closed or asyncio.get_running_loop().time() > until:
                    raise Unavailable(f"A large record cannot be read ({error}): repeat later.") from error
            await asyncio.sleep(PAUSE_S)
