"""Combining characters on one letter, bounded before the emulator sees them. Pure.

It keeps sixty on a cell, and a screen full of those costs it tens of megabytes and seconds for a kilobyte. What is
dropped here is no writing.
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
"""Vowels and ends of Korean syllables, which are written over their beginnings."""
_COMMON: Final = range(0x300, 0x10000)
_RARE: Final = (range(0x10000, 0x20000), range(0xE0000, 0xE0200))


class CombiningFilter:
    """What one terminal was last given."""

    def __init__(self) -> None:
        self._before = ""

    def bounded(self, run: str) -> str:
        """The run without marks that would be one too many, or that a letter was not printed for just before: those
        would go on a letter of any time ago, and so on without end."""
        kept = run
        if not run.isascii():
            candidate, mark, too_many, loose = _patterns()
            if candidate.search(run) is not None:
                before = (closing_text(self._before) or "\x00")[-MOST - 1 :] if mark.match(run) else ""
                kept = too_many.sub(r"\1", loose.sub(r"\1", before + run))
                # With a letter's marks, so that the next are counted on.
                run, kept = kept, kept[len(before) :]
        self._before = run
        return kept

    def broken_off(self) -> None:
        """Something other than a run was shown."""
        self._before = ""


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """(what may be a mark, told quickly; a mark; those after the most that there may be; those on no letter)"""
    common = _class(_COMMON)
    mark = f"[{common}{''.join(map(_class, _RARE))}]"
    return (
        re.compile(f"[{common}\U00010000-\U0010ffff]"),
        re.compile(mark),
        re.compile(f"({mark}{{{MOST}}}){mark}+"),
        re.compile(f"({CONTROLS}){mark}+"),
    )


def _class(plane: range) -> str:
    """The marks of a plane, as a regular expression has them between brackets."""
    found = [code for code in plane if code in _JAMO or unicodedata.category(chr(code)) in _CATEGORIES]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(found), lambda item: item[1] - item[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)
