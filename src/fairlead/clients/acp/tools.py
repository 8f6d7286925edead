"""Tool calls in the words of editors: a title, a kind, the files, diffs and results. Pure."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from fairlead.clients.acp.wire import Fields
from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock, content_blocks

TODOS: Final = "TodoWrite"
"""The tool whose input is the list of tasks: editors show it as the plan, not as a call."""

TITLE_LENGTH: Final = 500
RAW_BYTES: Final = 64 << 10
"""Maximum size of a raw input or output that only repeats what is shown: an edit's may contain the whole file."""

_KINDS: Final = {
    "Read": "read",
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "edit"),
    "Delete": "delete",
    "Move": "move",
    **dict.fromkeys(("Bash", "BashOutput", "KillShell"), "execute"),
    **dict.fromkeys(("Grep", "Glob", "LS"), "search"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    **dict.fromkeys(("Task", "Agent", "Think", TODOS), "think"),
    **dict.fromkeys(("ExitPlanMode", "SwitchMode"), "switch_mode"),
}
_ARGUMENTS: Final = ("command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description", "title")
"""The arguments that name the object of a call, the best first."""
_PATHS: Final = ("file_path", "notebook_path", "path")
_TEXT_ALONE: Final = frozenset({"Bash", "Task", "Agent"})
"""Tools whose argument is a title by itself."""


def tool_kind(name: str) -> str:
    return _KINDS.get(name, "other")


def title_of(name: str, given: Mapping[str, Any], cwd: str = "") -> str:
    """A title for people: the command, or the tool with the file, pattern or address. A file in the session's folder
    has its path from there."""
    named = ("description",) if name in ("Task", "Agent") else _ARGUMENTS
    argument = next((text for key in named if (text := _text(given.get(key)))), "")
    if cwd and argument.startswith(f"{cwd}/"):
        argument = argument.removeprefix(f"{cwd}/")
    title = argument if argument and name in _TEXT_ALONE else f"{name} {argument}".strip()
    return (title or "Tool")[:TITLE_LENGTH]


def call_fields(name: str, given: Mapping[str, Any], cwd: str) -> Fields:
    """The fields that describe a call, as `tool_call` and permission requests have them."""
    fields: Fields = {"title": title_of(name, given, cwd), "name": name, "kind": tool_kind(name)}
    path = _path(given, cwd)
    if path:
        fields["locations"] = [{"path": path}]
        if diffs := _diffs(name, given, path):
            fields["content"] = diffs
    # Without a diff, the input is all that shows what the call does.
    if "content" not in fields or _is_small(given):
        fields["rawInput"] = given
    return fields


def _is_small(value: Any) -> bool:
    return len(msgspec.json.encode(value)) <= RAW_BYTES


def _path(given: Mapping[str, Any], cwd: str) -> str:
    """The file of a call as an absolute path; empty if it has none."""
    path = next((text for key in _PATHS if (text := _text(given.get(key)))), "")
    whole = PurePosixPath(cwd) / path if path else PurePosixPath()
    return str(whole) if path and whole.is_absolute() else ""


def _diffs(name: str, given: Mapping[str, Any], path: str) -> list[Fields]:
    match name:
        case "Write":
            return [_diff(path, None, given.get("content"))]
        case "Edit":
            return [_diff(path, given.get("old_string"), given.get("new_string"))]
        case "MultiEdit":
            edits = given.get("edits")
            listed = [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []
            return [_diff(path, edit.get("old_string"), edit.get("new_string")) for edit in listed]
        case "NotebookEdit":
            return [_diff(path, None, given.get("new_source"))]
        case _:
            return []


def _diff(path: str, old: Any, new: Any) -> Fields:
    before = {"oldText": old} if isinstance(old, str) else {}
    return {"type": "diff", "path": path, **before, "newText": _text(new)}


def result_fields(name: str, content: Any, data: Any, *, failed: bool) -> Fields:
    """The result of a call. The diff of an edit that succeeded stays: `content` would replace it."""
    fields: Fields = {}
    shown = [{"type": "content", "content": block} for block in map(acp_block, content_blocks(content)) if block]
    if shown and (failed or tool_kind(name) != "edit"):
        fields["content"] = shown
    output = content if data is None else data
    if output is not None and _is_small(output):
        fields["rawOutput"] = output
    return fields


def acp_block(block: Content) -> Fields | None:
    """A block of a message or of a result in ACP's form; None for a block that it does not have."""
    match block:
        case TextBlock(text=text) if text:
            return {"type": "text", "text": text}
        case ImageBlock(source={"type": "base64", "data": str(data), "media_type": str(kind)}):
            return {"type": "image", "data": data, "mimeType": kind}
        case OtherBlock(data={"type": "document", **fields}):
            return {"type": "text", "text": f"[{_text(fields.get('title')) or 'document'}]"}
        case _:
            return None


def plan_entries(given: Mapping[str, Any]) -> list[Fields]:
    """The entries of a plan, from the input of the tool for lists of tasks."""
    todos = given.get("todos")
    listed = [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
    return [
        {
            "content": _text(todo.get("content")),
            "priority": todo["priority"] if todo.get("priority") in ("high", "medium", "low") else "medium",
            "status": todo["status"] if todo.get("status") in ("in_progress", "completed") else "pending",
        }
        for todo in listed
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
