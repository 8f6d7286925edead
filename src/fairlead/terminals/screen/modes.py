"""Terminal modes that a program can switch on or off, and their defaults in a new terminal. Pure."""

from typing import Final

ORIGIN: Final = 6
WRAP: Final = 7
MARGINS: Final = 69
KEYPAD: Final = 66
PASTE: Final = 2004
INSERT: Final = 4
NEWLINE: Final = 20
"""`INSERT` and `NEWLINE` are switched without a private mark."""

DEFAULTS: Final[dict[int, bool]] = {
    1: False,  # application cursor keys
    5: False,  # reverse screen
    ORIGIN: False,
    WRAP: True,  # lines wrap
    9: False,  # mouse: presses, then in other ways and encodings
    12: False,  # blinking cursor
    25: True,  # visible cursor
    45: False,  # backspace goes to the line above
    MARGINS: False,  # left and right
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
    2031: False,  # reports of light or dark colours
}
UNDO: Final = "".join(
    (
        f"\x1b[?1049l\x1b[?{ORIGIN}l\x1b[?{MARGINS}l\x1b[r\x1b[{INSERT}l\x1b[{NEWLINE}l\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[0m",
        "\x1b>\x1b[0 q\x1b[>4;0m\x1b[<16u\x1b[=0;1u",
        *(f"\x1b[?{mode}{'h' if on else 'l'}" for mode, on in DEFAULTS.items() if mode not in (ORIGIN, MARGINS)),
    )
).encode()
"""Resets every mode and state to that of a new terminal."""
CLEAR_HISTORY: Final = b"\x1b[3J"
