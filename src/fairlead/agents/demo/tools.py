"""The demo agent's tools. They really run, inside the session's directory, after permission was given.

Rule: a tool gets its checked input and returns an outcome; permissions, records and transcripts are handled elsewhere.
Cancelling a tool ends the processes that it started.
"""

import asyncio
import contextlib
import difflib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.agents.demo.records import Record

# The real CLI's default for Bash; a script's command is short, a typed one may hang.
BASH_LIMIT = 120.0
# The maximum output of one command; more is cut, because the model would not receive more.
OUTPUT_LIMIT = 30_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a tool: `content` is for the model, `detail` is the tool's own structure."""

    content: Any
    detail: Any
    is_error: bool | None = None
    """None leaves the field out of the tool result, as most tools of the real CLI do."""


class ToolFailed(Exception):
    """The tool failed. Carries the message for the model."""


_running: set[int] = set()
"""Process groups of commands that run now."""


def kill_all() -> None:
    """Kill every running command; for a process that is about to exit."""
    for group in {*_running, *_children()}:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _children() -> set[int]:
    """Commands that run already although asyncio has not returned them yet: each leads its own process group."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found


async def bash(arguments: Record, cwd: str) -> Outcome:
    """Run one command in its own process group, for at most its time limit."""
    command = str(arguments.get("command", ""))
    limit = float(arguments.get("timeout") or BASH_LIMIT * 1000) / 1000
    process = await asyncio.create_subprocess_exec(
        "/bin/bash",
        "-c",
        command,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    _running.add(process.pid)
    try:
        async with asyncio.timeout(limit):  # unlike wait_for, never swallows an interrupt
            out, err = await process.communicate()
    except TimeoutError:
        raise ToolFailed(f"Command timed out after {limit:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        _running.discard(process.pid)
    stdout, stderr = (text.decode("utf-8", "replace").rstrip("\n")[:OUTPUT_LIMIT] for text in (out, err))
    if process.returncode:
        raise ToolFailed("\n".join(filter(None, (f"Exit code {process.returncode}", stdout, stderr))))
    text = "\n".join(filter(None, (stdout, stderr))) or "(Bash completed with no output)"
    return Outcome(text, bash_detail(stdout, stderr), is_error=False)


def bash_detail(stdout: str = "", stderr: str = "") -> Record:
    return {"stdout": stdout, "stderr": stderr, "interrupted": False, "isImage": False}


def read(arguments: Record, cwd: str) -> Outcome:
    path = _path(arguments, cwd)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise ToolFailed(f"File does not exist. Note: your current working directory is {cwd}.") from None
    lines = text.split("\n")
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
    count = len(lines)
    file = {"filePath": str(path), "content": text, "numLines": count, "startLine": 1, "totalLines": count}
    return Outcome(numbered[:OUTPUT_LIMIT], {"type": "text", "file": file})


def write(arguments: Record, cwd: str) -> Outcome:
    path = _path(arguments, cwd)
    content = str(arguments.get("content", ""))
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ToolFailed(f"Cannot write {path}: {error.strerror}") from None
    detail = {
        "type": "create" if before is None else "update",
        "filePath": str(path),
        "content": content,
        "structuredPatch": [] if before is None else _patch(before, content),
        "originalFile": before,
        "userModified": False,
    }
    return Outcome(f"File {'created' if before is None else 'updated'} successfully at: {path}", detail)


def edit(arguments: Record, cwd: str) -> Outcome:
    path = _path(arguments, cwd)
    old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
    try:
        before = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ToolFailed(f"File does not exist. Note: your current working directory is {cwd}.") from None
    if not old or old not in before:
        raise ToolFailed(f"String to replace not found in file.\nString: {old}")
    every = bool(arguments.get("replace_all"))
    after = before.replace(old, new, -1 if every else 1)
    path.write_text(after, encoding="utf-8")
    detail = {
        "filePath": str(path),
        "oldString": old,
        "newString": new,
        "originalFile": before,
        "structuredPatch": _patch(before, after),
        "userModified": False,
        "replaceAll": every,
    }
    return Outcome(f"The file {path} has been updated successfully.", detail)


def glob(arguments: Record, cwd: str) -> Outcome:
    names = sorted(str(p) for p in Path(cwd).glob(str(arguments.get("pattern") or "*")))[:100]
    detail = {"filenames": names, "numFiles": len(names), "truncated": False}
    return Outcome("\n".join(names) or "No files found", detail)


def todo_write(arguments: Record, todos: list[Record]) -> Outcome:
    before = list(todos)
    todos[:] = arguments.get("todos") or []
    return Outcome("The todos have been changed.", {"oldTodos": before, "newTodos": list(todos)})


ON_FILES = {"Read": read, "Write": write, "Edit": edit, "Glob": glob}


def absolute(tool: str, arguments: Record, cwd: str) -> Record:
    """The input for the permission request and the run: absolute file paths, defaults filled in."""
    if tool not in ("Read", "Write", "Edit"):
        return {} if tool == "ExitPlanMode" else arguments
    whole = {**arguments, "file_path": str(_path(arguments, cwd))}
    if tool == "Edit":
        whole.setdefault("replace_all", False)
    return whole


def _path(arguments: Record, cwd: str) -> Path:
    return Path(os.path.normpath(os.path.join(cwd, str(arguments.get("file_path", "")))))


def _patch(before: str, after: str) -> list[Record]:
    """One hunk over the whole change, in the form the real CLI gives."""
    old, new = before.splitlines(), after.splitlines()
    lines = [line for line in difflib.ndiff(old, new) if line[0] != "?"]
    shown = [line[0] + line[2:] for line in lines]
    return [{"oldStart": 1, "oldLines": len(old), "newStart": 1, "newLines": len(new), "lines": shown}]
