"""What subagents say that the wire does not bring: read from their files, put between the wire's records in its place.

Measured: up to 2.1.118 the wire has only the calls and results of a subagent that is waited for, up to 2.1.156 nothing
of one in the background. Both write all of it into the subagent's own file, under the same uuids, within a tenth of a
second. A row that the wire leaves out becomes a record in the form in which newer versions send it. 2.1.37 does not
send the end of a background subagent either: that is in the session's own file.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from fairlead.agents.claude.interpreter import user_text
from fairlead.agents.claude.transcripts.file_reader import FileOffset, TranscriptFile, place_at
from fairlead.agents.claude.transcripts.identity import CONVERSATION, decoded
from fairlead.agents.claude.transcripts.legacy_subagents import is_subagents
from fairlead.agents.claude.transcripts.reader import subagents_folder
from fairlead.agents.claude.versions import Version, abilities
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.framing import encode_line
from fairlead.agents.claude.wire.records import AssistantRecord, TaskNotification, UserRecord
from fairlead.model.agents import Record
from fairlead.system.clock import Clock, within

logger = logging.getLogger("fairlead.agents.claude")

LAG_SECONDS: Final = 1.0
"""How long a record waits for its row in the file: ten times what was measured."""
LOOK_SECONDS: Final = 0.02
LIVE_SECONDS: Final = 0.2
"""How often a file is looked at while a record waits for it, and while its subagent works in the background."""
PREFIX: Final = "agent-"

_HINTS: Final = (b'"parent_tool_use_id":"', b'"agentId"', b'"task_notification"')
"""One of them is in every line that this is about."""

Give = Callable[[list[Record]], Awaitable[None]]


class _Row(msgspec.Struct):
    """What a record needs of a row."""

    type: Any = None
    uuid: Any = None
    isMeta: Any = None
    parentUuid: Any = None
    sessionId: Any = None
    requestId: Any = None
    timestamp: Any = None
    message: msgspec.Raw = msgspec.Raw()


class _Queued(msgspec.Struct):
    """A row of the session's own file that puts something into the CLI's queue."""

    type: Any = None
    operation: Any = None
    content: Any = None
    sessionId: Any = None


_rows: Final = msgspec.json.Decoder(_Row)
_queued: Final = msgspec.json.Decoder(_Queued)


class _Words:
    """One subagent's file: rows that nobody was told of yet. `place`: what lies before it was told before.

    2.1.37 now and then writes a row before the one that it follows: their order is that of their parents."""

    def __init__(self, path: Path, place: FileOffset) -> None:
        self.agent = path.stem.removeprefix(PREFIX)
        self.call = ""
        self.over = False
        self._goes_on = place.offset > 0
        self._waiting: dict[str, _Row] = {}
        self._parents: dict[str, str] = {}
        self._spoken: set[str] = set()
        self._file = TranscriptFile(path, path.name, place)

    def fill(self) -> None:
        for raw in _new_rows(self._file):
            row = decoded(_rows, raw)
            if row is None or not isinstance(row.uuid, str):
                continue
            self._parents[row.uuid] = row.parentUuid if isinstance(row.parentUuid, str) else ""
            if row.type in CONVERSATION and row.isMeta is not True:
                self._waiting[row.uuid] = row
                if row.type == "assistant" and b'"text"' in bytes(row.message):
                    self._spoken.add(row.uuid)

    def has(self, uuid: str) -> bool:
        """Its row is there, and all that it follows."""
        return uuid in self._waiting and (self._goes_on or all(one in self._parents for one in self._line(uuid)))

    def up_to(self, uuid: str) -> list[Record]:
        """What the row of a record follows that the wire brings."""
        before = [row for one in self._line(uuid)[:0:-1] if (row := self._waiting.pop(one, None)) is not None]
        self._waiting.pop(uuid, None)
        return [self._record(row) for row in before]

    def rest(self, *, with_task: bool = True) -> list[Record]:
        """All that is there. The task itself is not sent of a subagent in the background."""
        if not with_task:
            self._waiting = {uuid: row for uuid, row in self._waiting.items() if self._parents[uuid]}
        told: list[Record] = []
        for uuid in list(self._waiting):
            row = self._waiting.get(uuid)
            if row is not None:
                told += [*self.up_to(uuid), self._record(row)]
        return told

    def _line(self, uuid: str) -> list[str]:
        """A row and those that it follows, back to the first."""
        line = {uuid: None}
        while (parent := self._parents.get(next(reversed(line)), "")) and parent not in line:
            line[parent] = None
        return list(line)

    def said_something(self) -> bool:
        return not self._spoken.isdisjoint(self._waiting)

    def has_last_words(self) -> bool:
        """Nothing follows what it said: a subagent that is not stopped ends so."""
        return not self._spoken.issubset(self._parents.values())

    def _record(self, row: _Row) -> Record:
        told = {
            "type": row.type,
            "message": row.message,
            "parent_tool_use_id": self.call,
            "session_id": row.sessionId,
            "uuid": row.uuid,
            "timestamp": row.timestamp,
        }
        if row.requestId is not None:
            told["request_id"] = row.requestId
        return Record(encode_line(told)[:-1])


class SubagentFiles:
    """Of one process. `give` takes what a background subagent says as it is written."""

    def __init__(self, transcript: Path, version: Version, clock: Clock, give: Give) -> None:
        self._transcript = transcript
        self._able = abilities(version)
        self._clock = clock
        self._give = give
        self._files: dict[Path, _Words] = {}
        self._lost: set[str] = set()
        self._lock = asyncio.Lock()
        self._background: dict[str, str] = {}
        """The CLI's ids of background subagents, to the call that started each."""
        self._following: dict[str, asyncio.Task[None]] = {}
        # Of a conversation that goes on: what is there was said before.
        self._transcript_before = self._end_of_transcript()
        self._before = {path: place_at(path, path.stat().st_size) for path in self._paths()}

    def concerns(self, raw: bytes) -> bool:
        return any(hint in raw for hint in _HINTS)

    async def before(self, raw: bytes) -> list[Record]:
        """What belongs before this record, and has not come over the wire."""
        message = decode(raw)
        if isinstance(message, UserRecord | AssistantRecord) and message.parent_call:
            if self._able.forwards_subagents or not message.uuid:
                return []
            return await self._up_to(message.parent_call, message.uuid)
        if isinstance(message, UserRecord) and isinstance(message.result, dict):
            return await self._result(message, message.result)
        if isinstance(message, TaskNotification):
            return await self._finish(message.task_id)
        return []

    async def close(self) -> list[Record]:
        """The process has ended: what its background subagents have said last."""
        told: list[Record] = []
        async with self._lock:
            for agent in self._following:
                words = self._in_background(agent)
                if words is not None and not words.over:
                    words.over = True
                    words.fill()
                    told += words.rest(with_task=False)
        if self._following:
            for task in self._following.values():
                task.cancel()
            await asyncio.wait(self._following.values())
        return told

    # --- a subagent that is waited for

    async def _up_to(self, call: str, uuid: str) -> list[Record]:
        def there() -> _Words | None:
            for words in self._candidates(call):
                words.fill()
                if words.has(uuid):
                    return words
            return None

        words = await self._wait(call, there)
        if words is None:
            return []
        words.call = call
        return words.up_to(uuid)

    async def _result(self, message: UserRecord, facts: dict[str, Any]) -> list[Record]:
        agent, call = facts.get("agentId"), _answered(message)
        if not isinstance(agent, str) or not call:
            return []
        if facts.get("isAsync") is True or facts.get("status") == "async_launched":
            self._follow(agent, call)
            return []
        if self._able.forwards_subagents:
            return []
        spoke = any(isinstance(block, dict) and block.get("text") for block in facts.get("content") or ())
        return await self._drain(agent, call, spoke=spoke)

    async def _drain(self, agent: str, call: str, *, spoke: bool) -> list[Record]:
        """Its last words; if it said something, they are waited for."""

        def there() -> _Words | None:
            words = self._words(agent)
            if words is not None:
                words.fill()
            return words if words is not None and (words.said_something() or not spoke) else None

        await self._wait(call, there)
        words = self._words(agent)
        if words is None:
            return []
        words.call = call
        return words.rest()

    async def _wait(self, call: str, there: Callable[[], _Words | None]) -> _Words | None:
        """None: it did not come. One that was waited for in vain is not waited for again."""

        async def arrived() -> _Words:
            while (words := there()) is None:
                await self._clock.sleep(LOOK_SECONDS)
            return words

        found = there()
        if found is None and call not in self._lost:
            try:
                found = await within(self._clock, LAG_SECONDS, arrived())
            except TimeoutError:
                self._lost.add(call)
        return found

    # --- one in the background

    def _follow(self, agent: str, call: str) -> None:
        if not self._able.forwards_background and agent not in self._following:
            self._background[agent] = call
            task = self._following[agent] = asyncio.create_task(self._live(agent, call))
            task.add_done_callback(_done)

    def _in_background(self, agent: str) -> _Words | None:
        words = self._words(agent)
        if words is not None:
            words.call = self._background[agent]
        return words

    async def _live(self, agent: str, call: str) -> None:
        # From the start of the process: on a busy machine the end is written before anybody looks for it here.
        main = None if self._able.reports_tasks else TranscriptFile(self._transcript, "", self._transcript_before)
        while True:
            async with self._lock:
                words = self._in_background(agent)
                if words is not None:
                    if words.over:
                        return
                    words.fill()
                    told = words.rest(with_task=False)
                    noted = None if main is None else _noted(main, agent, call)
                    if noted is not None:
                        words.over = True
                        await self._last_words(words)
                        told += [*words.rest(with_task=False), noted]
                    if told:
                        await self._give(told)
            await self._clock.sleep(LIVE_SECONDS)

    def _end_of_transcript(self) -> FileOffset:
        with contextlib.suppress(OSError):
            return place_at(self._transcript, self._transcript.stat().st_size)
        return FileOffset()

    async def _finish(self, agent: str) -> list[Record]:
        """The wire says that it has ended."""
        if agent not in self._following:
            return []
        async with self._lock:
            words = self._in_background(agent)
            if words is None or words.over:
                return []
            words.over = True
            await self._last_words(words)
            return words.rest(with_task=False)

    async def _last_words(self, words: _Words) -> None:
        """Wait for them: they may be written after the end of the subagent is."""

        def there() -> _Words | None:
            words.fill()
            return words if words.has_last_words() else None

        await self._wait(words.call, there)

    # --- files

    def _paths(self) -> Iterable[Path]:
        try:
            return [path for path in subagents_folder(self._transcript).iterdir() if is_subagents(path.name)]
        except OSError:
            return []

    def _words(self, agent: str) -> _Words | None:
        return next((words for words in self._all() if words.agent == agent), None)

    def _candidates(self, call: str) -> list[_Words]:
        """The file of this call, then the others: whose one is may not be known yet, and it may go on for another."""
        mine = [words for words in self._all() if words.call == call]
        return mine + [words for words in self._files.values() if words.call != call]

    def _all(self) -> Iterable[_Words]:
        for path in self._paths():
            if path not in self._files:
                self._files[path] = _Words(path, self._before.get(path, FileOffset()))
        return self._files.values()


def _new_rows(file: TranscriptFile) -> Iterable[bytes]:
    while True:
        try:
            file.fill()
        except OSError:
            return
        if not file.items:
            return
        while file.items:
            item = file.items.popleft()
            file.hand_on(item)
            yield from (record.raw for record in item.records)


def _done(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("a subagent's file could not be followed", exc_info=task.exception())


def _answered(message: UserRecord) -> str:
    """The call that a record brings the result of; empty if it brings several, or none."""
    content = message.message.content
    calls = [
        block.get("tool_use_id")
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    return calls[0] if len(calls) == 1 and isinstance(calls[0], str) else ""


def _noted(main: TranscriptFile, agent: str, call: str) -> Record | None:
    """The end of a background subagent as it stands in the session's file, in the form in which newer versions send
    it."""
    for raw in _new_rows(main):
        row = decoded(_queued, raw) if b"task-notification" in raw else None
        if row is None or row.operation != "enqueue" or not isinstance(row.content, str):
            continue
        if user_text.tag(row.content, "task-id") == agent:
            told = {
                "type": "system",
                "subtype": "task_notification",
                "task_id": agent,
                "tool_use_id": call,
                "status": user_text.tag(row.content, "status"),
                "output_file": user_text.tag(row.content, "output-file"),
                "summary": user_text.tag(row.content, "summary"),
                "session_id": row.sessionId,
                "uuid": str(uuid5(NAMESPACE_OID, row.content)),
            }
            return Record(encode_line(told)[:-1])
    return None
