"""Lists the session files under the Claude homes and summarizes each. Reads only the two ends of a file.

Nothing is copied or written. An unreadable folder, a loop of links or a name that is not an id is reported as a problem
of that one entry; the scan continues.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fairlead.agents.claude.transcripts.file_reader import opened
from fairlead.agents.claude.transcripts.summary import HEAD, PROMPT_LENGTH, TAIL, summarize
from fairlead.model.ids import SessionId, is_uuid
from fairlead.model.transcripts import FileMark, FoundTranscript, TranscriptProblem

SUFFIX = ".jsonl"
PROJECTS = "projects"


def session_of(path: Path) -> SessionId | None:
    """The session id in a file's name; None for any other file."""
    stem = path.name.removesuffix(SUFFIX)
    return SessionId(stem) if path.name.endswith(SUFFIX) and is_uuid(stem) else None


def projects(homes: Sequence[Path]) -> list[Path]:
    """The folders that contain one folder per project."""
    return [home / PROJECTS for home in homes]


def project_folders(root: Path) -> list[Path]:
    """The folders below `root`, without unreadable ones."""
    return [entry for entry in list_entries(root, folders=True) if isinstance(entry, Path)]


def session_files(folder: Path) -> Iterator[tuple[SessionId, Path]]:
    """The session files of one project, without unreadable ones."""
    for entry in list_entries(folder, folders=False):
        if isinstance(entry, Path) and (session := session_of(entry)) is not None:
            yield session, entry


def list_entries(folder: Path, *, folders: bool) -> Iterator[Path | TranscriptProblem]:
    """The folders or the files in a folder, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield _unreadable(folder, error)
        return
    for entry in found:
        try:
            if entry.is_dir() == folders:
                yield Path(entry.path)
        except OSError as error:
            yield _unreadable(Path(entry.path), error)


def _unreadable(path: Path, error: OSError) -> TranscriptProblem:
    return TranscriptProblem("unreadable", str(path), detail=error.strerror or "")


def mark_of(path: Path) -> FileMark:
    """The identity of a file's current content. Raises OSError."""
    status = path.stat()
    return FileMark(str(path), status.st_size, status.st_mtime_ns)


def summarize_file(path: Path, session: SessionId | None = None) -> FoundTranscript | TranscriptProblem:
    """Summarize a file; `session` is its session when the name does not contain it."""
    try:
        with opened(path) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return TranscriptProblem("unreadable", str(path), detail="not a file")
            if status.st_size <= HEAD + TAIL:
                summary = summarize(os.pread(descriptor, HEAD + TAIL, 0))
            else:
                summary = summarize(os.pread(descriptor, HEAD, 0), os.pread(descriptor, TAIL, status.st_size - TAIL))
    except OSError as error:
        return _unreadable(path, error)
    name = session or session_of(path) or summary.session.lower()
    if not is_uuid(name):
        return TranscriptProblem("bad id", str(path), detail=name[:80])
    written = status.st_mtime_ns // 1_000_000
    return FoundTranscript(
        session=SessionId(name),
        mark=FileMark(str(path), status.st_size, status.st_mtime_ns),
        useful=summary.useful,
        title=summary.title,
        cwd=summary.cwd,
        branch=summary.branch,
        first_prompt=summary.first_prompt[:PROMPT_LENGTH],
        model=summary.model,
        version=summary.version,
        created=summary.created or written,
        updated=summary.updated or written,
        active=summary.active or written,
        prompts=summary.prompts,
        cost_usd=summary.cost_usd,
        sidechain=summary.sidechain is True,
        root=summary.root,
        parent=summary.parent.lower(),
    )


def scan_folder(
    folder: Path, known: Mapping[str, FileMark]
) -> tuple[dict[SessionId, Path], list[FoundTranscript | TranscriptProblem]]:
    """Return (every session of a project and its file, the summaries of files that are new or changed since `known`)"""
    files: dict[SessionId, Path] = {}
    summaries: list[FoundTranscript | TranscriptProblem] = []
    for entry in list_entries(folder, folders=False):
        if isinstance(entry, TranscriptProblem):
            summaries.append(entry)
        elif (session := session_of(entry)) is not None:
            files[session] = entry
            try:
                if known.get(session) != mark_of(entry):
                    summaries.append(summarize_file(entry, session))
            except OSError as error:
                summaries.append(_unreadable(entry, error))
    return files, summaries
