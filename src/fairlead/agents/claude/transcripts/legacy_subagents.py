"""Subagent files in the same folder as their session's file, as versions up to 2.0 wrote them.

Their rows name the session. Each file is opened once, because its session never changes; a file whose rows do not name
one yet is read again.
"""

import os
from pathlib import Path

from fairlead.agents.claude.transcripts.file_reader import opened
from fairlead.agents.claude.transcripts.identity import identify
from fairlead.agents.claude.transcripts.repair import read_line
from fairlead.agents.claude.wire.records import as_text
from fairlead.model.ids import is_uuid

HEAD = 64 << 10
"""Bytes that contain the first row, which has the subagent's prompt and names its session."""


def is_subagents(name: str) -> bool:
    return name.startswith("agent-") and name.endswith(".jsonl")


class LegacySubagents:
    def __init__(self) -> None:
        self._owners: dict[Path, str] = {}
        self._folders: dict[Path, tuple[int, list[Path]]] = {}
        self._unsure: set[Path] = set()

    def owner(self, path: Path) -> str:
        """The session that a subagent's file belongs to; empty while that is not known."""
        known = self._owners.get(path)
        if known is None:
            known = _read(path)
            if known is None:
                self._unsure.add(path)
            else:
                self._owners[path] = known
                self._unsure.discard(path)
        return known or ""

    def has_unknown_owner(self, folder: Path) -> bool:
        """Whether the folder has a file whose session is not known yet."""
        return any(path.parent == folder for path in self._unsure)

    def files(self, folder: Path, session: str) -> dict[str, Path]:
        """The files of a session's subagents in a folder, by name."""
        return {path.name: path for path in self._all(folder) if self.owner(path) == session}

    def _all(self, folder: Path) -> list[Path]:
        """All subagent files of a folder. Cached by the folder's mtime, which changes exactly when its names do."""
        try:
            changed = folder.stat().st_mtime_ns
            known = self._folders.get(folder)
            if known is None or known[0] != changed:
                with os.scandir(folder) as entries:
                    found = sorted(entry.name for entry in entries if is_subagents(entry.name))
                known = self._folders[folder] = (changed, [folder / name for name in found])
                self._unsure = {path for path in self._unsure if path.parent != folder or path in known[1]}
        except OSError:
            return []
        return known[1]


def _read(path: Path) -> str | None:
    """The session named in a file; None if its rows do not name one yet, empty if they never will."""
    try:
        with opened(path) as descriptor:
            try:
                head = os.pread(descriptor, HEAD, 0)
            except OSError:
                return ""  # it is not a file
    except OSError:
        return None
    for owner in (as_text(identify(row.raw).sessionId) for line in head.split(b"\n") for row in read_line(line).rows):
        if is_uuid(owner.lower()):
            return owner.lower()
    return None if len(head) < HEAD else ""
