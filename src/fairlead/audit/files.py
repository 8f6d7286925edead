"""The files of the audit log: appends sealed entries, starts a new file when one is large, and reads them.

The entries are in `audit/` of the data folder, in files named after their first entry; the chain goes on from file to
file. The number and hash of the last entry are in `audit.head` beside that folder, so that a cut at the end is found.
Plain functions for a thread; one writer per data folder (the gateway holds its lock).
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.audit.api import AuditEntry, AuditHead
from fairlead.audit.chain import FIRST, ChainCheck, parse, seal
from fairlead.model.errors import Damaged

FOLDER: Final = "audit"
HEAD: Final = "audit.head"
BROKEN: Final = "audit.broken"
"""The action of an entry that says that the log did not end as it was left."""
_HEAD_BYTES: Final = 256
"""Length of the head's file: it is overwritten in one piece, and needs no more room on a full disk."""
_SUFFIX: Final = ".jsonl"
_sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)

_log = logging.getLogger("fairlead.audit")


def audit_files(folder: Path) -> list[Path]:
    """The files of a folder, in the order of their entries."""
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())


def read_head(data: Path) -> AuditHead | None:
    """The head that is stored outside the log; None if no entry was ever written. Raises Damaged."""
    path = data / HEAD
    try:
        text = path.read_bytes().strip()
    except FileNotFoundError:
        return None
    if not text:
        return FIRST
    try:
        return msgspec.json.decode(text, type=AuditHead)
    except msgspec.DecodeError:
        raise Damaged(f"{path} cannot be read: it was changed, or a power cut damaged it.", file=str(path)) from None


def verify(data: Path, more: Sequence[Path] = (), heads: Iterable[AuditHead] = (), after: int = 0) -> ChainCheck:
    """Check the log of a data folder. `more`: folders to which old files were moved. `heads`: entries known from
    elsewhere. `after`: entries up to this number are not checked."""
    found = ChainCheck(heads, after)
    try:
        # Read before the entries: a gateway that runs goes on writing.
        kept = read_head(data)
        if kept is not None:
            found.expect(kept)
    except Damaged as error:
        kept = FIRST
        found.report(error.message)
    paths = sorted((path for folder in (*more, data / FOLDER) for path in audit_files(folder)), key=lambda p: p.name)
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                # An entry that is being written. If it was acknowledged before, the head knows it.
                if line.endswith(b"\n") or path != paths[-1]:
                    found.feed(line, f"{path.name}:{number}")
    if found.entries and kept is None:
        found.report(f"{HEAD} is missing: whether the end of the log was cut off cannot be said")
    found.finish()
    return found


class AuditFiles:
    """`limit`: size from which on a new file is begun. `sync`: an appended entry survives a power cut."""

    def __init__(self, data: Path, limit: int, *, sync: bool) -> None:
        self.head = FIRST
        self._data = data
        self._folder = data / FOLDER
        self._limit = limit
        self._sync = sync
        self._file: Path | None = None
        self._size = 0
        self._head_fd = -1

    def open(self, now_ms: int) -> None:
        """Continue where the log ends. If that is not where it was left, a new file says so, and `verify` reports it
        from then on: a gateway must start nevertheless."""
        problem, kept = "", None
        try:
            kept = read_head(self._data)
        except Damaged as error:
            problem = error.message
        last, hashes = self._read_end(None if kept is None else kept.n)
        if not problem:
            problem = _compare(kept, last, hashes)
        self.head = last if kept is None or last.n >= kept.n else kept
        if problem:
            _log.error("the audit log is not as it was left: see fairlead audit verify", extra={"problem": problem})
            self._file = None
            with contextlib.suppress(OSError):
                self.append([AuditEntry(n=0, at=now_ms, action=BROKEN, data={"problem": problem}, prev="", hash="")])
        elif kept != self.head:
            with contextlib.suppress(OSError):
                self._write_head()

    def _read_end(self, since: int | None) -> tuple[AuditHead, dict[int, str]]:
        """The last entry and, with `since`, the hashes of the last file's entries from that number on. Removes the
        beginning of an entry that was never acknowledged."""
        hashes: dict[int, str] = {}
        for path in reversed(audit_files(self._folder)):
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                _log.warning("an unfinished entry was removed from the audit log", extra={"file": path.name})
                os.truncate(path, len(whole))
            if not whole:
                path.unlink()
                continue
            self._file, self._size = path, len(whole)
            entries = [parse(line) for line in _last_lines(whole, since)]
            hashes = {entry.n: entry.hash for entry in entries if entry is not None}
            last = entries[-1]
            return (FIRST if last is None else AuditHead(last.n, last.hash)), hashes
        return FIRST, hashes

    # --- writing

    def append(self, entries: Sequence[AuditEntry]) -> list[AuditEntry]:
        """Number, chain and write these entries: all of them or none. Raises OSError."""
        sealed, lines, head = [], [], self.head
        for entry in entries:
            entry, line = seal(msgspec.structs.replace(entry, n=head.n + 1, prev=head.hash))
            sealed.append(entry)
            lines.append(line)
            head = AuditHead(entry.n, entry.hash)
        if self._file is None or self._size >= self._limit:
            self._file, self._size = self._folder / f"{self.head.n + 1:012d}{_SUFFIX}", 0
        before = self.head
        self._write(self._file, b"".join(lines), head)
        if not self._size:
            _log.info("audit file begun", extra={"file": self._file.name, "n": before.n, "hash": before.hash})
        self._size += sum(map(len, lines))
        return sealed

    def _write(self, path: Path, data: bytes, head: AuditHead) -> None:
        before = self.head
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(fd, left) :]
                if self._sync:
                    _sync_data(fd)
                self.head = head
                self._write_head()
            except OSError:
                # Half an entry would end the chain.
                self.head = before
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, self._size)
                    self._write_head()
                raise
        finally:
            os.close(fd)

    def _write_head(self) -> None:
        if self._head_fd < 0:
            self._head_fd = os.open(self._data / HEAD, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.pwrite(self._head_fd, msgspec.json.encode(self.head).ljust(_HEAD_BYTES - 1) + b"\n", 0)
        if self._sync:
            _sync_data(self._head_fd)

    def close(self) -> None:
        if self._head_fd >= 0:
            os.close(self._head_fd)
            self._head_fd = -1

    # --- reading

    def backwards(self, before: int | None) -> Iterator[AuditEntry]:
        """The entries below a number, newest first. Lines that are not entries are left out: `verify` reports them."""
        for path in reversed(audit_files(self._folder)):
            if before is not None and int(path.stem) >= before:
                continue
            with path.open("rb") as lines:
                entries = [entry for entry in map(parse, lines) if entry is not None]
            yield from (entry for entry in reversed(entries) if before is None or entry.n < before)


def export(data: Path) -> Iterator[bytes]:
    """The lines of the log, as they are stored."""
    for path in audit_files(data / FOLDER):
        with path.open("rb") as lines:
            yield from (line for line in lines if line.endswith(b"\n"))


def _last_lines(content: bytes, since: int | None) -> list[bytes]:
    """The last line and, with `since`, those before it as far as that entry."""
    lines = content.splitlines(keepends=True)
    found = [lines[-1]]
    for line in reversed(lines[:-1]):
        first = parse(found[0])
        if since is None or first is None or first.n <= since:
            break
        found.insert(0, line)
    return found


def _compare(kept: AuditHead | None, last: AuditHead, hashes: dict[int, str]) -> str:
    """What is wrong with the end of the log; empty if it is as it was left. Entries after the head are whole, and were
    written by a gateway that was killed before it could write the head."""
    if kept is None:
        return "its head is missing" if last.n else ""
    if last.n < kept.n:
        return f"it ends with entry {last.n}, but {kept.n} were written"
    if kept.n and hashes.get(kept.n) not in (kept.hash, None):
        return f"entry {kept.n} is not the one that was written"
    return ""
