"""The state of files before tools changed them, so that `rewind_files` can restore them.

Rule: only files that Write and Edit changed in this process; kept in memory, because the demo's files are small.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class NoCheckpoint(Exception):
    """There is no checkpoint for that message. Carries the message for the host."""


@dataclass(frozen=True, slots=True)
class _Before:
    prompt: int
    path: Path
    content: bytes | None
    """None: there was no such file."""


class Checkpoints:
    """The files' states before each prompt."""

    def __init__(self) -> None:
        self._prompts: dict[str, int] = {}
        self._changes: list[_Before] = []

    def prompt(self, uuid: str) -> None:
        """Assign changes from now on to this prompt."""
        self._prompts[uuid] = len(self._prompts)

    def about_to_change(self, path: Path) -> None:
        content = path.read_bytes() if path.is_file() else None
        self._changes.append(_Before(len(self._prompts) - 1, path, content))

    def rewind(self, uuid: str, *, dry_run: bool) -> dict[str, Any]:
        """Restore the files to their state when this prompt came; a dry run only reports what would change."""
        if uuid not in self._prompts:
            raise NoCheckpoint("No file checkpoint found for this message.")
        # The first state that was stored since the prompt is the state at the prompt.
        states: dict[Path, bytes | None] = {}
        for change in self._changes:
            if change.prompt >= self._prompts[uuid]:
                states.setdefault(change.path, change.content)
        if not dry_run:
            for path, content in states.items():
                _put_back(path, content)
            return {"canRewind": True, "skippedLinks": 0}
        now = {path: path.read_bytes() if path.is_file() else b"" for path in states}
        changed = [path for path, content in states.items() if now[path] != (content or b"")]
        added = removed = 0
        for path in changed:
            plus, minus = _difference(now[path], states[path] or b"")
            added, removed = added + plus, removed + minus
        names = [str(path) for path in changed]
        return {"canRewind": True, "filesChanged": names, "insertions": added, "deletions": removed}


def _put_back(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content)


def _difference(now: bytes, then: bytes) -> tuple[int, int]:
    lines = list(difflib.ndiff(now.decode("utf-8", "replace").split("\n"), then.decode("utf-8", "replace").split("\n")))
    return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)
