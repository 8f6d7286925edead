"""Encodes a redraw: bytes that make any terminal of the same size show the emulator's state. Pure.

They first reset the receiver's state, so they can be sent at any moment between two outputs.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from fairlead.terminals.screen.emulator import Emulator
from fairlead.terminals.screen.ghostty import EmulatorFault
from fairlead.terminals.screen.modes import CLEAR_HISTORY, DEFAULTS, INSERT, MARGINS, NEWLINE, ORIGIN, UNDO
from fairlead.terminals.screen.snapshot import PLAIN_STYLE, ScreenSnapshot, place, switch, take_snapshot

_CLEAN: Final = UNDO + b"\x1b[?25l\x1b[H\x1b[2J" + CLEAR_HISTORY
_SAVE: Final = b"\x1b7"
_TO_ALTERNATE: Final = b"\x1b[?1049h" + PLAIN_STYLE + b"\x1b[H\x1b[2J"
"""Mode 1049 saves the cursor of the main screen."""


def redraw(terminal: Emulator, most: int) -> bytes:
    """Encode a redraw with at most about `most` bytes of history; the screens themselves are always complete."""
    try:
        seen = take_snapshot(terminal.vt)
    except EmulatorFault:
        return _text(terminal)
    parts = [_CLEAN, seen.tabs]
    parts += [line + b"\r\n" for line in _newest(seen.history, most)]
    parts.append(b"\r\n".join(seen.main.lines))
    surface = seen.main
    if seen.alternate is not None:
        surface = seen.alternate
        parts += [*_keys(seen.main.keys), *place(seen.main.saved, b""), _TO_ALTERNATE, b"\r\n".join(surface.lines)]
    if seen.modes[MARGINS]:
        parts.append(switch(MARGINS, True))
    parts.append(seen.region)
    parts += [*place(surface.saved, seen.region), _SAVE, switch(ORIGIN, False)]
    parts += place(seen.cursor, seen.region)
    parts += [*_keys(surface.keys), *_modes(seen)]
    return b"".join(parts)


def _text(terminal: Emulator) -> bytes:
    """The text of a screen that cannot be copied, without styles. The program draws over it sooner or later."""
    place = f"\x1b[{terminal.y + 1};{min(terminal.x, terminal.columns - 1) + 1}H\x1b[?25h"
    return _CLEAN + "\r\n".join(terminal.lines()).encode() + place.encode()


def _newest(history: tuple[bytes, ...], most: int) -> Iterable[bytes]:
    """The last lines that fit into `most` bytes, including their line ends."""
    count = size = 0
    for line in reversed(history):
        size += len(line) + 2
        if size > most:
            break
        count += 1
    return islice(history, len(history) - count, None)


def _modes(seen: ScreenSnapshot) -> list[bytes]:
    parts = [b"\x1b[%dh" % mode for mode, on in ((INSERT, seen.insert), (NEWLINE, seen.newline)) if on]
    if seen.keypad:
        parts.append(b"\x1b=")
    if seen.shape:
        parts.append(b"\x1b[%d q" % seen.shape)
    parts.append(seen.keyboard)
    for mode, on in seen.modes.items():
        # Mode 25 always: the cursor was hidden for the drawing.
        if mode not in (ORIGIN, MARGINS) and (on != DEFAULTS[mode] or mode == 25):
            parts.append(switch(mode, on))
    parts.append(f"\x1b]2;{seen.title}\x07".encode())
    return parts


def _keys(flags: tuple[int, ...]) -> list[bytes]:
    return [b"\x1b[>%du" % number for number in flags]
