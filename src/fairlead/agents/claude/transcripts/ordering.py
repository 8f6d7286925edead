"""Rows of a transcript in the order of the conversation, where they are written in another. Pure.

Measured: 2.1.37 on a busy machine writes an answer now and then before the prompt that it answers. Every row names the
one that it follows; what comes before that one is kept until it is there. Who feeds this gives up waiting: a row that
never comes must not hold the others for ever.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fairlead.agents.claude.transcripts.identity import CONVERSATION, decoded
from fairlead.model.agents import Record

REMEMBERED: Final = 256
"""Rows that others may follow: those of the last few moments."""


class _Link(msgspec.Struct):
    type: Any = None
    uuid: Any = None
    parentUuid: Any = None
    isSidechain: Any = None


_links: Final = msgspec.json.Decoder(_Link)


class RowOrdering:
    def __init__(self, known: Iterable[Record] = ()) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._early: list[Record] = []
        for record in known:
            self.know(record)

    @property
    def waits(self) -> bool:
        """Something came too early."""
        return bool(self._early)

    def know(self, record: Record) -> None:
        """It is told elsewhere."""
        self._note(_link(record))

    def put(self, record: Record) -> list[Record]:
        """What can be told now."""
        link = _link(record)
        if not self._follows(link):
            self._early.append(record)
            return []
        self._note(link)
        told = [record]
        while (ready := next((row for row in self._early if self._follows(_link(row))), None)) is not None:
            self._early.remove(ready)
            self._note(_link(ready))
            told.append(ready)
        return told

    def give_up(self) -> list[Record]:
        """What waits, as it came."""
        early, self._early = self._early, []
        for record in early:
            self._note(_link(record))
        return early

    def _follows(self, link: _Link | None) -> bool:
        if link is None or link.type not in CONVERSATION or link.isSidechain is True:
            return True
        return not isinstance(link.parentUuid, str) or link.parentUuid in self._seen

    def _note(self, link: _Link | None) -> None:
        if link is not None and isinstance(link.uuid, str):
            self._seen[link.uuid] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)


def _link(record: Record) -> _Link | None:
    return decoded(_links, record.raw)


class _Message(msgspec.Struct):
    content: Any = None


class _Side(msgspec.Struct):
    """What tells a subagent's row, and the row that brings its result."""

    type: Any = None
    isSidechain: Any = None
    agentId: Any = None
    toolUseResult: Any = None
    message: _Message | None = None


_sides: Final = msgspec.json.Decoder(_Side)


class LastWords:
    """Holds the result of a subagent back until its own last words were there: they are in another file, which may be
    written later. Who feeds this gives up waiting."""

    def __init__(self) -> None:
        self._spoke: dict[str, bool] = {}
        self._held: list[Record] = []

    @property
    def waits(self) -> bool:
        return bool(self._held)

    def put(self, record: Record) -> list[Record]:
        """What can be told now. Rows of the main thread stay in their order."""
        side = decoded(_sides, record.raw) if b'"agentId"' in record.raw else None
        if side is not None and side.isSidechain is True:
            if side.type in CONVERSATION:
                self._spoke[str(side.agentId)] = side.type == "assistant" and _says(side.message)
            return [record, *self._ready()]
        if self._held or self._lacks(side):
            self._held.append(record)
            return []
        return [record]

    def give_up(self) -> list[Record]:
        held, self._held = self._held, []
        return held

    def _ready(self) -> list[Record]:
        told: list[Record] = []
        while self._held and not self._lacks(decoded(_sides, self._held[0].raw)):
            told.append(self._held.pop(0))
        return told

    def _lacks(self, side: _Side | None) -> bool:
        facts = side.toolUseResult if side is not None else None
        if not isinstance(facts, dict) or facts.get("status") != "completed":
            return False
        content = facts.get("content")
        said = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        return any(block.get("text") for block in said) and not self._spoke.get(str(facts.get("agentId")), False)


def _says(message: _Message | None) -> bool:
    content = message.content if message is not None else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return any(block.get("type") == "text" for block in blocks)
