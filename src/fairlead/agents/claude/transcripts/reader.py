"""Reads one session's files as records, its own and its subagents', from an offset on, every byte once.

The rows of all files are merged by their own times, each file in its order. A partial last line waits in memory until
the rest of it arrives. Files are opened for each read and closed again, so that a replaced file is noticed and five
thousand sessions hold no descriptor.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.file_reader import (
    FileItem,
    FileOffset,
    TranscriptFile,
    changed_at,
    end_of,
    place_at,
)
from fairlead.agents.claude.transcripts.identity import identify, name_of
from fairlead.agents.claude.transcripts.legacy_subagents import LegacySubagents, is_subagents
from fairlead.agents.claude.transcripts.recovery import place_after, place_of
from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.claude.wire.markers import SubagentLink, encode_marker
from fairlead.agents.claude.wire.records import as_text
from fairlead.agents.links.framing import OversizeSpill
from fairlead.model.agents import Record
from fairlead.model.errors import NotFound
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.transcripts import Shared, TranscriptPage, TranscriptProblem

BATCH_ROWS = 256
BATCH_BYTES = 256 << 10
"""Size of one append to the log: small enough that other work does not wait long, large enough to be fast."""
AT_ONCE = 16 << 10
"""Up to this many bytes are read in the event loop, more in a thread: a damaged line takes up to a second per 20 MB."""
MAIN = ""
LEGACY_PREFIX = "beside:"
ELSEWHERE = "at:"
"""Names of files in a stored offset: the session's own file, legacy subagent files in the same folder, and another file
of the session."""


class ReaderOffset(msgspec.Struct, frozen=True):
    """How far each file was read, by its path below the session's subagent folder; for other files see `MAIN`."""

    files: dict[str, FileOffset] = {}


_places = msgspec.msgpack.Decoder(ReaderOffset)


class SessionReader:
    """Implements `model.transcripts.TranscriptReader`."""

    def __init__(
        self,
        session: SessionId,
        path: Path,
        place: bytes = b"",
        after: str = "",
        since: str = "",
        spill: Callable[[], OversizeSpill | None] = lambda: None,
        *,
        where: Callable[[], Path | None] = lambda: None,
        legacy: LegacySubagents | None = None,
    ) -> None:
        """`where` returns the file that was written to last, if the session has several."""
        self._session = session
        self._path = path
        self._where = where
        self._legacy = legacy or LegacySubagents()
        self._places = _places.decode(place).files if place else {}
        self._spill = spill
        self._files: dict[str, TranscriptFile] = {}
        self._folder_changed = (-1, -1)
        if after:
            self._skip_to(after)
        if since:
            self._begin_at(since)

    def _skip_to(self, prompt: str) -> None:
        """Skip everything up to a known prompt, and everything that subagents have written so far."""
        offset = place_after(self._path, MessageId(prompt))
        if offset > self._places.get(MAIN, FileOffset()).offset:
            self.to_end()
            self._places[MAIN] = place_at(self._path, offset)

    def _begin_at(self, prompt: str) -> None:
        """Skip everything before a prompt: that part of the file belongs to another session."""
        offset = place_of(self._path, MessageId(prompt))
        if offset is None:
            raise NotFound("prompt in the transcript", prompt)
        self._places[MAIN] = place_at(self._path, offset)

    async def read(self) -> TranscriptPage | None:
        if self._unread() > AT_ONCE:
            return await asyncio.to_thread(self._read)
        return self._read()

    async def finish(self) -> TranscriptPage | None:
        return await asyncio.to_thread(self._finish)

    def _unread(self) -> int:
        """Unread bytes, including those of a partial line: all of that line will be parsed."""
        files = self._files.values()
        return sum(file.unread() for file in files) if files else AT_ONCE + 1

    def _read(self) -> TranscriptPage | None:
        self._find()
        for file in list(self._files.values()):
            self._fill(file)
        return self._batch()

    def _finish(self) -> TranscriptPage | None:
        for file in self._files.values():
            torn = file.partial_line()
            if torn is not None:
                file.items.append(torn)
        return self._batch()

    def to_end(self) -> bytes:
        self._files.clear()
        self._folder_changed = (-1, -1)
        self._places = {MAIN: end_of(self._path)}
        for name, path in self._subagents().items():
            self._places[name] = msgspec.structs.replace(end_of(path), linked=True)
        return self.place()

    def close(self) -> None:
        self._files.clear()

    @property
    def offset(self) -> int:
        """How far the session's own file was read."""
        file = self._files.get(MAIN)
        return self._places.get(MAIN, FileOffset()).offset if file is None else file.done

    def place(self) -> bytes:
        files = {**self._places, **{name: file.place() for name, file in self._files.items()}}
        return msgspec.msgpack.encode(ReaderOffset(files))

    def _find(self) -> None:
        if MAIN not in self._files:
            self._add(MAIN, self._path)
        other = self._where()
        if other is not None and other != self._path:
            self._add(f"{ELSEWHERE}{other}", other)
        changed = (changed_at(subagents_folder(self._path)), changed_at(self._path.parent))
        # The legacy layout has no `.meta.json` files that link subagents to calls: there is nothing to wait for.
        unlinked = any(
            not file.linked
            for name, file in self._files.items()
            if _is_subagents(name) and not name.startswith(LEGACY_PREFIX)
        )
        if changed != self._folder_changed or unlinked or self._legacy.has_unknown_owner(self._path.parent):
            self._folder_changed = changed
            for name, path in self._subagents().items():
                self._add(name, path)

    def _subagents(self) -> dict[str, Path]:
        legacy = self._legacy.files(self._path.parent, self._session)
        return {**subagent_files(self._path), **{f"{LEGACY_PREFIX}{name}": path for name, path in legacy.items()}}

    def _add(self, name: str, path: Path) -> None:
        file = self._files.get(name)
        if file is None:
            place = self._places.get(name)
            # A second file of the session may repeat rows of the first.
            again = place is None and name.startswith(ELSEWHERE)
            file = self._files[name] = TranscriptFile(path, name, place or FileOffset(), self._spill(), again=again)
        if _is_subagents(name) and not file.linked:
            link = _link(path)
            if link is not None:
                file.linked = True
                at = file.items[0].at if file.items else file.next_time(file.done)
                file.items.appendleft(FileItem(at, file.done, (Record(link, "gateway", at),), ()))

    def _fill(self, file: TranscriptFile) -> None:
        try:
            file.read_more()
        except FileNotFoundError:
            if file.name == MAIN and not any(other.items for other in self._files.values()):
                raise NotFound("transcript of session", self._session) from None
        except OSError as error:
            file.damage[f"unreadable: {error.strerror}"] = 1

    def _batch(self) -> TranscriptPage | None:
        records: list[Record] = []
        size = rows = 0
        again = any(file.again for file in self._files.values())
        while rows < BATCH_ROWS and size < BATCH_BYTES:
            waiting = [file for file in self._files.values() if file.items]
            if not waiting:
                break
            file = min(waiting, key=lambda file: file.items[0].at)
            item = file.items.popleft()
            file.advance(item)
            records.extend(item.records)
            rows += 1
            size += sum(len(record.raw) for record in item.records)
            if not file.items:
                # The next row of this file may be older than the waiting rows of the others.
                self._fill(file)
        if not rows:
            return None
        return TranscriptPage(
            records=tuple(records),
            place=self.place(),
            problems=self._problems(),
            read=sum(file.done for file in self._files.values()),
            total=sum(file.size() for file in self._files.values()),
            again=again,
        )

    def _problems(self) -> tuple[TranscriptProblem, ...]:
        found: list[TranscriptProblem] = []
        for file in self._files.values():
            found.extend(TranscriptProblem(kind, str(file.path), count) for kind, count in file.damage.items())
            file.damage = {}
        return tuple(found)


# --- subagents' files -----------------------------------------------------------------------------------


def _is_subagents(name: str) -> bool:
    return name != MAIN and not name.startswith(ELSEWHERE)


def subagents_folder(path: Path) -> Path:
    return path.with_suffix("") / "subagents"


def subagent_files(path: Path) -> dict[str, Path]:
    """The transcripts of a session's subagents, by their names below its folder."""
    top = subagents_folder(path)
    found: dict[str, Path] = {}
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            if is_subagents(name):
                file = Path(folder) / name
                found[str(file.relative_to(top))] = file
    return found


def _link(path: Path) -> bytes | None:
    """A link marker from the `.meta.json` next to a subagent's transcript, which names the call that started the
    subagent; None if there is none (yet)."""
    try:
        with path.with_suffix(".meta.json").open("rb") as file:
            call = as_text(decode_object(file.read(1 << 20)).get("toolUseId"))
    except OSError:
        return None
    agent = path.name.removeprefix("agent-").removesuffix(".jsonl")
    return encode_marker(SubagentLink(agentId=agent, toolUseId=call)) if call else None


# --- forks -----------------------------------------------------------------------------------------------


LogRecords = AsyncIterator[tuple[int, Record]]


async def shared(path: Path, records: LogRecords) -> Shared | None:
    """Find how far a session file repeats another session's log, whose records are given with the last seq of their
    events. Reads the file only that far. Raises OSError.

    A fork, and with older versions every resume, begins with a copy of the rows before it: the same uuids, another
    session id. Only the main thread is compared, row by row; the rows in between (attachments, subagents, records that
    only the wire has) may be present or not."""
    others: set[str] = set()  # the names of all records of the log outside the main thread so far

    async def next_of_log() -> tuple[str, int]:
        """The uuid and the seq of the log's next record of the main thread; empty at the end."""
        async for seq, record in records:
            row = identify(record.raw)
            if row.is_conversation and row.is_main_thread:
                return str(row.uuid), seq
            others.add(name_of(row, record.raw))
        return "", 0

    rows = _main_rows(path)
    between: list[Record] = []
    upto = end = 0
    while True:
        uuid, row_end, skipped = next(rows, ("", 0, []))
        their_uuid, seq = await next_of_log()
        if not uuid or uuid != their_uuid:
            break
        between.extend(record for name, record in skipped if name not in others)
        upto, end = seq, row_end
    if not upto:
        return None
    place = msgspec.msgpack.encode(ReaderOffset({MAIN: place_at(path, end)}))
    return Shared(seq=upto, place=place, between=tuple(between), goes_on=bool(uuid), they_go_on=bool(their_uuid))


def _main_rows(path: Path) -> Iterator[tuple[str, int, list[tuple[str, Record]]]]:
    """The uuid and the end offset of each row of the main thread, with the rows before it that are not, by name."""
    skipped: list[tuple[str, Record]] = []
    for item in TranscriptFile(path, "", FileOffset()).new_items():
        for record in item.records:
            row = identify(record.raw)
            if row.is_conversation and row.is_main_thread:
                yield str(row.uuid), item.end, skipped
                skipped = []
            else:
                skipped.append((name_of(row, record.raw), record))
