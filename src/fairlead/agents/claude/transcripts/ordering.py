"""Puts transcript rows into the order of the conversation when the CLI wrote them in another. Pure.

Measured: 2.1.37 on a busy machine sometimes writes an answer before the prompt that it answers. Every row names its
parent row; a row that comes before its parent is held until the parent arrives. The caller decides when to stop waiting
(`flush`): a row that never comes must not hold the others for ever.
"""

from typing import Final

from fairlead.agents.claude.interpreter.state import SeenSet
from fairlead.agents.claude.transcripts.identity import CONVERSATION, RecordIdentity, identify
from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.claude.wire.records import as_dicts
from fairlead.model.agents import Record

REMEMBERED: Final = 256
"""The least number of recent rows that are remembered as possible parents."""


class RowOrdering:
    """`writes_in_order`: the CLI writes the rows in order, so none is held."""

    def __init__(self, *, writes_in_order: bool = False) -> None:
        self._writes_in_order = writes_in_order
        self._seen = SeenSet()
        self._early: list[Record] = []

    @property
    def is_waiting(self) -> bool:
        """Whether rows are held because they came before their parent."""
        return bool(self._early)

    def note_delivered(self, record: Record) -> None:
        """Note a row that was already delivered by other means."""
        self._note(identify(record.raw))

    def put(self, record: Record) -> list[Record]:
        """Add a row; return the rows that can be delivered now."""
        link = identify(record.raw)
        if not self._follows(link):
            self._early.append(record)
            return []
        self._note(link)
        ready_rows = [record]
        while (ready := next((row for row in self._early if self._follows(identify(row.raw))), None)) is not None:
            self._early.remove(ready)
            self._note(identify(ready.raw))
            ready_rows.append(ready)
        return ready_rows

    def flush(self) -> list[Record]:
        """Stop waiting: return the held rows in the order of their arrival."""
        early, self._early = self._early, []
        for record in early:
            self._note(identify(record.raw))
        return early

    def _follows(self, link: RecordIdentity) -> bool:
        if self._writes_in_order or link.type not in CONVERSATION or link.isSidechain is True:
            return True
        return not isinstance(link.parentUuid, str) or link.parentUuid in self._seen

    def _note(self, link: RecordIdentity) -> None:
        if isinstance(link.uuid, str):
            self._seen.add(link.uuid, REMEMBERED)


class SubagentResultBuffer:
    """Holds a subagent's result until the subagent's own last text has arrived: that text is in another file, which may
    be written later. The caller decides when to stop waiting (`flush`)."""

    def __init__(self) -> None:
        self._spoke: dict[str, bool] = {}
        self._held: list[Record] = []

    @property
    def is_waiting(self) -> bool:
        return bool(self._held)

    def put(self, record: Record) -> list[Record]:
        """Add a row; return the rows that can be delivered now. Rows of the main thread stay in their order."""
        side = identify(record.raw) if b'"agentId"' in record.raw else RecordIdentity()
        if side.isSidechain is True:
            if side.type in CONVERSATION:
                self._spoke[str(side.agentId)] = side.type == "assistant" and _says(side)
            return [record, *self._ready()]
        if self._held or self._lacks(side):
            self._held.append(record)
            return []
        return [record]

    def flush(self) -> list[Record]:
        held, self._held = self._held, []
        return held

    def _ready(self) -> list[Record]:
        ready_rows: list[Record] = []
        while self._held and not self._lacks(identify(self._held[0].raw)):
            ready_rows.append(self._held.pop(0))
        return ready_rows

    def _lacks(self, side: RecordIdentity) -> bool:
        facts = decode_object(side.toolUseResult)
        if facts.get("status") != "completed":
            return False
        says = any(block.get("text") for block in as_dicts(facts.get("content")))
        return says and not self._spoke.get(str(facts.get("agentId")), False)


def _says(side: RecordIdentity) -> bool:
    return any(block.get("type") == "text" for block in as_dicts(decode_object(side.message).get("content")))
