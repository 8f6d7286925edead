"""The demo agent's tools. They really run, inside the session's directory, after permission was given.

A tool returns its result for the model and its structured result. Cancelling a tool ends the processes that it started.
"""

import asyncio
import contextlib
import os
import signal
import uuid
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.common_tools import COMMON_TOOLS, PLAN, QUESTION, TODOS
from fairlead.model.ids import SubagentId
from fairlead.model.tools import Tool, ToolCatalogue

Record = dict[str, Any]

NAMES = ("Agent", QUESTION, "Bash", "Edit", PLAN, "Glob", "Read", TODOS, "Write")
CATALOGUE = ToolCatalogue(
    tools={**COMMON_TOOLS, "Agent": Tool(effect="harmless", argument="subagent_type", coordinates=True)},
    prose=frozenset({"content", "old_string", "new_string", "prompt", "description", "todos", "questions", "plan"}),
)

# The real CLI's default for Bash; a script's command is short, a typed one may hang.
BASH_LIMIT = 120.0
# The maximum output of one command; more is cut, because the model would not receive more.
OUTPUT_LIMIT = 30_000

Outcome = tuple[Any, Any]
"""The result for the model, and the tool's own structure."""


def text_of(content: Any) -> str:
    return " ".join(str(block.get("text", "")) for block in content) if isinstance(content, list) else str(content)


class ToolRun(msgspec.Struct, frozen=True):
    """A call that a thread makes. `subagent` is the thread's, if it is not the main one."""

    call: str
    name: str
    input: Record
    subagent: SubagentId | None


class ToolFailed(Exception):
    """The tool failed, or may not run. Carries the message for the model."""


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
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/bash", "-c", command, cwd=cwd, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        raise ToolFailed(f"Cannot run the command: {error.strerror}") from None
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
    return text, {"stdout": stdout, "stderr": stderr, "interrupted": False}


def read(arguments: Record, cwd: str) -> Outcome:
    path = _path(arguments, cwd)
    text = _content(path, cwd)
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(text.split("\n"), 1))
    return numbered[:OUTPUT_LIMIT], {"type": "text", "file": {"filePath": str(path), "content": text}}


def write(arguments: Record, cwd: str) -> Outcome:
    path = _path(arguments, cwd)
    content = str(arguments.get("content", ""))
    before = _content(path, cwd) if path.is_file() else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ToolFailed(f"Cannot write {path}: {error.strerror}") from None
    kind, done = ("create", "created") if before is None else ("update", "updated")
    detail = {"type": kind, "filePath": str(path), "content": content, "originalFile": before}
    return f"File {done} successfully at: {path}", detail


def edit(arguments: Record, cwd: str) -> Outcome:
    path = _path(arguments, cwd)
    old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
    before = _content(path, cwd, errors="strict")
    if not old or old not in before:
        raise ToolFailed(f"String to replace not found in file.\nString: {old}")
    path.write_text(before.replace(old, new, -1 if arguments.get("replace_all") else 1), encoding="utf-8")
    detail = {"filePath": str(path), "oldString": old, "newString": new, "originalFile": before}
    return f"The file {path} has been updated successfully.", detail


def glob(arguments: Record, cwd: str) -> Outcome:
    names = sorted(str(p) for p in Path(cwd).glob(str(arguments.get("pattern") or "*")))[:100]
    return "\n".join(names) or "No files found", {"filenames": names, "numFiles": len(names)}


def absolute(tool: str, arguments: Record, cwd: str) -> Record:
    """The input for the permission request and the run: absolute file paths."""
    return {**arguments, "file_path": str(_path(arguments, cwd))} if tool in ("Read", "Write", "Edit") else arguments


def _path(arguments: Record, cwd: str) -> Path:
    return Path(os.path.normpath(os.path.join(cwd, str(arguments.get("file_path", "")))))


def _content(path: Path, cwd: str, errors: str = "replace") -> str:
    try:
        return path.read_text(encoding="utf-8", errors=errors)
    except (OSError, UnicodeDecodeError):
        raise ToolFailed(f"File does not exist. Note: your current working directory is {cwd}.") from None


class Checkpoints:
    """The files that Write and Edit changed in this process, as they were before, for `rewind`."""

    def __init__(self) -> None:
        self._prompts: dict[str, int] = {}
        """How many changes came before each prompt."""
        self._changes: list[tuple[Path, bytes | None]] = []
        """Each file with its content before the change; None if there was no such file."""

    def add_prompt(self, message: str) -> None:
        self._prompts[message] = len(self._changes)

    def add_change(self, path: Path) -> None:
        self._changes.append((path, _bytes(path)))

    def rewind(self, message: str, *, dry_run: bool) -> Record:
        """Restore the files to their state when this prompt came; a dry run only reports what would change.

        Raises LookupError or OSError."""
        if message not in self._prompts:
            raise LookupError("No file checkpoint found for this message.")
        # The first state that was stored since the prompt is the state at the prompt.
        states = dict(reversed(self._changes[self._prompts[message] :]))
        changed = {path: content for path, content in states.items() if _bytes(path) != content}
        for path, content in changed.items() if not dry_run else ():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        return {"canRewind": True, "filesChanged": [str(path) for path in changed]}


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


SIMPLE: dict[str, Callable[[Record, str], Outcome]] = {
    "Read": read,
    "Write": write,
    "Edit": edit,
    "Glob": glob,
    TODOS: lambda given, _: ("The todos have been changed.", {"newTodos": given.get("todos") or []}),
    "StructuredOutput": lambda given, _: ("Structured output provided successfully", given),
}
