"""A tool call, the context of its verdict, and the facts about it that every check needs. Pure."""

from collections.abc import Mapping
from itertools import chain
from posixpath import join
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairlead.model.policy import PermissionMode, Rule
from fairlead.sessions.permissions.policy import paths
from fairlead.sessions.permissions.policy.tools import FETCH_TOOL, PATH_TOOLS, SEARCH_TOOLS, SHELL_TOOL, canonical
from fairlead.sessions.permissions.shell.expansion import ExpansionContext
from fairlead.sessions.permissions.shell.parser import analyse
from fairlead.sessions.permissions.shell.resolution import ResolvedLine, resolve_line


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call of an agent. `input` is as received: it should be an object, but may be anything."""

    name: str
    input: Any


class Fences(msgspec.Struct, frozen=True):
    """The gateway's own folders and ports, which no tool may touch. A fence, not a wall."""

    folders: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    hosts: frozenset[str] = frozenset()  # host names of the gateway, other than those of the loopback
    attached: str = ""  # inside one of the folders: the files that people sent to agents, in one subfolder per user


class PolicyContext(msgspec.Struct, frozen=True):
    """The context of a verdict. `cwd`, `roots` and the fences' folders are absolute; `resolve` follows links, `entries`
    lists a folder. `moved`: the agent's current folder, if it is not `cwd`: its relative paths may refer to either."""

    cwd: str
    roots: tuple[str, ...]
    mode: PermissionMode
    rules: tuple[Rule, ...]
    fences: Fences
    resolve: paths.Resolve
    home: str | None
    entries: paths.Entries
    moved: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that relative paths of the agent may refer to."""
        return (self.cwd, self.moved) if self.moved else (self.cwd,)

    def places(self, path: str) -> tuple[str, ...]:
        """Return every real place that a path of a tool call can mean in any version of the CLI. Raises BadPath."""
        texts = paths.spellings(path)
        found = (paths.readings(each, folder, self.home, self.resolve) for folder in self.folders for each in texts)
        return tuple(dict.fromkeys(place for places in found for place in places))

    def resolve_literal(self, path: str) -> tuple[str, ...]:
        """Return the real places of a path from us or from a person, which needs no other spellings. Raises BadPath."""
        return paths.readings(path, self.cwd, self.home, self.resolve)

    def inside(self, places: tuple[str, ...]) -> bool:
        """Return whether all of these places are inside the session's folders. A place in /proc never is."""
        folders = [place for folder in (*self.roots, self.cwd) for place in self.resolve_literal(folder)]
        return all(paths.inside_any(place, folders) and not paths.in_processes(place) for place in places)


class CallFacts(msgspec.Struct, frozen=True):
    """The facts about a call. `malformed`: why its input is not valid for the tool.

    `paths` holds, for each path of a file tool, every place that it can mean; `written` holds the paths as written.
    `shell` is the line of a shell tool, with the possible values of its words and the places that they can mean.
    """

    tool: str
    malformed: str | None = None
    shell: ResolvedLine | None = None
    written: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()
    host: str | None = None
    port: int | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Every place that any path of a file tool can mean."""
        return tuple(chain.from_iterable(self.paths))


def facts_of(call: ToolCall, context: PolicyContext) -> CallFacts:
    """Collect the facts about a call. Never raises: `malformed` reports an input that cannot be understood."""
    tool = canonical(call.name)
    if not isinstance(call.input, Mapping):
        return CallFacts(tool, malformed="its input is not an object")
    if tool == SHELL_TOOL:
        command = call.input.get("command")
        if not isinstance(command, str) or not command.strip():
            return CallFacts(tool, malformed="it has no command")
        shell = ExpansionContext(context.folders, context.home, {}, context.entries)
        return CallFacts(tool, shell=resolve_line(analyse(command), shell, context.resolve))
    if tool == FETCH_TOOL:
        return _fetch_facts(tool, call.input.get("url"))
    if tool in PATH_TOOLS:
        return _path_facts(tool, call.input, context)
    return CallFacts(tool)


def _fetch_facts(tool: str, url: Any) -> CallFacts:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        host = parts.hostname if parts else None
        port = parts.port if parts else None
    except ValueError:
        host = port = parts = None
    if parts is None or host is None or parts.scheme not in ("http", "https"):
        return CallFacts(tool, malformed="it has no web address")
    return CallFacts(tool, host=host.rstrip("."), port=port or (443 if parts.scheme == "https" else 80))


def _path_facts(tool: str, given: Mapping[str, Any], context: PolicyContext) -> CallFacts:
    named: list[Any] = [given.get(PATH_TOOLS[tool])]
    if named == [None] and tool in SEARCH_TOOLS:
        named = ["."]
    if tool == "Glob":
        named.append(given.get("pattern"))
    if not all(isinstance(path, str) for path in named):
        return CallFacts(tool, malformed="it names no path")
    folders = paths.spellings(named[0])
    texts = list(folders)
    if tool == "Glob":
        # The pattern itself may lead out of its starting folder.
        for pattern in paths.spellings(named[1]):
            rooted = pattern.startswith("/")
            texts += [paths.static_part(pattern)] if rooted else [f"{folder}/{pattern}" for folder in folders]
    try:
        places = tuple(context.places(text) for text in dict.fromkeys(texts) if text)
    except paths.BadPath:
        return CallFacts(tool, malformed="its path cannot be resolved")
    if not places or not all(named):
        return CallFacts(tool, malformed="its path cannot be resolved")
    written = dict.fromkeys(paths.tidy(join(folder, text)) for folder in context.folders for text in texts if text)
    return CallFacts(tool, written=tuple(written), paths=places)
