"""Resolution of the words of a shell line: its variables, the folders that it changes to, every path that a word may
mean. Pure; the caller passes two functions that read the disk.

The order of the commands is ignored: a variable has every value that the line assigns to it, and a relative word is
resolved in every folder that the line may be in. The values of a word that cannot be determined are None; `lost`
explains why the resolution is incomplete, for example because the line exceeds the bounds.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from urllib.parse import unquote, urlsplit

import msgspec

from fairlead.sessions.permissions.name_sets import names
from fairlead.sessions.permissions.policy.paths import BadPath, Resolve, absolute, readings, tidy
from fairlead.sessions.permissions.shell.expansion import MOST_VALUES, ExpansionContext, expand
from fairlead.sessions.permissions.shell.line import ShellAnalysis, SimpleCommand, Word
from fairlead.sessions.permissions.shell.wrappers import FOUND_WORD, UNKNOWN_WORD, base_name

_MOST_FOLLOWED = 512  # paths per line whose links are followed
_MOST_FOLDERS = 8
_LOOP = re.compile(r"\b(?:for|while|until|select|repeat|foreach)\b|\(\)")
_FOLDER_OPTIONS = names("-C -d --directory --chdir --cwd --prefix --cd --root --base --path")

# They never open a file named by their words, so the value of such a word reveals and changes nothing.
PLAIN = names(
    "echo printf true false : sleep seq exit return break continue pwd whoami id test [ basename dirname kill"
)
MOVES = names("cd chdir pushd popd")


class Argument(msgspec.Struct, frozen=True):
    """A word of a command: every text that it may expand to (None: not known), and every place that these may mean."""

    word: Word
    values: tuple[str, ...] | None
    places: tuple[str, ...] = ()


class ResolvedLine(msgspec.Struct, frozen=True):
    """A resolved line. `commands` and `targets` are in the order of the analysis (targets: of its redirections);
    `others` are the words that belong to neither and may be paths too.

    `incomplete`: why the resolution is incomplete, None when it is complete.
    """

    analysis: ShellAnalysis
    folders: tuple[str, ...]
    commands: tuple[tuple[Argument, ...], ...] = ()
    targets: tuple[Argument, ...] = ()
    others: tuple[Argument, ...] = ()
    incomplete: str | None = None

    def arguments(self) -> Iterator[Argument]:
        for command in self.commands:
            yield from command
        yield from self.targets
        yield from self.others


class _Follower:
    def __init__(self, shell: ExpansionContext, resolve: Resolve) -> None:
        self.shell = shell
        self.resolve = resolve
        self.lost: str | None = None
        self.left = _MOST_FOLLOWED

    def argument(self, word: Word, folders: Sequence[str]) -> Argument:
        if word == FOUND_WORD:
            return Argument(word, ())
        values = None if word == UNKNOWN_WORD else expand(word.raw, self.shell)
        return Argument(word, values, tuple(self.all_places(values or (), folders)))

    def all_places(self, values: Sequence[str], folders: Sequence[str]) -> dict[str, None]:
        pairs = product((path for value in values for path in candidates(value)), folders)
        return dict.fromkeys(place for path, folder in pairs for place in self.places(path, folder))

    def places(self, path: str, folder: str) -> tuple[str, ...]:
        self.left -= 1
        try:
            if self.left < 0:
                self.lost = "the line has more paths than are checked"
                return (tidy(absolute(_literal(path), folder, None)),)
            return readings(_literal(path), folder, None, self.resolve)
        except BadPath:
            return ()

    def variables(self, analysis: ShellAnalysis) -> None:
        pairs = [(each.name, each.value.raw.partition("=")[2]) for each in analysis.all_assignments]
        if not pairs and not analysis.loop_variables:
            return
        found: dict[str, tuple[str, ...] | None] = {}
        for _ in range(3):  # in a loop, a variable may depend on one that is assigned later in the text
            for name, raw in pairs:
                self._gets(found, name, expand(raw, self.shell, assigned=True) if raw else ("",))
            for counted in analysis.loop_variables:
                for word in counted.words:
                    self._gets(found, counted.name, expand(word.raw, self.shell))
                if not counted.words:
                    self._gets(found, counted.name, None)
            self.shell = msgspec.structs.replace(self.shell, variables=dict(found))

    def _gets(self, found: dict[str, tuple[str, ...] | None], name: str, values: tuple[str, ...] | None) -> None:
        before = found.get(name, ("",))
        both = None if values is None or before is None else tuple(dict.fromkeys((*before, *values)))
        found[name] = None if both is None or len(both) > MOST_VALUES else both

    def moves(self, analysis: ShellAnalysis) -> None:
        """Collect every folder that the line may be in."""
        moving = [command for command in analysis.commands if base_name(command.name or "") in MOVES]
        if moving and _LOOP.search(analysis.raw):
            self.lost = "the line changes its folder in a loop"
        for command in moving:
            words = [word for word in command.words[1:] if word.raw not in ("-P", "-L", "--", "-e", "-q")]
            targets = expand(words[0].raw, self.shell) if words else (self.shell.home,)
            if base_name(command.name or "") == "popd" and not words:
                continue
            if len(words) > 1 or targets is None or any(not each or each.startswith("-") for each in targets):
                self.lost = f"where {command.raw[:80]!r} leads is not known"
                continue
            found = dict.fromkeys(self.shell.folders)
            for target in targets:
                for folder in self.shell.folders:
                    found |= dict.fromkeys(self.places(target or "/", folder))
                    # A shell applies `..` to the path as it was given, without following links.
                    found[tidy(absolute(_literal(target or "/"), folder, None))] = None
            if len(found) > _MOST_FOLDERS:
                self.lost = "the line changes its folder too often"
            self.shell = msgspec.structs.replace(self.shell, folders=tuple(found)[:_MOST_FOLDERS])

    def command(self, command: SimpleCommand) -> tuple[Argument, ...]:
        folders: dict[str, None] = dict.fromkeys(self.shell.folders)
        previous = ""
        for word in command.words[1:]:
            # Options that set the folder in which the program resolves its other words.
            if previous in _FOLDER_OPTIONS or word.raw.startswith("-C") or word.lead.split("=")[0] in _FOLDER_OPTIONS:
                folders |= self.all_places(expand(word.raw, self.shell) or (), self.shell.folders)
            previous = word.value or ""
        return tuple(self.argument(word, tuple(folders)[: 2 * _MOST_FOLDERS]) for word in command.words)


def resolve_line(analysis: ShellAnalysis, shell: ExpansionContext, resolve: Resolve) -> ResolvedLine:
    """Resolve a line that starts in one of the shell's folders."""
    walk = _Follower(shell, resolve)
    walk.variables(analysis)
    walk.moves(analysis)
    walk.variables(analysis)  # $PWD
    reached = walk.shell.folders
    commands = tuple(walk.command(command) for command in analysis.commands)
    targets = tuple(walk.argument(redirection.target, reached) for redirection in analysis.redirections)
    resolved = {argument.word for arguments in (*commands, targets) for argument in arguments}
    others = (word for word in dict.fromkeys(path_words(analysis)) if word not in resolved)
    rest = tuple(walk.argument(word, reached) for word in others)
    return ResolvedLine(analysis, reached, commands, targets, rest, walk.lost)


def path_words(analysis: ShellAnalysis) -> list[Word]:
    """Return every word that could name a file: arguments, values of options and assignments, redirection targets."""
    words = [redirection.target for redirection in analysis.redirections]
    words.extend(word for command in analysis.commands for word in command.words)
    for word in (*words, *(assignment.value for assignment in analysis.all_assignments)):
        name, equals, value = word.lead.partition("=")
        if equals and value and "/" not in name:
            words.append(Word(value, value if word.value is not None else None, value, value.startswith("~")))
    return words


def candidates(value: str) -> Iterator[str]:
    """Yield the texts in a word that a program may take as a path: the whole word, the value of an option, an item of a
    list, the path of a URL."""
    if not value:
        return
    yield value
    found: list[str] = []
    if value.startswith("-") and not value.startswith("--"):
        found.append(value[2:])
    for sign in "=@:,":
        if sign in value:
            found.extend(value.split(sign)[:16])
    if "=" in value:
        found.append(value.partition("=")[2])
    if "://" in value:
        with suppress(ValueError):
            found.append(unquote(urlsplit(value).path))
    yield from (each for each in dict.fromkeys(found) if each and each != value)


def _literal(path: str) -> str:
    """Return the path with a literal `~`: it was expanded already, or was quoted."""
    return "./" + path if path.startswith("~") else path
