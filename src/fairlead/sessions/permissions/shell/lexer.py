"""Lexer for words and here-documents by the rules of the shell, as a check of the grammar. Pure functions on text.

The grammar determines where a word begins and ends; `read_word` reads it again by POSIX quoting and returns None for a
word that does not end where the grammar ended it. So a line is trusted only where both agree.
"""

import re
import unicodedata
from collections.abc import Sequence

import msgspec

from fairlead.sessions.permissions.shell.line import Word

DELIMITERS = frozenset(b" \t\n;&|<>()")
# The parts of a word outside of quotes: an escaped character, quoted text, a pattern's character, or any other that
# does not end the word. `$"..."` and a lone `$` are not accepted.
_OUTSIDE = re.compile(
    r"\\(?P<escaped>[\s\S])|'(?P<literal>[^']*)'|\$'(?P<ansi>(?:\\[\s\S]|[^'\\])*)'|(?P<quote>\")"
    r"|(?P<glob>[*?\[\]{}])|(?P<plain>[^ \t\n;&|<>()`$'\"\\])"
)
# The parts between double quotes; an expansion is accepted only where the caller has found one (a hole).
_IN_QUOTES = re.compile(r"\\(?P<escaped>[$`\"\\\n])|(?P<quote>\")|(?P<plain>[^`$]|\$(?![A-Za-z0-9_({\[@*#?$!-]))")
# `$x`, `$1`, `${x}`, `${#x}`, and `${x:-text}`, `${x%text}` with plain text.
_SAFE_EXPANSION = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?$!#@*-])"
    r"|\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9]+)\}"
    r"|\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+]|%%?|##?)[\w./*?:,+@-]*\}"
)
_SAFE_ARITHMETIC = re.compile(r"\$\(\([0-9\s+*/%-]*\)\)")
_DELIMITER = re.compile(rb"'([A-Za-z0-9_]+)'|\"([A-Za-z0-9_]+)\"|\\([A-Za-z0-9_]+)|([A-Za-z0-9_]+)")
_EXPANDS = re.compile(rb"`|\$[({\[]|\\\n")


def forbidden_character(text: str) -> str | None:
    """Return the first character that no honest command needs: a control, invisible formatting, a lone surrogate."""
    unusual = (char for char in text if char not in "\t\n" and not " " <= char <= "~")
    return next((char for char in unusual if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")), None)


def is_safe_expansion(text: str) -> bool:
    """Return whether an expansion only inserts the value of a variable or a number: it runs and changes nothing."""
    return bool(_SAFE_EXPANSION.fullmatch(text) or _SAFE_ARITHMETIC.fullmatch(text))


def read_word(text: str, holes: Sequence[tuple[int, int]] = ()) -> Word | None:
    """Read one word; `holes` are the (start, end) ranges of expansions, in order. Return None if it is not one word."""
    if not text or text[0] == "#":
        return None
    left = list(holes)
    out: list[str] = []
    # The text before the first part whose value depends on more than the text; zsh replaces `=name` by a path.
    lead = "" if text[0] == "=" else None
    at, quoted = 0, False
    while at < len(text):
        unknown = bool(left) and left[0][0] == at
        if unknown:
            part, end = "", left.pop(0)[1]
        else:
            found = (_IN_QUOTES if quoted else _OUTSIDE).match(text, at)
            if found is None:
                return None
            kind, end = found.lastgroup or "", found.end()
            part = found[kind]
            if kind == "quote":
                part, quoted = "", not quoted
            elif kind == "escaped":
                part = part.replace("\n", "")
            else:
                unknown = (kind == "glob" and text != "{}") or (kind == "ansi" and "\\" in part)
        if unknown and lead is None:
            lead = "".join(out)
        out.append(part)
        at = end
    value = "".join(out)
    if quoted:
        return None
    return Word(text, value, value, text[0] == "~") if lead is None else Word(text, None, lead, text[0] == "~")


# Here-documents: where the shell ends one, and whether its text is literal. On bytes.


class Delimiter(msgspec.Struct, frozen=True):
    """The word after `<<`. If it is quoted, the document is literal text."""

    name: bytes
    quoted: bool


def read_delimiter(text: bytes) -> Delimiter | None:
    """Parse the delimiter; None if it is not written in one of the plain forms."""
    found = _DELIMITER.fullmatch(text)
    if found is None:
        return None
    return Delimiter(found[found.lastindex or 0], quoted=found[4] is None)


def find_end(source: bytes, start: int, delimiter: Delimiter, *, tabs: bool) -> tuple[int, int] | None:
    """Return where the closing line begins and ends: the first line from `start` on that equals the delimiter."""
    line = re.compile(rb"^%s%s$" % (rb"\t*" if tabs else b"", delimiter.name), re.MULTILINE)
    found = line.search(source, start)
    return None if found is None else found.span()


def expands(body: bytes) -> bool:
    """Return whether an unquoted document does more than insert the values of variables."""
    return _EXPANDS.search(body) is not None
