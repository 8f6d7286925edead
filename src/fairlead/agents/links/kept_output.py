"""What is stored of the output of a process at the keeper, and the lines that its driver needs again after a restart.

Rule: a position goes into the same append as the lines before it. The keeper is told only when that append is stored;
until then it keeps the bytes. So a gateway that dies at any moment reads each line again that it has not stored, and
no other.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

from fairlead.model.store import OutputPosition, StoredOutput

UNSTORED_BYTES: Final = 1 << 20
"""Output without records, such as answers to our requests, that is read before its position is stored."""


class KeptOutput:
    """`acknowledge` tells the keeper how much is stored. `recalled`: the lines that the driver of the earlier gateway
    had stored for us."""

    def __init__(self, acknowledge: Callable[[int], None], stored: StoredOutput | None = None) -> None:
        self._acknowledge = acknowledge
        self.adopted = stored is not None
        stored = stored or StoredOutput()
        self.offset = stored.offset
        self.recalled: Sequence[bytes] = stored.recall
        self._lines: dict[str, bytes] = {}
        self._changed = bool(stored.recall)

    def remember(self, name: str, line: bytes) -> None:
        """Store this line with the next position, until `forget`. Call it before the line is delivered."""
        if self._lines.get(name) != line:
            self._lines[name] = line
            self._changed = True

    def forget(self, name: str) -> None:
        if self._lines.pop(name, None) is not None:
            self._changed = True

    def forget_all(self, prefix: str) -> None:
        for name in [name for name in self._lines if name.startswith(prefix)]:
            self.forget(name)

    def position(self, offset: int) -> OutputPosition:
        """The position to store with the records up to `offset`."""
        recall = tuple(self._lines.values()) if self._changed else None
        self._changed = False
        return OutputPosition(offset, recall)

    def stored(self, offset: int) -> None:
        self.offset = offset
        self._acknowledge(offset)

    def skip_oversize(self, offset: int) -> None:
        """Let the keeper drop the first part of a line above the limit, which is too long to be kept whole. If the
        gateway dies before the line ends, its rest is logged as a record that is not understood."""
        self._acknowledge(offset)


def prompt_key(raw: bytes) -> str:
    """The key of a prompt: the same whenever it is read from the log."""
    return f"prompt:{hashlib.sha256(raw).hexdigest()[:32]}"


def reply_key(request: str) -> str:
    """The key of our answer to a request of the agent."""
    return f"reply:{request}"
