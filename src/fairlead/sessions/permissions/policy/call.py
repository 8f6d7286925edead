"""A tool call, the context of its verdict, and the facts about it that every check needs. Pure."""

from collections.abc import Mapping
from itertools import chain
from posixpath import join
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from fairlead.model.policy import PermissionMode, Rule
from fairlead.model.tools import Tool, ToolCatalogue
from fairlead.sessions.permissions.policy import paths
from fairlead.sessions.permissions.policy.protected import is_protected
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
    lists a folder. `tools` are those of the agent, `agent_files` the names of the files that configure agents, in lower
    case. `moved`: the agent's current folder, if it is not `cwd`: its
    relative paths may refer to either."""

    cwd: str
    roots: tuple[str, ...]
    mode: PermissionMode
    rules: tuple[Rule, ...]
    fences: Fences
    resolve: paths.Resolve
    home: str | None
    entries: paths.Entries
    tools: ToolCatalogue
    agent_files: frozenset[str]
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

    def is_protected(self, place: str) -> bool:
        """Return whether a person must allow it by name to be written (protected.py)."""
        return is_protected(place, self.agent_files)


class CallFacts(msgspec.Struct, frozen=True):
    """The facts about a call. `tool` is its name in rules. `malformed`: why its input is not valid for the tool.

    `paths` holds, for each path of a file tool, every place that it can mean; `written` holds the paths as written.
    `shell` is the line of a shell tool, with the possible values of its words and the places that they can mean.
    """

    tool: str
    kind: Tool
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
    facts = CallFacts(context.tools.canonical(call.name), context.tools.find(call.name))
    if not isinstance(call.input, Mapping):
        return structs.replace(facts, malformed="its input is not an object")
    given = call.input.get(facts.kind.argument)
    if facts.kind.effect == "shell":
        if not isinstance(given, str) or not given.strip():
            return structs.replace(facts, malformed="it has no command")
        shell = ExpansionContext(context.folders, context.home, {}, context.entries)
        return structs.replace(facts, shell=resolve_line(analyse(given), shell, context.resolve))
    if facts.kind.effect == "fetch" and facts.kind.argument:
        return _fetch_facts(facts, given)
    if facts.kind.has_path:
        return _path_facts(facts, call.input, context)
    return facts


def _fetch_facts(facts: CallFacts, url: Any) -> CallFacts:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        host = parts.hostname if parts else None
        port = parts.port if parts else None
    except ValueError:
        host = port = parts = None
    if parts is None or host is None or parts.scheme not in ("http", "https"):
        return structs.replace(facts, malformed="it has no web address")
    return structs.replace(facts, host=host.rstrip("."), port=port or (443 if parts.scheme == "https" else 80))


def _path_facts(facts: CallFacts, given: Mapping[str, Any], context: PolicyContext) -> CallFacts:
    kind = facts.kind
    named: list[Any] = [given.get(kind.argument)]
    if named == [None] and kind.effect == "search":
        named = ["."]
    if kind.pattern:
        named.append(given.get(kind.pattern))
    if not all(isinstance(path, str) for path in named):
        return structs.replace(facts, malformed="it names no path")
    folders = paths.spellings(named[0])
    texts = list(folders)
    if kind.pattern:
        # The pattern itself may lead out of its starting folder.
        for pattern in paths.spellings(named[1]):
            rooted = pattern.startswith("/")
            texts += [paths.static_part(pattern)] if rooted else [f"{folder}/{pattern}" for folder in folders]
    try:
        places = tuple(context.places(text) for text in dict.fromkeys(texts) if text)
    except paths.BadPath:
        places = ()
    if not places or not all(named):
        return structs.replace(facts, malformed="its path cannot be resolved")
    written = dict.fromkeys(paths.tidy(join(folder, text)) for folder in context.folders for text in texts if text)
    return structs.replace(facts, written=tuple(written), paths=places)
