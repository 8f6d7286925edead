"""Reports the effects of a folder's own files on the CLI, for a person to read before trusting the folder.

It only reads, and only files that the CLI itself would read. Measured: hooks, permissions and variables come from the
folder's own settings; MCP servers, agents, commands and skills also from its parent folders. A hook may call any
other file of the project: the report shows the call, but not the effects of that file.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agents.folder_files import Finding, describe_files, is_file, walk
from fairlead.model.formats.frames import decode_or_none
from fairlead.sessions.api.folders import FolderReport

SETTINGS: Final = (".claude/settings.json", ".claude/settings.local.json")
SERVERS: Final = ".mcp.json"
TEXTS: Final = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md")
_FOLDERS: Final = ("agents", "commands", "hooks", "output-styles", "plugins", "rules", "skills")
TREES: Final = tuple(f".claude/{name}" for name in _FOLDERS)
"""Folders whose files the CLI reads or runs. Not all of `.claude`: worktrees in it are whole checkouts."""

MOST_BYTES: Final = 4 << 20
"""Size limit of a file whose content is explained: no settings file comes near it."""

_objects: Final = msgspec.json.Decoder(dict[str, Any])
_KNOWN: Final = frozenset({"hooks", "env", "permissions", "$schema"})


def describe(folder: str, home: str = "") -> FolderReport:
    """The report of a folder; `home` is the user's home folder, whose files are not the project's.

    Never raises because of a file's content."""
    root = Path(os.path.realpath(folder))
    return describe_files(root, _files(root, Path(os.path.realpath(home)) if home else None), _explain)


def _files(root: Path, home: Path | None) -> Iterator[tuple[str, Path]]:
    """Every relevant file: its name as shown (relative to the folder) and its path, in a fixed order."""
    for folder in (root, *root.parents):
        own = folder == root
        if folder == home and not own:
            return  # the user's own files are trusted
        prefix = "" if own else f"{os.path.relpath(folder, root)}/"
        for name in (*(SETTINGS if own else ()), SERVERS, *TEXTS):
            if is_file(folder / name):
                yield prefix + name, folder / name
        for tree in TREES:
            yield from ((prefix + name, path) for name, path in walk(folder, tree))


def _read(path: Path) -> bytes | None:
    """The file's content; None if it is too large or cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MOST_BYTES else None


def _explain(name: str, path: Path) -> Iterator[Finding]:
    if name not in SETTINGS and not name.endswith(SERVERS):
        yield "other", name
    elif (content := _read(path)) is None:
        yield "other", f"{name}: too large or not readable"
    elif (data := decode_or_none(_objects.decode, content)) is None:
        yield "other", f"{name}: not a JSON object; the CLI may read it otherwise"
    elif name in SETTINGS:
        yield from _explain_settings(name, data)
    else:
        for server, config in _items(data.get("mcpServers")):
            fields = config if isinstance(config, dict) else {"config": config}
            yield "mcp_servers", {**fields, "file": name, "name": server}


def _explain_settings(name: str, settings: dict[str, Any]) -> Iterator[Finding]:
    for event, matchers in _items(settings.get("hooks")):
        for matcher in _as_list(matchers):
            yield from (("hooks", {**fields, "file": name, "event": event}) for fields in _hooks(matcher))
    yield from (("environment", f"{variable}={value}") for variable, value in _items(settings.get("env")))
    for key, value in _items(settings.get("permissions")):
        yield from (("permissions", f"{key} {item}") for item in _as_list(value))
    for key, value in settings.items():
        if key not in _KNOWN:
            yield "other", f"{name}: {key} = {msgspec.json.encode(value).decode()[:500]}"


def _hooks(matcher: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(matcher, dict):
        yield {"hook": matcher}
        return
    for hook in _as_list(matcher.get("hooks")):
        fields = hook if isinstance(hook, dict) else {"hook": hook}
        yield {**fields, "matcher": matcher.get("matcher", "")}


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
