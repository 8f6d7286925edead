"""The page model: which rows make a page. A page is sealed when it is full and no message is being streamed.

Rows are counted by their ordinal in the projection's table, so a page is a range of ordinals. There is always an open
page, which may be empty.
"""

from typing import Final

import msgspec

PAGE_ROWS: Final = 500
PAGE_BYTES: Final = 512_000
"""MyLifeDB's own limits: 500 messages, or 500 KiB. Reaching either one seals the page."""
BURST: Final = 2
"""The number of pages that a client gets on connecting: the open one and the one before it."""


class Pages(msgspec.Struct):
    """`sealed` has the last ordinal of each sealed page; `rows` and `size` count the open one."""

    head: int = 0
    sealed: list[int] = []
    rows: int = 0
    size: int = 0

    @property
    def total(self) -> int:
        return len(self.sealed) + 1

    @property
    def lowest_burst(self) -> int:
        return max(0, self.total - BURST)

    def add(self, size: int) -> None:
        self.head += 1
        self.rows += 1
        self.size += size

    def seal(self) -> None:
        """Seal the open page if it is full. The caller ensures that no stream is open."""
        if self.rows >= PAGE_ROWS or self.size >= PAGE_BYTES:
            self.sealed.append(self.head)
            self.rows = self.size = 0

    def ordinal_range(self, page: int) -> tuple[int, int] | None:
        """Return the ordinals (after, last) of a page; None if there is no such page."""
        if not 0 <= page < self.total:
            return None
        after = self.sealed[page - 1] if page else 0
        return after, self.sealed[page] if page < len(self.sealed) else self.head
