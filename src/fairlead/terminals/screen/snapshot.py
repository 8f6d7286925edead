"""Reads the complete state of a terminal from the emulator, each part as the bytes that restore it.

The emulator exposes only the screen in use. The screen below it, and saved state (a saved cursor, earlier key flags),
are read from a copy, by writing to it the sequences that a program could write.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fairlead.terminals.screen.ghostty import CELL_BYTES, VT, Vt
from fairlead.terminals.screen.modes import DEFAULTS, INSERT, KEYPAD, NEWLINE, ORIGIN

_RESET: Final = b"\x1b[0m"
_STYLES: Final = re.compile(rb"(?:\x1b\[[0-9;:]*m)+")
_TO_MAIN: Final = b"\x1b[?47l"
_RESTORE: Final = b"\x1b8"
_POP_KEYS: Final = b"\x1b[<1u"
_NEUTRAL: Final = b'\x1b[?6l\x1b[?69l\x1b[r\x1b[4l\x1b[0"q\x1b(B\x1b)B\x0f\x1b[0m'
PLAIN_STYLE: Final = b"\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[0m"
_PLACE: Final = re.compile(rb"\x1b\[(\d+);(\d+)H")
_CORNER: Final = re.compile(rb"(?:\x1b\[(\d+);\d+r)?(?:\x1b\[(\d+);\d+s)?")
_NOTHING: Final = bytes(CELL_BYTES)
_WIDE_BLANK: Final = re.compile(rb"\x80\x00\x00[\x00-\xff]{2}[\x04-\x07]", re.DOTALL)
"""A cell in memory: the character in bits 2 to 25, its style, the width 2 in bit 42."""
_GAP: Final = re.compile(rb"\x00+")
_MOST_HISTORY: Final = 2000
"""History lines in a snapshot: the emulator keeps more if they are short."""
_MOST_KEYS: Final = 8
"""How many key flags the emulator keeps for each screen."""
_NO_SETS: Final = re.compile(rb"\x1b[()*+]B")


class ScreenCursor(NamedTuple):
    """`place` counts from the corner of the screen; after a full line it writes that line's last character again."""

    place: bytes
    style: bytes
    sets: bytes
    origin: bool


class ScreenBuffer(NamedTuple):
    """One of the two screens: its lines, the cursor saved by ESC 7, and its key flags (the last are in use)."""

    lines: tuple[bytes, ...]
    saved: ScreenCursor
    keys: tuple[int, ...]


class ScreenSnapshot(NamedTuple):
    history: tuple[bytes, ...]
    main: ScreenBuffer
    alternate: ScreenBuffer | None
    cursor: ScreenCursor
    region: bytes
    tabs: bytes
    modes: dict[int, bool]
    insert: bool
    newline: bool
    keypad: bool
    shape: int
    keyboard: bytes
    title: str


def take_snapshot(terminal: Vt) -> ScreenSnapshot:
    alternate = terminal.number("ACTIVE_SCREEN") == 1
    copy = terminal.copy()
    shape = copy.shape()
    upper = None
    if alternate:
        saved, keys = _put_aside(copy)
        upper = ScreenBuffer(_lines(copy), saved, keys)
        copy.write(_TO_MAIN)
    saved, keys = _put_aside(copy)
    history, lines = _with_history(copy)
    return ScreenSnapshot(
        history=history,
        main=ScreenBuffer(lines, saved, keys),
        alternate=upper,
        cursor=cursor(terminal),
        region=region(terminal),
        tabs=_before(terminal, "tabstops"),
        modes={mode: terminal.mode(mode) for mode in DEFAULTS},
        insert=terminal.mode(INSERT, ansi=True),
        newline=terminal.mode(NEWLINE, ansi=True),
        keypad=terminal.mode(KEYPAD),
        shape=shape,
        keyboard=_after(terminal, "keyboard"),
        title=terminal.title(),
    )


def _put_aside(copy: Vt) -> tuple[ScreenCursor, tuple[int, ...]]:
    """The saved cursor and the key flags of the screen in use. Afterwards the copy has no key flags and no modes."""
    keys = []
    for _ in range(_MOST_KEYS):
        keys.append(copy.number("KITTY_KEYBOARD_FLAGS"))
        copy.write(_POP_KEYS)
    while keys and keys[-1] == 0:
        keys.pop()
    copy.write(_RESTORE)
    saved = cursor(copy)
    copy.write(_NEUTRAL)
    return saved, tuple(reversed(keys))


def region(terminal: Vt) -> bytes:
    return _after(terminal, "scrolling_region")


def cursor(terminal: Vt) -> ScreenCursor:
    sets = _NO_SETS.sub(b"", _after(terminal, "charsets"))
    place = _after(terminal, "cursor")
    if terminal.number("CURSOR_PENDING_WRAP") and place.endswith(b"H"):
        # The character before the cursor is gone since: a blank moves the cursor there.
        colour = terminal.background(terminal.number("CURSOR_X"), terminal.number("CURSOR_Y"))
        place += f"\x1b[0m\x1b[{colour}m \x1b[0m".encode() if colour else b" "
    return ScreenCursor(place, _after(terminal, "style"), sets, terminal.mode(ORIGIN))


def _lines(copy: Vt) -> tuple[bytes, ...]:
    """The bytes that draw each line of the screen. The emulator would draw cells that were never written in the style
    of the last character before them, and leave out a line that has only colours; so these cells get blanks first."""
    rows = copy.number("ROWS")
    drawn = copy.format(VT, 0, rows - 1).split(b"\r\n")
    for y, cells in enumerate(copy.cells()):
        for x in _wide_blanks(cells):
            copy.write(b"\x1b[%d;%dH\x1b[0m  " % (y + 1, x + 1))
        used = -(-len(cells.rstrip(b"\x00")) // CELL_BYTES)
        for start, end in _gaps(cells[: used * CELL_BYTES]):
            copy.write(b"\x1b[%d;%dH\x1b[0m%*b" % (y + 1, start + 1, end - start, b""))
        if used and not (y < len(drawn) and drawn[y]):
            copy.write(f"\x1b[{y + 1};{used}H\x1b[{copy.background(used - 1, y)}m ".encode())
    lines = tuple(_whole(copy.format(VT, 0, rows - 1)))
    return lines + (b"",) * (rows - len(lines))


def _wide_blanks(cells: bytes) -> Iterator[int]:
    """The columns of wide cells that show nothing. The emulator makes them of a wide character in the line-drawing set,
    and no output draws them: two blanks look the same (an accent that follows does not)."""
    for found in _WIDE_BLANK.finditer(cells):
        if found.start() % CELL_BYTES == 0:
            yield found.start() // CELL_BYTES


def _gaps(cells: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of empty cells, as (start, end)."""
    if _NOTHING in cells:
        mask = bytes(map(bool, memoryview(cells).cast("Q")))
        yield from (gap.span() for gap in _GAP.finditer(mask))


def _with_history(copy: Vt) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The history and the lines of the screen; the copy is enlarged until all of it is on the screen."""
    rows, gone = copy.number("ROWS"), min(copy.number("SCROLLBACK_ROWS"), _MOST_HISTORY)
    copy.write(b"\x1b[%dH" % rows)
    copy.resize(copy.number("COLS"), rows + gone)
    lines = _lines(copy)
    return lines[:gone], lines[gone:]


def _whole(drawn: bytes) -> Iterator[bytes]:
    """Split into lines, each of which begins and ends with a plain style."""
    style = b""
    for line in drawn.split(b"\r\n"):
        before = style
        for found in _STYLES.finditer(line):
            style = found.group()
        if style == _RESET:
            style = b""
        yield before + line + (_RESET if style else b"")


def _after(terminal: Vt, extra: str) -> bytes:
    return terminal.format(VT, 0, 0, extra).removeprefix(terminal.format(VT, 0, 0))


def _before(terminal: Vt, extra: str) -> bytes:
    return terminal.format(VT, 0, 0, extra).removesuffix(terminal.format(VT, 0, 0))


def place(of: ScreenCursor, within: bytes) -> list[bytes]:
    """The bytes that restore a cursor, in any region. Origin mode must be off before."""
    at = of.place
    parts = [PLAIN_STYLE]
    if of.origin:
        # In origin mode, positions count from the corner of the region.
        parts.append(switch(ORIGIN, True))
        corner = _CORNER.match(within)
        top, left = (int(number or 1) - 1 for number in corner.groups()) if corner is not None else (0, 0)
        at = _PLACE.sub(lambda found: b"\x1b[%d;%dH" % (int(found[1]) - top, int(found[2]) - left), at, count=1)
    return [*parts, at, of.sets, of.style]


def switch(mode: int, on: bool) -> bytes:
    return b"\x1b[?%d%c" % (mode, b"h" if on else b"l")
