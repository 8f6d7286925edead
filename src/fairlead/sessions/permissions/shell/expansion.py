"""Expansion of a word of a shell line: quotes, `~`, variables, braces and globs, as bash and zsh expand them. Pure:
the caller passes a function that lists the names in a folder.

The result is every text that the word may expand to, or None when that cannot be known here (a person is then asked).
More texts than the shell would produce are fine, fewer are not: where bash and zsh differ, the result has both
readings or is None.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise, product
from operator import mul
from posixpath import join

import msgspec

from fairlead.sessions.permissions.policy.paths import Entries

MOST_VALUES = 256
_MOST_NAMES = 5_000  # folder entries examined for the globs of one word
_MOST_DEPTH = 12  # levels of folders that `**` descends

# The parts of a word outside of quotes and between double quotes; a `sign` may be special to the shell.
_OUTSIDE = re.compile(r"\\(?P<escaped>[\s\S]?)|'(?P<literal>[^']*)'|(?P<quote>\")|(?P<dollar>\$)|(?P<sign>[^`()<>'])")
_IN_QUOTES = re.compile(r"\\(?P<escaped>[$`\"\\\n])|(?P<quote>\")|(?P<dollar>\$(?=[^ \"/.,:;%+=)]))|(?P<literal>[^`])")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])([\w./:,@+-]*))?\}")
# After the name of a variable: zsh takes a part of the value or a longer name, bash expands braces first.
_PART = re.compile(r"\[|:[A-Za-z#&]|[^\x00-\x7f]")
_ANSI_C = re.compile(r"\$'((?:\\[\s\S]|[^'\\])*)'")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|([\s\S]))")
_CONTROL_CHARS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_BRACED = re.compile(r"[{,}]")
_PATTERN = "*?[^#~"
_SPECIAL = re.compile(r"[\s*?\[\]]")
_SEQUENCE = re.compile(r"(-?\d{1,4})\.\.(-?\d{1,4})|([A-Za-z])\.\.([A-Za-z])")


class ExpansionContext(msgspec.Struct, frozen=True):
    """The context of an expansion: the folders that the shell may be in, and every value that a variable may have."""

    folders: tuple[str, ...]
    home: str | None
    variables: Mapping[str, tuple[str, ...] | None]
    entries: Entries

    def value(self, name: str) -> tuple[str, ...] | None:
        if name == "HOME":
            return None if self.home is None else (self.home,)
        if name == "PWD":
            return self.folders
        return self.variables.get(name)


class _Unknown(Exception):
    """The expansion is known only at run time."""


class WordPart(msgspec.Struct, frozen=True):
    """A part of a word: one unquoted character that may be special (`*`, `{`), or literal text."""

    text: str
    sign: bool = False


def expand(raw: str, shell: ExpansionContext, *, assigned: bool = False) -> tuple[str, ...] | None:
    """Return every text that this word may expand to.

    `assigned`: the word is the value of a variable, where `*` and `{` are literal.
    """
    if raw.startswith(("<(", ">(")):
        return ()  # the name of a pipe; the command inside is analysed separately
    try:
        out: dict[str, None] = {}
        for pieces in _Reader(raw, shell, assigned).read():
            for spread in [pieces] if assigned else _braces(pieces):
                start = next((piece for piece in spread if piece.text), WordPart(""))
                if not assigned and start.sign and start.text in "~=":
                    return None  # it has come to the beginning, where it has a meaning
                texts = ["".join(piece.text for piece in spread)] if assigned else _globbed(spread, shell)
                out |= dict.fromkeys(texts)
                if len(out) > MOST_VALUES:
                    return None
    except _Unknown:
        return None
    return tuple(out)


class _Reader:
    """Splits a word into pieces; a variable with several values gives several words."""

    def __init__(self, raw: str, shell: ExpansionContext, assigned: bool) -> None:
        self.raw = raw
        self.shell = shell
        self.assigned = assigned
        # bash expands a `~` in arguments that look like assignments too, zsh does not.
        self.before_tilde = {":"} if assigned else {"=", ":"} if _ASSIGNMENT.match(raw) else set()
        self.at = 0
        self.parts: list[list[list[WordPart]]] = []  # the alternatives of each part

    def read(self) -> list[list[WordPart]]:
        raw, quoted = self.raw, False
        if raw.startswith("="):
            raise _Unknown  # zsh: the path of a command
        if raw.startswith("~"):
            self.tilde()
        while self.at < len(raw):
            found = (_IN_QUOTES if quoted else _OUTSIDE).match(raw, self.at)
            if found is None:
                raise _Unknown
            kind = found.lastgroup or ""
            text = found[kind]
            if kind == "dollar":
                self.dollar(quoted=quoted)
                continue
            self.at = found.end()
            if kind == "quote":
                quoted = not quoted
            elif kind != "sign":
                if kind == "escaped" and text == "\n":
                    raise _Unknown  # it joins its neighbours before anything else is expanded: `$x` and `y` to `$xy`
                self.add(text)
            elif text in self.before_tilde and raw[self.at : self.at + 1] == "~":
                self.add(text)
                self.tilde()
            else:
                self.parts.append([[WordPart(text, sign=True)]])
        if quoted or any(total > MOST_VALUES for total in accumulate(map(len, self.parts), mul)):
            raise _Unknown
        return [[piece for part in choice for piece in part] for choice in product(*self.parts)]

    def add(self, *texts: str) -> None:
        self.parts.append([[WordPart(text)] for text in texts])

    def tilde(self) -> None:
        found = re.compile(r"~(\+?)(?=/|$)").match(self.raw, self.at)
        if found is None or (not found[1] and self.shell.home is None):
            raise _Unknown
        self.add(*(self.shell.folders if found[1] else (self.shell.home or "",)))
        if self.at and not self.assigned:
            self.parts[-1].append([WordPart(sign, sign=True) for sign in found[0]])
        self.at = found.end()

    def dollar(self, *, quoted: bool) -> None:
        text = None if quoted else _ANSI_C.match(self.raw, self.at)
        if text is not None:
            self.add(_ESCAPE.sub(_escaped, text[1]))
            self.at = text.end()
            return
        found = _VARIABLE.match(self.raw, self.at)
        if found is None or (found[1] and _PART.match(self.raw, found.end())):
            raise _Unknown
        braced = not quoted and not self.assigned and "{" in self.raw and _BRACED.match(self.raw, found.end())
        if found[1] and braced:
            raise _Unknown  # bash expands braces first: `$x{a,b}` to `$xa` and `$xb`
        self.at = found.end()
        values = self.shell.value(found[1] or found[2])
        if values is None:
            raise _Unknown
        if found[3]:
            values = (*values, found[4]) if found[3].endswith("-") else (found[4], "")
        if not quoted and not self.assigned and any(_SPECIAL.search(value) for value in values):
            raise _Unknown  # bash splits it into several words, zsh does not
        self.add(*dict.fromkeys(values))


def _escaped(found: re.Match[str]) -> str:
    char = found[5]
    if char is not None:
        if char in _CONTROL_CHARS or char in "\\'\"?":
            return _CONTROL_CHARS.get(char, char)
        raise _Unknown
    code = int(found[4], 8) if found[4] else int(found[1] or found[2] or found[3], 16)
    # A NUL ends the text in only one of the two shells; above 127 an octal or \x escape is a byte, not a character.
    if not 0 < code < (0x80 if found[1] or found[4] else 0xD800):
        raise _Unknown
    return chr(code)


def _braces(pieces: list[WordPart]) -> list[list[WordPart]]:
    """Expand `a{b,c}d` to `abd` and `acd`. Bounded."""
    signs = [piece.text for piece in pieces if piece.sign]
    out: list[list[WordPart]] = []
    todo = [pieces]
    while todo:
        word = todo.pop()
        found = _first_brace(word)
        if found is None:
            out.append(word)
        elif signs.count("{") != signs.count("}"):
            raise _Unknown  # zsh expands none of them
        else:
            start, end, choices = found
            todo.extend([*word[:start], *choice, *word[end + 1 :]] for choice in choices)
        if len(out) + len(todo) > MOST_VALUES:
            raise _Unknown
    return out


def _first_brace(word: Sequence[WordPart]) -> tuple[int, int, list[list[WordPart]]] | None:
    """Return the first brace expression: the indexes of its braces, and its choices."""
    for start, piece in enumerate(word):
        if not piece.sign or piece.text != "{":
            continue
        depth, commas = 0, [start]
        for end in range(start, len(word)):
            if not word[end].sign:
                continue
            depth += {"{": 1, "}": -1}.get(word[end].text, 0)
            if depth == 1 and word[end].text == ",":
                commas.append(end)
            if depth == 0:
                if len(commas) > 1:
                    marks = [*commas, end]
                    return start, end, [list(word[a + 1 : b]) for a, b in pairwise(marks)]
                text = "".join(each.text for each in word[start + 1 : end])
                if ".." in text:
                    return start, end, [[WordPart(each)] for each in _sequence(text)]
                if any(each.sign and each.text == "," for each in word[end:]):
                    raise _Unknown  # bash goes on to the next brace: `{a}b,c}` is `a}b` and `c`
                break
    return None


def _sequence(text: str) -> list[str]:
    found = _SEQUENCE.fullmatch(text)
    if found is None:
        raise _Unknown
    if found[3]:
        low, high = sorted((ord(found[3]), ord(found[4])))
        return [chr(code) for code in range(low, high + 1)]
    if found[1].lstrip("-").startswith("0") or found[2].lstrip("-").startswith("0"):
        raise _Unknown  # it may be padded with zeros or not
    low, high = sorted((int(found[1]), int(found[2])))
    if high - low > MOST_VALUES:
        raise _Unknown
    return [str(number) for number in range(low, high + 1)]


# Globs


def _globbed(pieces: Sequence[WordPart], shell: ExpansionContext) -> list[str]:
    """Return the paths that a pattern matches on disk, and the pattern itself (bash keeps one without a match)."""
    plain = "".join(piece.text for piece in pieces)
    if not any(piece.sign and piece.text in _PATTERN for piece in pieces):
        return [plain]
    parts = _components(pieces)
    budget = [_MOST_NAMES]
    found: list[str] = []
    without = next((at for at, piece in enumerate(pieces) if piece.sign and piece.text == "~"), None)
    if without is not None:
        # zsh: paths that match the pattern before the `~` but not the one after it; both may contain slashes.
        found.extend(_globbed(pieces[:without], shell))
    for start in ("/",) if plain.startswith("/") else shell.folders:
        found.extend(_matches(start, "/" if plain.startswith("/") else "", parts, shell.entries, budget))
    return [plain, *found]


def _components(pieces: Sequence[WordPart]) -> list[str | re.Pattern[str] | None]:
    """Return the components of the path: text, a pattern, or None for `**`."""
    groups: list[list[WordPart]] = [[]]
    for piece in pieces:
        for index, text in enumerate(piece.text.split("/")):
            if index:
                groups.append([])
            if text:
                groups[-1].append(WordPart(text, piece.sign))
    out: list[str | re.Pattern[str] | None] = []
    for group in groups:
        text = "".join(piece.text for piece in group)
        if not any(piece.sign and piece.text in _PATTERN for piece in group):
            if text:
                out.append(text)
        elif text == "**":
            out.append(None)
        elif "***" in text:
            raise _Unknown
        else:
            out.append(_pattern(group))
    return out


def _pattern(group: Sequence[WordPart]) -> re.Pattern[str]:
    out: list[str] = []
    at = 0
    while at < len(group):
        piece = group[at]
        if piece.sign and piece.text == "*":
            out.append(".*")
        elif piece.sign and piece.text == "?":
            out.append(".")
        elif piece.sign and piece.text in "^#~":
            # An extended pattern of zsh, if that option is on: match every name with this beginning. A repeated dot
            # at the start also matches hidden names.
            if piece.text == "#" and len(out) == 1 and out[0].startswith("\\."):
                return re.compile(r"\.*.*", re.DOTALL)
            if piece.text == "#":
                del out[-1:]
            return re.compile("".join(out) + ".*", re.DOTALL)
        elif piece.sign and piece.text == "[":
            # Match any one character, which is wider than the set. The set ends at the first unquoted `]` after its
            # first character; with a quoted `]` in it, match every name with this beginning.
            rest = group[at + 1 :]
            first = 1 if rest and rest[0].text in "!^" else 0
            end = next((i for i in range(first + 1, len(rest)) if rest[i].sign and rest[i].text == "]"), None)
            members = rest[:end]
            if any("]" in each.text for each in members if not each.sign) or (first and not rest[0].sign):
                return re.compile("".join(out) + ".*", re.DOTALL)
            if end is None or "[" in "".join(each.text for each in members):
                raise _Unknown
            out.append(".")
            at += end + 1
        else:
            out.append(re.escape(piece.text))
        at += 1
    return re.compile("".join(out), re.DOTALL)


def _matches(
    folder: str, prefix: str, parts: Sequence[str | re.Pattern[str] | None], entries: Entries, budget: list[int]
) -> list[str]:
    """Return the matching paths below a folder; `prefix` is the written form of the path so far."""
    out: list[str] = []
    todo = [(folder, prefix, 0, 0)]
    while todo:
        here, text, index, depth = todo.pop()
        if index == len(parts):
            out.append(text)
            if len(out) > MOST_VALUES:
                raise _Unknown
            continue
        part = parts[index]
        if isinstance(part, str):
            todo.append((f"{here}/{part}", join(text, part), index + 1, depth))
            continue
        if part is None:
            todo.append((here, text, index + 1, depth))
            if depth >= _MOST_DEPTH:
                raise _Unknown
        try:
            names = entries(here)
        except OSError:
            continue
        budget[0] -= len(names)
        if budget[0] < 0:
            raise _Unknown
        for name in names:
            hidden, below, written = name.startswith("."), f"{here}/{name}", join(text, name)
            if part is not None:
                if part.fullmatch(name) and (not hidden or part.pattern.startswith("\\.")):
                    todo.append((below, written, index + 1, depth))
            elif not hidden:
                todo.append((below, written, index, depth + 1))
                # A `**` at the end matches names too; a name that is not a folder has no entries.
                if index + 1 == len(parts):
                    todo.append((below, written, index + 1, depth))
    return out
