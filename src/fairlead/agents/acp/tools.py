"""The tools of ACP agents: their calls in the words of the policy and of clients. Pure.

ACP has kinds of calls (execute, edit, read) but no common names of tools and arguments, and some agents send no
arguments at all. A call gets the name that rules use (`Bash`, `Edit`, `Read`) and the argument that they compare. If
this mapping is not certain, the call is not `certain`: the policy may deny it, but only a person allows it.
"""

import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.agents.acp.wire import as_dict, as_dicts, as_text
from fairlead.agents.common_tools import COMMON_TOOLS, QUESTION, TODOS
from fairlead.model.tools import ToolCatalogue

CATALOGUE: Final = ToolCatalogue(
    tools={name: COMMON_TOOLS[name] for name in ("Bash", "Read", "Write", "Edit", "Grep", "WebFetch", QUESTION, TODOS)},
    prose=frozenset({"content", "old_string", "new_string", "diff", "todos", "questions", "answers", "description"}),
)

OWN_FILES: Final = frozenset(
    {".gemini", ".codex", ".opencode", "opencode.json", "opencode.jsonc", ".goose", ".goosehints", ".qwen"}
)
"""The files and folders that configure the agents people use with ACP."""

HOME_FOLDERS: Final = (
    *(".gemini", ".codex", ".qwen", ".opencode", ".config/opencode", ".local/share/opencode", ".local/state/opencode"),
    *(".config/goose", ".local/share/goose", ".local/state/goose"),
)
"""Where these agents keep their conversations and credentials."""

_PATHS: Final = ("file_path", "filePath", "filepath", "absolute_path", "path", "abs_path")
"""Names of the argument with the path, by agent."""

_NAMES: Final = {"delete": "Delete", "move": "Move", "think": "Think", "switch_mode": "SwitchMode"}


class MappedCall(msgspec.Struct, frozen=True):
    """A call with the name and the input that the policy and clients know."""

    name: str
    input: dict[str, Any]
    certain: bool


def map_call(call: Mapping[str, Any], cwd: str, *, trusts_titles: bool = False) -> MappedCall:
    """Map the fields of a `tool_call`, with its updates merged. `trusts_titles`: the title of a shell call is its whole
    command."""
    given = as_dict(call.get("rawInput"))
    match call.get("kind"):
        case "execute":
            return _shell(call, given, cwd, trusts_titles=trusts_titles)
        case "read":
            return _read(call, given)
        case "edit":
            return _edit(call, given)
        case "search":
            path = _path(given) or cwd
            return MappedCall("Grep", {**given, "path": path}, bool(given) and len(_places(call, given)) <= 1)
        case "fetch" if isinstance(given.get("url"), str):
            return MappedCall("WebFetch", given, certain=True)
        case kind:
            return _other(call, given, as_text(kind))


def _shell(call: Mapping[str, Any], given: dict[str, Any], cwd: str, *, trusts_titles: bool) -> MappedCall:
    command = given.get("command")
    if isinstance(command, list):
        command = shlex.join(str(part) for part in command)
    folder = as_text(given.get("cwd")) or as_text(given.get("workdir")) or _folder(call)
    certain = folder in ("", cwd)
    if not isinstance(command, str) or not command:
        command, certain = as_text(call.get("title")), certain and trusts_titles
    return MappedCall("Bash", {**given, "command": command}, certain)


_FOLDER: Final = "[current working directory "


def _folder(call: Mapping[str, Any]) -> str:
    """The folder of a shell call, if the agent describes it in the call's content (Gemini CLI)."""
    text = text_of(call.get("content"))
    return text.removeprefix(_FOLDER).split("]", 1)[0] if text.startswith(_FOLDER) else ""


def _read(call: Mapping[str, Any], given: dict[str, Any]) -> MappedCall:
    places = _places(call, given)
    if len(places) != 1:
        return MappedCall("Read", {**given, "paths": sorted(places)}, certain=False)
    return MappedCall("Read", {**given, "file_path": places.pop()}, certain=True)


def _edit(call: Mapping[str, Any], given: dict[str, Any]) -> MappedCall:
    places, diffs = _places(call, given), diffs_of(call)
    if len(places) != 1:
        return MappedCall("Edit", {**given, "paths": sorted(places)}, certain=False)
    (path,) = places
    if len(diffs) != 1:
        # The arguments of the call itself: clients show them, and the path is what the policy needs.
        old, new = as_text(given.get("oldString")), as_text(given.get("newString"))
        change = {"old_string": old, "new_string": new} if old or new else {}
        name = "Write" if not change and isinstance(given.get("content"), str) else "Edit"
        return MappedCall(name, {**given, **change, "file_path": path}, certain=True)
    old, new = as_text(diffs[0].get("oldText")), as_text(diffs[0].get("newText"))
    if not old:
        return MappedCall("Write", {"file_path": path, "content": new}, certain=True)
    return MappedCall("Edit", {"file_path": path, "old_string": old, "new_string": new}, certain=True)


def _other(call: Mapping[str, Any], given: dict[str, Any], kind: str) -> MappedCall:
    title = as_text(call.get("title"))
    todos = as_dicts(given.get("todos"))
    if todos:
        return MappedCall(TODOS, {"todos": [_todo(item) for item in todos]}, certain=True)
    name = as_text(call.get("name")) or _NAMES.get(kind, "Tool")
    places = sorted(_places(call, given))
    return MappedCall(name, {**given, "title": title, **({"paths": places} if places else {})}, certain=False)


def todo_input(entries: Any) -> dict[str, Any]:
    """The entries of a plan as the input of the tool that clients know for lists of tasks."""
    return {"todos": [_todo(entry) for entry in as_dicts(entries)]}


def _todo(entry: Mapping[str, Any]) -> dict[str, str]:
    content = as_text(entry.get("content"))
    return {"content": content, "status": as_text(entry.get("status")) or "pending", "activeForm": content}


def _path(given: Mapping[str, Any]) -> str:
    return next((value for name in _PATHS if (value := as_text(given.get(name)))), "")


def _places(call: Mapping[str, Any], given: Mapping[str, Any]) -> set[str]:
    """All paths that the call names."""
    named = {_path(given), *(as_text(place.get("path")) for place in as_dicts(call.get("locations")))}
    return (named | {as_text(diff.get("path")) for diff in diffs_of(call)}) - {""}


def diffs_of(call: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [item for item in as_dicts(call.get("content")) if item.get("type") == "diff"]


def text_of(content: Any) -> str:
    """The text of a call's content or of a message's block."""
    if isinstance(content, dict):
        if content.get("type") == "text":
            return as_text(content.get("text"))
        if content.get("type") == "resource_link":
            return f"[{as_text(content.get('name'))}]({as_text(content.get('uri'))})"
        if content.get("type") == "resource":
            return as_text(as_dict(content.get("resource")).get("text"))
        return text_of(content.get("content")) if "content" in content else ""
    return "\n".join(filter(None, map(text_of, as_dicts(content))))
