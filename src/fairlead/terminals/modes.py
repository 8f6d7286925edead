"""What a program has switched on or off in its terminal, beside what it has drawn. Pure."""

from typing import Final

WRAP: Final = 7
ORIGIN: Final = 6
VISIBLE: Final = 25
PASTE: Final = 2004
ALTERNATE: Final = (47, 1047, 1049)

DEFAULTS: Final[dict[int, bool]] = {
    1: False,  # application cursor keys
    5: False,  # reverse screen
    ORIGIN: False,
    WRAP: True,
    9: False,  # mouse: presses, then in other ways and encodings
    12: False,  # blinking cursor
    VISIBLE: True,
    1000: False,
    1002: False,
    1003: False,
    1004: False,  # focus in and out
    1005: False,
    1006: False,
    1007: False,
    1015: False,
    1016: False,
    PASTE: False,
    2031: False,  # light or dark told
}
"""The private modes that are kept; all others are the program's talk with its watchers, or nothing."""

MOST_KEY_FLAGS: Final = 16
"""How deep a stack of key protocols may be, as other terminals have it."""


class Modes:
    """Private modes, and what is set in ways of its own: keys, the cursor's shape, the title."""

    def __init__(self) -> None:
        self.private = dict(DEFAULTS)
        self.insert = False
        self.newline = False
        self.keypad = False
        self.shape = 0
        self.modify_keys = 0
        self.title = ""

    def set(self, modes: list[int], on: bool) -> None:
        for mode in modes:
            if mode in self.private:
                self.private[mode] = on

    def __getitem__(self, mode: int) -> bool:
        return self.private[mode]


class KeyFlags:
    """The stack of one screen's key protocol (CSI > u and its kin)."""

    def __init__(self) -> None:
        self.stack: list[int] = [0]

    def push(self, flags: int) -> None:
        self.stack.append(flags)
        if len(self.stack) > MOST_KEY_FLAGS:
            del self.stack[0]

    def pop(self, count: int) -> None:
        del self.stack[max(0, len(self.stack) - max(count, 1)) :]
        self.stack = self.stack or [0]

    def change(self, flags: int, how: int) -> None:
        now = self.stack[-1]
        self.stack[-1] = now | flags if how == 2 else now & ~flags if how == 3 else flags
