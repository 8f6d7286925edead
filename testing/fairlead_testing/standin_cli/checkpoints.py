"""The CLI's file checkpoints: what Write and Edit changed, for `rewind_files`."""

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Checkpoints:
    """The files that Write and Edit changed in this process, as they were before, for `rewind_files`."""

    def __init__(self) -> None:
        self._prompts: dict[str, int] = {}
        """How many changes came before each prompt."""
        self._changes: list[tuple[Path, bytes | None]] = []
        """Each file with its content before the change; None if there was no such file."""

    def add_prompt(self, uuid: str) -> None:
        self._prompts[uuid] = len(self._changes)

    def add_change(self, path: Path) -> None:
        self._changes.append((path, path.read_bytes() if path.is_file() else None))

    def rewind(self, uuid: str, *, dry_run: bool) -> Record:
        """Restore the files to their state when this prompt came; a dry run only reports what would change.

        Raises LookupError or OSError."""
        if uuid not in self._prompts:
            raise LookupError("No file checkpoint found for this message.")
        # The first state that was stored since the prompt is the state at the prompt.
        states = dict(reversed(self._changes[self._prompts[uuid] :]))
        if dry_run:
            return {"canRewind": True, **_differences(states)}
        for path, content in states.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        return {"canRewind": True}


def _differences(states: dict[Path, bytes | None]) -> Record:
    """The files that are not in these states, and the numbers of lines that would be added and removed."""
    signs: Counter[str] = Counter()
    changed: list[str] = []
    for path, content in states.items():
        now = path.read_bytes() if path.is_file() else b""
        if now != (content or b""):
            changed.append(str(path))
            before, after = (data.decode("utf-8", "replace").splitlines() for data in (now, content or b""))
            signs.update(line[0] for line in difflib.ndiff(before, after))
    return {"filesChanged": changed, "insertions": signs["+"], "deletions": signs["-"]}
