"""A tool call, where it is judged, and the facts that every judge needs, worked out once. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairlead.model.policy import PermissionMode, Rule
from fairlead.sessions.policy.line import ShellAnalysis, Word
from fairlead.sessions.policy.paths import BadPath, Resolve, absolute, inside_any, readings, static_part, tidy
from fairlead.sessions.policy.shell import analyse
from fairlead.sessions.policy.shell_rules import path_words
from fairlead.sessions.policy.tools import FETCH_TOOL, PATH_TOOLS, SEARCH_TOOLS, SHELL_TOOL, canonical

_FOLLOWED_WORDS = 256  # words of one line whose links are followed; the rest is taken as written


class ToolCall(msgspec.Struct, frozen=True):
    """What an agent wants to do. `input` is as it came: it should be an object, and may be anything."""

    name: str
    input: Any


class Fences(msgspec.Struct, frozen=True):
    """What no tool may touch: the gateway's own folders and its ports. A fence, not a wall."""

    folders: tuple[str, ...] = ()
    port: int | None = None
    hosts: frozenset[str] = frozenset()  # names of the gateway besides those of the loopback
    doors: tuple[int, ...] = ()  # its further ports
    attached: str = ""  # in one of the folders: files that people sent to agents, in a folder for each of them

    @property
    def ports(self) -> tuple[int, ...]:
        return self.doors if self.port is None else (self.port, *self.doors)


class PolicyContext(msgspec.Struct, frozen=True):
    """Where a call is judged. `cwd`, `roots` and the fences' folders are absolute; `resolve` follows links."""

    cwd: str
    roots: tuple[str, ...]
    mode: PermissionMode
    rules: tuple[Rule, ...]
    fences: Fences
    resolve: Resolve
    home: str | None = None

    def places(self, path: str) -> tuple[str, ...]:
        """Every real place that a path can mean here. Raises BadPath."""
        return readings(path, self.cwd, self.home, self.resolve)

    def word_places(self, word: Word, *, follow: bool = True) -> tuple[str, ...]:
        """The same for a shell word, whose `~` may be quoted. Raises BadPath for one that is not known."""
        if word.value is None:
            raise BadPath(word.raw)
        path = word.value if word.tilde or not word.value.startswith("~") else "./" + word.value
        return self.places(path) if follow else (tidy(absolute(path, self.cwd, self.home)),)

    def real(self, folders: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(place for folder in folders for place in self.places(folder))

    def inside(self, places: tuple[str, ...]) -> bool:
        """Whether all of these places lie within the session's folders."""
        folders = self.real((*self.roots, self.cwd))
        return all(inside_any(place, folders) for place in places)


class Facts(msgspec.Struct, frozen=True):
    """What is known about a call. `malformed` says why its input is not what the tool takes.

    `paths` holds, for each path of a file tool, every place that it can mean; `written` the same as it was written.
    For a shell line, `words` holds the places of every word that could name a file, `targets` of the files that it
    writes by redirection.
    """

    tool: str
    malformed: str | None = None
    shell: ShellAnalysis | None = None
    written: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    targets: tuple[tuple[str, ...], ...] = ()
    host: str | None = None
    port: int | None = None


def facts_of(call: ToolCall, context: PolicyContext) -> Facts:
    """Work out the facts. Never raises: what cannot be worked out is `malformed`."""
    tool = canonical(call.name)
    if not isinstance(call.input, Mapping):
        return Facts(tool, malformed="its input is not an object")
    if tool == SHELL_TOOL:
        command = call.input.get("command")
        if not isinstance(command, str) or not command.strip():
            return Facts(tool, malformed="it has no command")
        analysis = analyse(command)
        targets = (redirection.target for redirection in analysis.redirections if redirection.writes)
        return Facts(
            tool,
            shell=analysis,
            words=_places(path_words(analysis), context),
            targets=_places(targets, context),
        )
    if tool == FETCH_TOOL:
        return _fetch_facts(tool, call.input.get("url"))
    if tool in PATH_TOOLS:
        return _path_facts(tool, call.input, context)
    return Facts(tool)


def _places(words: Iterable[Word], context: PolicyContext) -> tuple[tuple[str, ...], ...]:
    """The places of all words whose value is known; the links of the first ones are followed."""
    out: list[tuple[str, ...]] = []
    for count, word in enumerate(dict.fromkeys(words)):
        try:
            out.append(context.word_places(word, follow=count < _FOLLOWED_WORDS))
        except BadPath:
            continue
    return tuple(out)


def _fetch_facts(tool: str, url: Any) -> Facts:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        host = parts.hostname if parts else None
        port = parts.port if parts else None
    except ValueError:
        host = port = parts = None
    if parts is None or host is None or parts.scheme not in ("http", "https"):
        return Facts(tool, malformed="it has no web address")
    return Facts(tool, host=host.rstrip("."), port=port or (443 if parts.scheme == "https" else 80))


def _path_facts(tool: str, given: Mapping[str, Any], context: PolicyContext) -> Facts:
    paths: list[Any] = [given.get(PATH_TOOLS[tool])]
    if paths == [None] and tool in SEARCH_TOOLS:
        paths = [context.cwd]
    if tool == "Glob":
        # The pattern itself may climb out of the folder that it starts from.
        pattern = given.get("pattern")
        start = pattern if not isinstance(pattern, str) else static_part(pattern) if pattern.startswith("/") else None
        if start is None and isinstance(pattern, str) and isinstance(paths[0], str):
            start = f"{paths[0]}/{pattern}"
        paths.append(start)
    if not all(isinstance(path, str) for path in paths):
        return Facts(tool, malformed="it names no path")
    try:
        places = tuple(context.places(path) for path in paths)
    except BadPath:
        return Facts(tool, malformed="its path cannot be resolved")
    return Facts(tool, written=tuple(tidy(f"{context.cwd}/{p}" if p[0] != "/" else p) for p in paths), paths=places)
