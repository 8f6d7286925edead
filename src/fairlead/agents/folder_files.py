"""The report about the files with which a folder configures its agents, for a person to read before trusting it.

It only reads, and only files that an agent itself would read.
"""

import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from fairlead.sessions.api.folders import FolderReport

SHOWN_FILES: Final = 2000
"""The report lists this many files; the digest covers all of them."""

Finding = tuple[str, Any]
"""A list of `FolderReport`, and an item for it."""


def describe_files(
    root: Path, files: Iterable[tuple[str, Path]], explain: Callable[[str, Path], Iterable[Finding]]
) -> FolderReport:
    """The report about these files of a folder: each by its name as shown and its path, in a fixed order."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    digest = hashlib.sha256()
    hidden = 0
    for name, path in files:
        digest.update(f"{name}\0{_content_digest(path)}\0".encode("utf-8", "surrogateescape"))
        if len(found["files"]) < SHOWN_FILES:
            found["files"].append(name)
            for kind, item in explain(name, path):
                found[kind].append(item)
        else:
            hidden += 1
    if hidden:
        found["other"].append(f"and {hidden} more files")
    facts: dict[str, Any] = {kind: tuple(items) for kind, items in found.items()}
    return FolderReport(path=str(root), digest=digest.hexdigest(), **facts)


def merge_reports(reports: Sequence[FolderReport]) -> FolderReport:
    """One report about the same folder for several agents. Those that found nothing change nothing."""
    first, *others = reports
    others = [report for report in others if report.files]
    if not others:
        return first
    merged = [first, *others]
    digest = hashlib.sha256("\0".join(dict.fromkeys(report.digest for report in merged)).encode())
    lists = ("files", "hooks", "mcp_servers", "environment", "permissions", "other")
    facts: dict[str, Any] = {name: _joined(getattr(report, name) for report in merged) for name in lists}
    return FolderReport(path=first.path, digest=digest.hexdigest(), **facts)


def _joined(lists: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    joined: list[Any] = []
    for items in lists:
        joined.extend(item for item in items if item not in joined)
    return tuple(joined)


def walk(root: Path, tree: str) -> Iterator[tuple[str, Path]]:
    """The files below a folder, following symbolic links as agents do, each folder once."""
    seen = set()
    for parent, folders, names in os.walk(root / tree, followlinks=True):
        here = os.path.realpath(parent)
        if here in seen:
            folders.clear()
            continue
        seen.add(here)
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            if is_file(path):
                yield str(path.relative_to(root)), path


def is_file(path: Path) -> bool:
    """Whether this is a regular file, possibly behind a link: reading a pipe or a device would hang."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _content_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "not readable"
