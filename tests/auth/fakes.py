"""Documents in memory and repeatable randomness, for the tests of credentials and of the server."""

import hashlib
from typing import Any

import msgspec

from fairlead.model.store import DocumentHeard
from fairlead.model.store.peers import Stop
from fairlead.stores.sqlite.documents import DocumentListeners, canonical


class MemoryDocuments:
    """Implements `model.store.Documents`; values go through JSON, as in a real store."""

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, bytes]] = {}
        self._listeners = DocumentListeners()

    async def get(self, space: str, key: str) -> Any | None:
        found = self.spaces.get(space, {}).get(key)
        return None if found is None else msgspec.json.decode(found)

    async def put(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> None:
        self._set(space, key, msgspec.json.encode(value))

    async def add(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> bool:
        if key in self.spaces.get(space, {}):
            return False
        self._set(space, key, msgspec.json.encode(value))
        return True

    async def swap(self, space: str, key: str, value: Any | None, expected: Any | None) -> bool:
        if canonical(await self.get(space, key)) != canonical(expected):
            return False
        self._set(space, key, None if value is None else msgspec.json.encode(value))
        return True

    async def delete(self, space: str, key: str) -> bool:
        if key not in self.spaces.get(space, {}):
            return False
        self._set(space, key, None)
        return True

    def listen(self, space: str, heard: DocumentHeard) -> Stop:
        return self._listeners.add(space, heard)

    def _set(self, space: str, key: str, data: bytes | None) -> None:
        if data is None:
            self.spaces.get(space, {}).pop(key, None)
        else:
            self.spaces.setdefault(space, {})[key] = data
        self._listeners.notify(space, key, data)

    async def list(self, space: str) -> dict[str, Any]:
        return {key: msgspec.json.decode(value) for key, value in self.spaces.get(space, {}).items()}

    def everything(self) -> bytes:
        """All stored values, so that a test can search them for secrets."""
        return b"\n".join(value for space in self.spaces.values() for value in space.values())


class FakeTokenBytes:
    """A `secrets.token_bytes` with predictable results, all different."""

    def __init__(self) -> None:
        self.thrown = 0

    def __call__(self, size: int) -> bytes:
        self.thrown += 1
        return hashlib.shake_256(str(self.thrown).encode()).digest(size)
