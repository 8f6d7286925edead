"""Subagent output that the wire leaves out: read from the subagents' files and merged into the wire's records.

Measured: up to 2.1.118 the wire carries only the calls and results of a foreground subagent, and up to 2.1.156 nothing
of a background subagent. Both kinds write all their output into the subagent's own file, under the same uuids, within a
tenth of a second. A row that the wire leaves out becomes a record in the form in which newer versions send it. 2.1.37
does not send the end of a background subagent either: it is in the session's own file.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from fairlead.agents.claude.interpreter import user_text
from fairlead.agents.claude.transcripts.file_reader import FileOffset, TranscriptFile, end_of
from fairlead.agents.claude.transcripts.identity import CONVERSATION, RecordIdentity, identify
from fairlead.agents.claude.transcripts.legacy_subagents import is_subagents
from fairlead.agents.claude.transcripts.reader import subagents_folder
from fairlead.agents.claude.versions import Abilities, Version
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.records import AssistantRecord, TaskNotification, UserRecord, as_dicts, as_text
from fairlead.agents.driver import Deliver, background_tasks
from fairlead.agents.links.framing import encode_line
from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.agents import Record
from fairlead.system.clock import Clock, ends_within

LAG_SECONDS: Final = 1.0
"""How long a record waits for its row in the file: ten times the measured delay."""
LOOK_SECONDS: Final = 0.02
LIVE_SECONDS: Final = 0.2
"""How often a file is polled while a record waits for it, and while its subagent works in the background."""
PREFIX: Final = "agent-"

_HINTS: Final = (b'"parent_tool_use_id":"', b'"agentId"', b'"task_notification"')
"""Every line that this module handles contains one of them."""


class _SubagentFile:
    """One subagent's file and its rows that have not been emitted yet. Rows before `place` were emitted earlier.

    2.1.37 sometimes writes a row before its parent row: rows are ordered by their parents."""

    def __init__(self, path: Path, place: FileOffset) -> None:
        self.agent = path.stem.removeprefix(PREFIX)
        self.call = ""
        self.over = False
        self._goes_on = place.offset > 0
        self._waiting: dict[str, RecordIdentity] = {}
        self._parents: dict[str, str] = {}
        self._spoken: set[str] = set()
        self._file = TranscriptFile(path, path.name, place)

    def fill(self) -> None:
        for row in _new_rows(self._file):
            if not isinstance(row.uuid, str):
                continue
            self._parents[row.uuid] = as_text(row.parentUuid)
            if row.type in CONVERSATION and row.isMeta is not True:
                self._waiting[row.uuid] = row
                if row.type == "assistant" and b'"text"' in bytes(row.message):
                    self._spoken.add(row.uuid)

    def has(self, uuid: str) -> bool:
        """Return whether the row of this uuid and all rows before it have been read."""
        return uuid in self._waiting and (self._goes_on or all(one in self._parents for one in self._ancestry(uuid)))

    def up_to(self, uuid: str) -> list[Record]:
        """Take the pending rows before the row of this uuid, whose own record comes over the wire."""
        before = [row for one in self._ancestry(uuid)[:0:-1] if (row := self._waiting.pop(one, None)) is not None]
        self._waiting.pop(uuid, None)
        return [self._record(row) for row in before]

    def rest(self, *, with_task: bool = True) -> list[Record]:
        """Take all pending rows. The task itself is not emitted for a background subagent (`with_task` false)."""
        if not with_task:
            self._waiting = {uuid: row for uuid, row in self._waiting.items() if self._parents[uuid]}
        records: list[Record] = []
        for uuid in list(self._waiting):
            row = self._waiting.get(uuid)
            if row is not None:
                records += [*self.up_to(uuid), self._record(row)]
        return records

    def _ancestry(self, uuid: str) -> list[str]:
        """The uuids of a row and its ancestors, back to the first row."""
        line = {uuid: None}
        while (parent := self._parents.get(next(reversed(line)), "")) and parent not in line:
            line[parent] = None
        return list(line)

    def has_text(self) -> bool:
        return not self._spoken.isdisjoint(self._waiting)

    def has_final_text(self) -> bool:
        """Return whether a text is the last row: a subagent that is not stopped ends with a text."""
        return not self._spoken.issubset(self._parents.values())

    def _record(self, row: RecordIdentity) -> Record:
        fields = {
            "type": row.type,
            "message": row.message,
            "parent_tool_use_id": self.call,
            "session_id": row.sessionId,
            "uuid": row.uuid,
            "timestamp": row.timestamp,
        }
        if row.requestId is not None:
            fields["request_id"] = row.requestId
        return Record(encode_line(fields)[:-1])


class SubagentPlaces(msgspec.Struct, frozen=True, tag_field="type", tag="fairlead_subagents"):
    """Where the files ended when the process was started, and the background subagents that are followed: a line that a
    restarted gateway recalls. Rows that it reads again have no effect."""

    transcript: FileOffset
    files: dict[str, FileOffset]
    following: dict[str, str]


class SubagentFiles:
    """The subagents' files of one process. `give` receives a background subagent's records as they are written.
    `output`: where the places in the files are noted for a restarted gateway."""

    def __init__(
        self, transcript: Path, version: Version, clock: Clock, give: Deliver, output: KeptOutput | None = None
    ) -> None:
        self._transcript = transcript
        self._able = Abilities(version)
        self._clock = clock
        self._give = give
        self._files: dict[Path, _SubagentFile] = {}
        self._lost: set[str] = set()
        self._lock = asyncio.Lock()
        self._following: dict[str, str] = {}
        """The CLI's ids of background subagents, each with the call that started it."""
        self._tasks = background_tasks("a subagent's file could not be followed")
        # When a conversation is resumed, the existing rows were emitted before.
        self._transcript_before = self._end_of_transcript()
        self._before = {path: end_of(path) for path in self._paths()}
        self._output = output
        self._note()

    def _note(self) -> None:
        if self._output is not None:
            files = {str(path): place for path, place in self._before.items()}
            places = SubagentPlaces(self._transcript_before, files, self._following)
            self._output.remember("subagents", encode_line(places)[:-1])

    def restore(self, places: SubagentPlaces) -> None:
        """Continue where an earlier gateway was."""
        self._transcript_before = places.transcript
        self._before = {Path(path): place for path, place in places.files.items()}
        for agent, call in places.following.items():
            self._follow(agent, call)
        self._note()

    def concerns(self, raw: bytes) -> bool:
        return any(hint in raw for hint in _HINTS)

    async def before(self, raw: bytes) -> list[Record]:
        """Return the records that belong before this one and did not come over the wire."""
        message = decode(raw)
        if isinstance(message, UserRecord | AssistantRecord) and message.parent_call:
            if self._able.forwards_subagents or not message.uuid:
                return []
            return await self._up_to(message.parent_call, message.uuid)
        if isinstance(message, UserRecord) and isinstance(message.result, dict):
            return await self._result(message, message.result)
        return await self._finish(message.task_id) if isinstance(message, TaskNotification) else []

    async def close(self) -> list[Record]:
        """Return the remaining records of background subagents after the process has ended."""
        records: list[Record] = []
        async with self._lock:
            for agent, call in self._following.items():
                file = self._file_of(agent, call)
                if file is not None and not file.over:
                    file.over = True
                    records += file.rest(with_task=False)
        await self._tasks.close()
        return records

    # --- foreground subagents

    async def _up_to(self, call: str, uuid: str) -> list[Record]:
        def found() -> _SubagentFile | None:
            for file in self._candidates(call):
                file.fill()
                if file.has(uuid):
                    return file
            return None

        await self._wait(call, lambda: found() is not None)
        file = found()
        if file is None:
            return []
        file.call = call
        return file.up_to(uuid)

    async def _result(self, message: UserRecord, facts: dict[str, Any]) -> list[Record]:
        agent, call = facts.get("agentId"), _answered(message)
        if not isinstance(agent, str) or not call:
            return []
        if facts.get("isAsync") is True or facts.get("status") == "async_launched":
            self._follow(agent, call)
            return []
        if self._able.forwards_subagents:
            return []
        spoke = any(block.get("text") for block in as_dicts(facts.get("content")))
        return await self._drain(agent, call, spoke=spoke)

    async def _drain(self, agent: str, call: str, *, spoke: bool) -> list[Record]:
        """Take all remaining rows of a subagent; if it produced text (`spoke`), wait until the text is in the file."""

        def there() -> bool:
            file = self._file_of(agent, call)
            return file is not None and (file.has_text() or not spoke)

        await self._wait(call, there)
        file = self._file_of(agent, call)
        return [] if file is None else file.rest()

    async def _wait(self, call: str, there: Callable[[], bool]) -> None:
        """Wait until `there` is true, for a limited time. Never wait again for a call that timed out."""

        async def arrived() -> None:
            while not there():
                await self._clock.sleep(LOOK_SECONDS)

        if not there() and call not in self._lost and not await ends_within(self._clock, LAG_SECONDS, arrived()):
            self._lost.add(call)

    # --- background subagents

    def _follow(self, agent: str, call: str) -> None:
        if not self._able.forwards_background and agent not in self._following:
            self._following[agent] = call
            self._note()
            self._tasks.spawn(self._live(agent, call))

    async def _live(self, agent: str, call: str) -> None:
        # Read from the start of the process: on a busy machine the end may be written before this task first polls.
        main = None if self._able.reports_tasks else TranscriptFile(self._transcript, "", self._transcript_before)
        while True:
            async with self._lock:
                file = self._file_of(agent, call)
                if file is not None:
                    if file.over:
                        return
                    records = file.rest(with_task=False)
                    noted = None if main is None else _noted(main, agent, call)
                    if noted is not None:
                        file.over = True
                        await self._wait_final_text(file)
                        records += [*file.rest(with_task=False), noted]
                    if records:
                        await self._give(records)
            await self._clock.sleep(LIVE_SECONDS)

    def _end_of_transcript(self) -> FileOffset:
        with contextlib.suppress(OSError):
            return end_of(self._transcript)
        return FileOffset()

    async def _finish(self, agent: str) -> list[Record]:
        """Take the last rows of a background subagent when the wire reports its end."""
        if agent not in self._following:
            return []
        async with self._lock:
            file = self._file_of(agent, self._following[agent])
            if file is None or file.over:
                return []
            file.over = True
            await self._wait_final_text(file)
            return file.rest(with_task=False)

    async def _wait_final_text(self, file: _SubagentFile) -> None:
        """Wait for the final text: it may be written after the subagent's end is reported."""

        def there() -> bool:
            file.fill()
            return file.has_final_text()

        await self._wait(file.call, there)

    # --- files

    def _paths(self) -> Iterable[Path]:
        try:
            return [path for path in subagents_folder(self._transcript).iterdir() if is_subagents(path.name)]
        except OSError:
            return []

    def _file_of(self, agent: str, call: str) -> _SubagentFile | None:
        """The file of the subagent that this call started or resumed, with its new rows."""
        file = next((file for file in self._all() if file.agent == agent), None)
        if file is not None:
            file.call = call
            file.fill()
        return file

    def _candidates(self, call: str) -> list[_SubagentFile]:
        """The file of this call, then the others: a file's call may not be known yet, or another call may resume it."""
        return sorted(self._all(), key=lambda file: file.call != call)

    def _all(self) -> Iterable[_SubagentFile]:
        for path in self._paths():
            if path not in self._files:
                self._files[path] = _SubagentFile(path, self._before.get(path, FileOffset()))
        return self._files.values()


def _new_rows(file: TranscriptFile) -> Iterable[RecordIdentity]:
    with contextlib.suppress(OSError):
        for item in file.new_items():
            yield from (identify(record.raw) for record in item.records)


def _answered(message: UserRecord) -> str:
    """The call whose result a record carries; empty if it carries several results, or none."""
    results = [block for block in as_dicts(message.message.content) if block.get("type") == "tool_result"]
    return as_text(results[0].get("tool_use_id")) if len(results) == 1 else ""


def _noted(main: TranscriptFile, agent: str, call: str) -> Record | None:
    """The end of a background subagent from the session's file, as a record in the form that newer versions send."""
    for row in _new_rows(main):
        if row.operation != "enqueue" or not isinstance(row.content, str):
            continue
        if user_text.tag(row.content, "task-id") == agent:
            fields = {
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
            return Record(encode_line(fields)[:-1])
    return None
