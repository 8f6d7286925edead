"""The chain of the audit log: seals entries, and finds changed, removed and reordered ones. Pure.

A line is one entry as JSON, and ends with the field `hash`: the SHA-256, in hexadecimal digits, of the same line
without that field. The field `prev` before it is the hash of the preceding entry, so each hash depends on all earlier
entries.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.audit.api import AuditEntry, AuditHead

FIRST: Final = AuditHead()
"""The head of an empty log: `prev` of the first entry consists of zeros."""
MOST_PROBLEMS: Final = 20
"""Problems that one check reports: one is enough to distrust the rest."""

_FIELD: Final = b',"hash":"'
_TAIL: Final = len(_FIELD) + 64 + len(b'"}')
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(AuditEntry).decode


def seal(entry: AuditEntry) -> tuple[AuditEntry, bytes]:
    """The entry with its hash, and its line. `hash` of the argument is ignored."""
    # The fields are encoded in their order, and `hash` is the last one.
    body = _encode(msgspec.structs.replace(entry, hash="0" * 64))[:-_TAIL] + b"}"
    digest = hashlib.sha256(body).hexdigest()
    return msgspec.structs.replace(entry, hash=digest), body[:-1] + _FIELD + digest.encode() + b'"}\n'


def parse(line: bytes) -> AuditEntry | None:
    """The entry of a line, with or without its line break; None if it is not one, or its hash does not fit."""
    line = line.removesuffix(b"\n")
    try:
        entry = _decode(line)
    except (msgspec.DecodeError, ValueError):
        return None
    body = line[:-_TAIL] + b"}"
    fits = line[-_TAIL:] == _FIELD + entry.hash.encode() + b'"}' and hashlib.sha256(body).hexdigest() == entry.hash
    return entry if fits else None


class ChainCheck:
    """Checks lines in their order, then `finish` compares them with heads that were kept elsewhere.

    `after`: entries up to this number are not checked; a problem among them was seen and accepted."""

    def __init__(self, heads: Iterable[AuditHead] = (), after: int = 0) -> None:
        self.problems: list[str] = []
        self.last = FIRST
        self.entries = 0
        self._after = after
        self._heads: dict[int, set[str]] = {}
        for head in heads:
            self.expect(head)

    def expect(self, head: AuditHead) -> None:
        """Expect this entry too."""
        if head.n:
            self._heads.setdefault(head.n, set()).add(head.hash)

    def feed(self, line: bytes, where: str = "") -> None:
        entry = parse(line)
        if entry is None:
            # Without a number: the line says nothing that can be trusted.
            if self.last.n >= self._after:
                self.report(f"{where}: the line after entry {self.last.n} was changed, or is incomplete")
            return
        self.entries += 1
        if entry.n > self._after and (entry.n > self._after + 1 or self.last.n):
            self._check_link(entry, where)
        if self._heads.pop(entry.n, {entry.hash}) != {entry.hash}:
            self.report(f"{where}: entry {entry.n} is not the one that was recorded under this number")
        self.last = AuditHead(entry.n, entry.hash)

    def _check_link(self, entry: AuditEntry, where: str) -> None:
        wanted = max(self.last.n, self._after) + 1
        if entry.n > wanted:
            missing = f"entry {wanted}" if entry.n == wanted + 1 else f"entries {wanted} to {entry.n - 1}"
            self.report(f"{where}: missing before entry {entry.n}: {missing}")
        elif entry.n < wanted:
            self.report(f"{where}: entry {entry.n} comes after entry {self.last.n}")
        elif entry.prev != self.last.hash:
            self.report(f"{where}: entry {entry.n} does not follow from entry {self.last.n}, which was replaced")

    def finish(self) -> None:
        for n in sorted(self._heads):
            if n > self.last.n:
                self.report(f"the log ends with entry {self.last.n}, but entry {n} was written: the end was cut off")
            else:
                self.report(f"entry {n}, which was recorded elsewhere, is not in the log")

    def report(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem.removeprefix(": "))
