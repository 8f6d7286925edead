"""Here-documents: where the shell ends one, and whether its text is literal. Pure, on bytes."""

import re

import msgspec

_DELIMITER = re.compile(rb"'([A-Za-z0-9_]+)'|\"([A-Za-z0-9_]+)\"|\\([A-Za-z0-9_]+)|([A-Za-z0-9_]+)")
_EXPANDS = re.compile(rb"`|\$[({\[]|\\\n")


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
    at = start
    while at <= len(source):
        stop = source.find(b"\n", at)
        stop = len(source) if stop < 0 else stop
        line = source[at:stop]
        if (line.lstrip(b"\t") if tabs else line) == delimiter.name:
            return at, stop
        at = stop + 1
    return None


def expands(body: bytes) -> bool:
    """Return whether an unquoted document does more than insert the values of variables."""
    return _EXPANDS.search(body) is not None
