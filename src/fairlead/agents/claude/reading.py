"""One session's files as records: its own and its subagents', from a place on, every byte read once.

The rows of all files are merged by their own times, each file in its order. A partial last line waits in memory until
the rest of it is there. Files are opened for each look and closed again, so that a replaced one is noticed and five
thousand sessions hold no descriptor.
"""

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.beside import Beside, is_subagents
from fairlead.agents.claude.follow import place_after, place_of
from fairlead.agents.claude.lines import LineSplitter, Oversize, Spill, stand_in
from fairlead.agents.claude.records import subagent_link
from fairlead.agents.claude.rescue import GARBAGE, OVERSIZE, TORN, Row, read_line
from fairlead.model.agents import Record
from fairlead.model.errors import NotFound
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.transcripts import Problem, Rows

CHUNK = 256 << 10
BATCH_ROWS = 256
BATCH_BYTES = 256 << 10
"""What goes into the log at once: small enough that nobody else waits long, large enough to be quick."""
AT_ONCE = 16 << 10
"""So much is read where it is wanted; more, in a thread: a damaged line takes up to a second for every 20 MB."""
FRAGMENT_BYTES = 1 << 20
KEPT_OF_FRAGMENT = 1 << 10
GLANCE_BYTES = 4 << 20
"""The most that a glance reads, however large the rows at the end of a file are."""
_CHECK = 64
"""Bytes before a place by which a file is known again."""
MAIN = ""
BESIDE = "beside:"
ELSEWHERE = "at:"
"""How files are named in a place: a session's own; subagents' that lie beside it; another file of the session."""


class FilePlace(msgspec.Struct, frozen=True):
    """How far a file was read. `check` is of the bytes before `offset`; `linked`: whose it is was told."""

    offset: int = 0
    check: str = ""
    linked: bool = False


class Place(msgspec.Struct, frozen=True):
    """By the path of each file below the session's folder; others see `MAIN`."""

    files: dict[str, FilePlace] = {}


_places = msgspec.msgpack.Decoder(Place)


def decode_place(data: bytes) -> Place:
    return _places.decode(data) if data else Place()


class _Item(msgspec.Struct, frozen=True):
    """What one line came to."""

    at: int
    end: int
    records: tuple[Record, ...]
    damage: tuple[str, ...]


class _File:
    """One file while it is read."""

    def __init__(
        self, path: Path, name: str, place: FilePlace, spill: Spill | None = None, *, again: bool = False
    ) -> None:
        self.path = path
        self.name = name
        self.linked = place.linked
        self.done = place.offset
        """Up to here all rows were handed on."""
        self.items: deque[_Item] = deque()
        self.damage: dict[str, int] = {}
        self._spill = spill
        self._read = place.offset
        self._check = place.check
        self._checked_at = place.offset
        self._identity: tuple[int, int] | None = None
        self._last = 0
        self.again = again
        """It is not the file that was read before: up to its present end, what it says may be known already."""
        self._begin()

    def _begin(self) -> None:
        self._splitter = LineSplitter(spill=self._spill)

    def unread(self) -> int:
        return self.size() - self.done

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return self.done

    def fill(self) -> None:
        """Read some more, if all that was read is handed on. OSError."""
        if self.items:
            return
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._recognise(descriptor)
            while not self.items:
                data = os.pread(descriptor, CHUNK, self._read)
                if not data:
                    self.again = False
                    return
                self._take(data)
        finally:
            os.close(descriptor)

    def _recognise(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity == self._identity and status.st_size >= self._read:
            return
        if status.st_size < self._read or self._check != _check(descriptor, self.done):
            # Cut short, or another file under its name: from the start again.
            self.again = self.again or self.done > 0
            self.done = self._read = self._checked_at = 0
            self._check = ""
            self._begin()
        elif self._identity is not None:
            # The same content in a new file: what was half read is read again.
            self._read = self.done
            self._begin()
        self._identity = identity

    def _take(self, data: bytes) -> None:
        start = 0
        while (newline := data.find(b"\n", start)) >= 0:
            lines = self._splitter.feed(data[start : newline + 1])
            end = self._read + newline + 1
            self.items.append(self._item(lines[0], end) if lines else _Item(self._last, end, (), ()))
            start = newline + 1
        self._splitter.feed(data[start:])
        self._read += len(data)

    def _item(self, line: bytes | Oversize, end: int) -> _Item:
        if isinstance(line, Oversize):
            raw = stand_in(line.place, line.size, line.head)
            return _Item(self._last, end, (Record(raw, "transcript", self._last),), (OVERSIZE,))
        read = read_line(line)
        records = []
        for part in read.parts:
            self._last = max(self._last, part.at) if isinstance(part, Row) else self._last
            if isinstance(part, Row):
                records.append(Record(part.raw, "transcript", self._last, part.uuid))
            else:
                records.append(Record(self._aside(part.raw), "transcript", self._last))
        return _Item(self._last, end, tuple(records), read.damage)

    def _aside(self, raw: bytes) -> bytes:
        """What is no row is kept as it is; a large piece in a file, so that nobody has to look at it again."""
        if len(raw) <= FRAGMENT_BYTES or self._spill is None:
            return raw
        self._spill.write(raw)
        return stand_in(self._spill.done(), len(raw), raw[:KEPT_OF_FRAGMENT])

    def torn(self) -> _Item | None:
        """The last line, which has no newline. Whole, it is a row like any other; torn, it is kept, and read again
        from its beginning should the rest of it come."""
        lines = self._splitter.end()
        if not lines:
            return None
        item = self._item(lines[0], self._read)
        if item.damage and item.damage[-1] == GARBAGE:
            item = _Item(item.at, self.done, item.records, (*item.damage[:-1], TORN))
            self._read = self.done
        return item

    def hand_on(self, item: _Item) -> None:
        self.done = item.end
        for kind in item.damage:
            self.damage[kind] = self.damage.get(kind, 0) + 1

    def place(self) -> FilePlace:
        return FilePlace(self.done, self._checked(), self.linked)

    def _checked(self) -> str:
        if self.done == self._checked_at:
            return self._check
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return self._check
        try:
            self._check, self._checked_at = _check(descriptor, self.done), self.done
        finally:
            os.close(descriptor)
        return self._check


class FileRows:
    """The rows of one file from its start, one line after the other, as far as somebody wants them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _File(path, MAIN, FilePlace())

    def __iter__(self) -> Iterator[_Item]:
        """OSError."""
        while True:
            self._file.fill()
            if not self._file.items:
                return
            item = self._file.items.popleft()
            self._file.hand_on(item)
            yield item

    def place_at(self, offset: int) -> FilePlace:
        return _place_at(self._path, offset)


def _check(descriptor: int, offset: int) -> str:
    if not offset:
        return ""
    data = os.pread(descriptor, min(_CHECK, offset), max(0, offset - _CHECK))
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class SessionReader:
    """Implements `model.transcripts.TranscriptReader`."""

    def __init__(
        self,
        session: SessionId,
        path: Path,
        place: bytes = b"",
        after: str = "",
        since: str = "",
        spill: Callable[[], Spill | None] = lambda: None,
        *,
        where: Callable[[], Path | None] = lambda: None,
        beside: Beside | None = None,
    ) -> None:
        """`where`: the file that was written to last, if the session has several."""
        self._session = session
        self._path = path
        self._where = where
        self._beside = beside or Beside()
        self._places = dict(decode_place(place).files)
        self._spill = spill
        self._files: dict[str, _File] = {}
        self._folder_changed = (-1, -1)
        if after:
            self._skip_to(after)
        if since:
            self._begin_at(since)

    def _skip_to(self, prompt: str) -> None:
        """Not what lies before a prompt that is known, nor what its subagents have written so far."""
        offset = place_after(self._path, MessageId(prompt))
        if offset > self._places.get(MAIN, FilePlace()).offset:
            self.to_end()
            self._places[MAIN] = _place_at(self._path, offset)

    def _begin_at(self, prompt: str) -> None:
        """Not what lies before a prompt: another session's part of the file."""
        offset = place_of(self._path, MessageId(prompt))
        if offset is None:
            raise NotFound("prompt in the transcript", prompt)
        self._places[MAIN] = _place_at(self._path, offset)

    async def read(self) -> Rows | None:
        if self._unread() > AT_ONCE:
            return await asyncio.to_thread(self._read)
        return self._read()

    async def finish(self) -> Rows | None:
        return await asyncio.to_thread(self._finish)

    def _unread(self) -> int:
        """Bytes that wait, those of a line that is not whole yet among them: all of it will be looked at."""
        files = self._files.values()
        return sum(file.unread() for file in files) if files else AT_ONCE + 1

    def _read(self) -> Rows | None:
        self._find()
        for file in list(self._files.values()):
            self._fill(file)
        return self._batch()

    def _finish(self) -> Rows | None:
        for file in self._files.values():
            torn = file.torn()
            if torn is not None:
                file.items.append(torn)
        return self._batch()

    def to_end(self) -> bytes:
        self._files.clear()
        self._folder_changed = (-1, -1)
        self._places = {MAIN: _place_at(self._path, self._path.stat().st_size)}
        for name, path in self._subagents().items():
            self._places[name] = msgspec.structs.replace(_place_at(path, path.stat().st_size), linked=True)
        return self.place()

    def close(self) -> None:
        self._files.clear()

    def place(self) -> bytes:
        files = {**self._places, **{name: file.place() for name, file in self._files.items()}}
        return msgspec.msgpack.encode(Place(files))

    # --- inside

    def _find(self) -> None:
        if MAIN not in self._files:
            self._add(MAIN, self._path)
        other = self._where()
        if other is not None and other != self._path:
            self._add(f"{ELSEWHERE}{other}", other)
        changed = (_changed(subagents_folder(self._path)), _changed(self._path.parent))
        # The older layout has no files that link them: there is nothing to wait for.
        unlinked = any(
            not file.linked for name, file in self._files.items() if _is_subagents(name) and not name.startswith(BESIDE)
        )
        if changed != self._folder_changed or unlinked or self._beside.unsure(self._path.parent):
            self._folder_changed = changed
            for name, path in self._subagents().items():
                self._add(name, path)

    def _subagents(self) -> dict[str, Path]:
        beside = self._beside.files(self._path.parent, self._session)
        return {**subagent_files(self._path), **{f"{BESIDE}{name}": path for name, path in beside.items()}}

    def _add(self, name: str, path: Path) -> None:
        file = self._files.get(name)
        if file is None:
            place = self._places.get(name)
            # A second file of the session may repeat what the first one has.
            again = place is None and name.startswith(ELSEWHERE)
            file = self._files[name] = _File(path, name, place or FilePlace(), self._spill(), again=again)
        if _is_subagents(name) and not file.linked:
            link = _link(path)
            if link is not None:
                file.linked = True
                file.items.appendleft(_Item(0, file.done, (Record(link, "gateway"),), ()))

    def _fill(self, file: _File) -> None:
        try:
            file.fill()
        except FileNotFoundError:
            if file.name == MAIN and not any(other.items for other in self._files.values()):
                raise NotFound("transcript of session", self._session) from None
        except OSError as error:
            file.damage[f"unreadable: {error.strerror}"] = 1

    def _batch(self) -> Rows | None:
        records: list[Record] = []
        size = rows = 0
        again = any(file.again for file in self._files.values())
        while rows < BATCH_ROWS and size < BATCH_BYTES:
            waiting = [file for file in self._files.values() if file.items]
            if not waiting:
                break
            file = min(waiting, key=lambda file: file.items[0].at)
            item = file.items.popleft()
            file.hand_on(item)
            records.extend(item.records)
            rows += 1
            size += sum(len(record.raw) for record in item.records)
            if not file.items:
                # The next row of this file may be older than those of the others.
                self._fill(file)
        if not rows:
            return None
        return Rows(
            records=tuple(records),
            place=self.place(),
            problems=self._problems(),
            read=sum(file.done for file in self._files.values()),
            total=sum(file.size() for file in self._files.values()),
            again=again,
        )

    def _problems(self) -> tuple[Problem, ...]:
        found: list[Problem] = []
        for file in self._files.values():
            found.extend(Problem(kind, str(file.path), count) for kind, count in file.damage.items())
            file.damage = {}
        return tuple(found)


# --- the files beside -----------------------------------------------------------------------------------


def _is_subagents(name: str) -> bool:
    return name != MAIN and not name.startswith(ELSEWHERE)


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


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


class _Meta(msgspec.Struct):
    toolUseId: str = ""


def _link(path: Path) -> bytes | None:
    """What the file beside a subagent's transcript says about the call that began it; None: nothing (yet)."""
    try:
        with path.with_suffix(".meta.json").open("rb") as file:
            meta = msgspec.json.decode(file.read(1 << 20), type=_Meta)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    agent = path.name.removeprefix("agent-").removesuffix(".jsonl")
    return subagent_link(agent, meta.toolUseId) if meta.toolUseId else None


def _place_at(path: Path, offset: int) -> FilePlace:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return FilePlace(offset, _check(descriptor, offset))
    finally:
        os.close(descriptor)


def last_rows(path: Path, limit: int) -> list[Record]:
    """The last rows of a file, oldest first, by reading backwards from its end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        size = start = os.fstat(descriptor).st_size
        blocks: list[bytes] = []
        newlines = 0
        while start > 0 and newlines <= limit and size - start < GLANCE_BYTES:
            length = min(start, 64 << 10)
            start -= length
            blocks.append(os.pread(descriptor, length, start))
            newlines += blocks[-1].count(b"\n")
    finally:
        os.close(descriptor)
    lines = b"".join(reversed(blocks)).split(b"\n")
    parts = [part for line in (lines[1:] if start else lines) for part in read_line(line).parts]
    return [Record(part.raw, "transcript", part.at) for part in parts if isinstance(part, Row)][-limit:]
