"""Lexer for words by the quoting rules of the shell, as a check of the grammar. Pure functions on text.

The grammar determines where a word begins and ends; `read_word` reads it again by POSIX quoting and returns None for a
word that does not end where the grammar ended it. So a line is trusted only where both agree.
"""

import re
import unicodedata
from collections.abc import Sequence

from fairlead.sessions.permissions.shell.line import Word

DELIMITERS = frozenset(b" \t\n;&|<>()")
_META = frozenset(" \t\n;&|<>()")
_GLOB = frozenset("*?[]")
# `~` and `=` are special only at the start (`=` in zsh), `^` is a pipe in very old shells.
_EXPANDS_IN_QUOTES = re.compile(r"\$[A-Za-z0-9_({\[@*#?$!-]")
_ANSI_C = re.compile(r"\$'(?:\\[\s\S]|[^'\\])*'")
# `$x`, `$1`, `${x}`, `${#x}`, and `${x:-text}`, `${x%text}` with plain text.
_SAFE_EXPANSION = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?$!#@*-])"
    r"|\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9]+)\}"
    r"|\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+]|%%?|##?)[\w./*?:,+@-]*\}"
)
_SAFE_ARITHMETIC = re.compile(r"\$\(\([0-9\s+*/%-]*\)\)")


def forbidden_character(text: str) -> str | None:
    """Return the first character that no honest command needs: a control, invisible formatting, a lone surrogate."""
    for char in text:
        if char in "\t\n" or " " <= char <= "~":
            continue
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            return char
    return None


def is_safe_expansion(text: str) -> bool:
    """Return whether an expansion only inserts the value of a variable or a number: it runs and changes nothing."""
    return bool(_SAFE_EXPANSION.fullmatch(text) or _SAFE_ARITHMETIC.fullmatch(text))


def read_word(text: str, holes: Sequence[tuple[int, int]] = ()) -> Word | None:
    """Read one word; `holes` are the (start, end) ranges of expansions, in order. Return None if it is not one word."""
    return _WordReader(text, holes).read()


class _WordReader:
    def __init__(self, text: str, holes: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.holes = list(holes)
        self.at = 0
        self.out: list[str] = []
        self.lead: str | None = None

    def read(self) -> Word | None:
        text = self.text
        if not text or text[0] == "#":
            return None
        if text[0] == "=":
            self.unknown()
        while self.at < len(text):
            if self.skip_hole():
                continue
            char = text[self.at]
            if char in _META or char == "`":
                return None
            if char == "\\":
                if not self.escape():
                    return None
            elif char == "'":
                if not self.single_quoted():
                    return None
            elif char == '"':
                if not self.double_quoted():
                    return None
            elif char == "$":
                if not self.dollar():
                    return None
            else:
                if char in _GLOB or (char in "{}" and text != "{}"):
                    self.unknown()
                self.out.append(char)
                self.at += 1
        value = "".join(self.out)
        known = self.lead is None
        return Word(text, value if known else None, value if self.lead is None else self.lead, text[0] == "~")

    def unknown(self) -> None:
        """Note that the value from this position on depends on more than the text."""
        if self.lead is None:
            self.lead = "".join(self.out)

    def skip_hole(self) -> bool:
        if not self.holes or self.holes[0][0] != self.at:
            return False
        self.unknown()
        self.at = self.holes.pop(0)[1]
        return True

    def escape(self) -> bool:
        if self.at + 1 >= len(self.text):
            return False
        if self.text[self.at + 1] != "\n":
            self.out.append(self.text[self.at + 1])
        self.at += 2
        return True

    def single_quoted(self) -> bool:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            return False
        self.out.append(self.text[self.at + 1 : end])
        self.at = end + 1
        return True

    def double_quoted(self) -> bool:
        text = self.text
        self.at += 1
        while self.at < len(text):
            if self.skip_hole():
                continue
            char = text[self.at]
            if char == '"':
                self.at += 1
                return True
            if char == "`" or _EXPANDS_IN_QUOTES.match(text, self.at):
                return False
            if char == "\\" and self.at + 1 < len(text) and text[self.at + 1] in '$`"\\\n':
                char = text[self.at + 1].replace("\n", "")
                self.at += 1
            self.out.append(char)
            self.at += 1
        return False

    def dollar(self) -> bool:
        """Read `$'...'`, whose value is known when it has no escapes; `$"..."` and a lone `$` are not accepted."""
        quoted = _ANSI_C.match(self.text, self.at)
        if quoted is None:
            return False
        if "\\" in quoted[0]:
            self.unknown()
        self.out.append(quoted[0][2:-1])
        self.at = quoted.end()
        return True
