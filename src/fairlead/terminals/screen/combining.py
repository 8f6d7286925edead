"""Limits the combining characters on one base character before the emulator sees them. Pure.

The emulator keeps sixty per cell; a screen full of those costs it tens of megabytes, and seconds per kilobyte of input.
No real script needs the characters that are dropped here.
"""

import re
import unicodedata
from functools import cache
from itertools import groupby
from typing import Final

from fairlead.terminals.screen.tokenizer import CONTROLS, closing_text

MOST: Final = 8
_CATEGORIES: Final = frozenset({"Mn", "Me", "Cf"})
_JAMO: Final = frozenset({*range(0x1160, 0x1200), *range(0xD7B0, 0xD800)})
"""Vowels and final consonants of Korean syllables, which combine with their initial consonant."""
_COMMON: Final = range(0x300, 0x10000)
_RARE: Final = (range(0x10000, 0x20000), range(0xE0000, 0xE0200))


class CombiningFilter:
    """Filters the runs of one terminal; remembers the last run."""

    def __init__(self, before: str = "") -> None:
        self._before = before

    def bounded(self, run: str) -> str:
        """The run without marks above the limit, and without marks that do not directly follow a printed character:
        those would combine with a character printed at any earlier time, without limit."""
        kept = run
        if not run.isascii():
            candidate, mark, too_many, loose = _patterns()
            if candidate.search(run) is not None:
                before = (closing_text(self._before) or "\x00")[-MOST - 1 :] if mark.match(run) else ""
                kept = too_many.sub(r"\1", loose.sub(r"\1", before + run))
                # Including the marks of the previous run, so that the count continues.
                run, kept = kept, kept[len(before) :]
        self._before = run
        return kept

    def save(self) -> str:
        """The part of the last run that the next one may depend on: give it to a new filter to continue."""
        return closing_text(self._before)[-MOST - 1 :]

    def interrupted(self) -> None:
        """Note that something other than a run was shown."""
        self._before = ""


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Patterns of (a possible mark, by a fast test; a mark; marks above the limit; marks without a base character)"""
    common = _class(_COMMON)
    mark = f"[{common}{''.join(map(_class, _RARE))}]"
    return (
        re.compile(f"[{common}\U00010000-\U0010ffff]"),
        re.compile(mark),
        re.compile(f"({mark}{{{MOST}}}){mark}+"),
        re.compile(f"({CONTROLS}){mark}+"),
    )


def _class(plane: range) -> str:
    """The marks of a plane, as the content of a regular expression's character class."""
    found = [code for code in plane if code in _JAMO or unicodedata.category(chr(code)) in _CATEGORIES]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(found), lambda item: item[1] - item[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)
