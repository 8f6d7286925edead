"""Small documents outside the logs."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from fairlead.model.store.peers import Stop

DocumentHeard = Callable[[str, Any | None], None]
"""Receives a change of a document: (key, value); None: it is gone."""


HERE: Final = frozenset(
    {
        *("children", "plugins", "plugin-children", "transcripts", "transcript-roots", "transcript-filling"),
        *("archive", "folders", "folders.marks", "desk-links", "consent"),
    }
)
"""The spaces that are kept in `Store.here`: facts about one machine."""


class Documents(Protocol):
    """Small documents outside the logs (credentials, trusted folders, children): JSON values by namespace and key. A
    document with `ttl_s` is gone after that many seconds. None is not a value: it means that there is no document."""

    async def get(self, space: str, key: str) -> Any | None: ...
    async def put(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> None: ...
    async def add(self, space: str, key: str, value: Any, ttl_s: float | None = None) -> bool:
        """Put the value unless the key exists; exactly one of many callers gets True."""

    async def swap(self, space: str, key: str, value: Any | None, expected: Any | None) -> bool:
        """Put the value (None: delete) if the document is still `expected`, as it was read (None: it does not exist).
        Exactly one of many callers that read the same gets True. A time to live ends with it."""

    async def delete(self, space: str, key: str) -> bool:
        """True for exactly one of many callers, as a single-use code needs."""

    async def list(self, space: str) -> dict[str, Any]: ...

    def listen(self, space: str, heard: DocumentHeard) -> Stop:
        """Call `heard` on the loop for every change in the space, of this node and of others, in the order of each
        document, after reads here show it. Documents that expire are not reported."""
