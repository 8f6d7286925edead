"""Drawing a whole terminal anew: bytes that make any terminal of the same size show what the emulator holds. Pure.

They begin by undoing whatever the receiver was left with, so they can be sent at any moment between two outputs.
"""

from typing import Final

from fairlead.terminals.emulator import Emulator
from fairlead.terminals.modes import DEFAULTS, ORIGIN
from fairlead.terminals.surface import Saved

UNDO: Final = "".join(
    (
        "\x1b[?1049l\x1b[?6l\x1b[r\x1b[4l\x1b[20l\x1b(B\x1b)B\x0f\x1b[0m",
        "\x1b>\x1b[0 q\x1b[>4;0m\x1b[<16u\x1b[=0;1u",
        *(f"\x1b[?{mode}{'h' if on else 'l'}" for mode, on in DEFAULTS.items() if mode != ORIGIN),
    )
).encode()
"""Every mode and state as a new terminal has it."""
CLEAR_HISTORY: Final = b"\x1b[3J"
_CLEAN: Final = UNDO.decode() + "\x1b[?25l\x1b[H\x1b[2J" + CLEAR_HISTORY.decode() + "\x1b[3g"


def redraw(terminal: Emulator, most: int) -> bytes:
    """At most about `most` bytes of it are history; the screens themselves are always whole."""
    parts = [_CLEAN]
    parts += [f"\x1b[{tab + 1}G\x1bH" for tab in sorted(terminal.tabs)]
    parts.append("\r")
    parts += [f"{line.decode()}\r\n" for line in terminal.history.newest(most)]
    parts.append("\r\n".join(row.draw() for row in terminal.main.grid.rows))
    if terminal.alternate is not None:
        # Entering the other screen keeps the cursor of this one.
        parts += [
            *_keys(terminal.main.keys.stack),
            _place(terminal.main.saved),
            "\x1b[?1049h\x1b[0m\x1b(B\x1b)B\x0f\x1b[H",
        ]
        parts.append("\r\n".join(row.draw() for row in terminal.alternate.grid.rows))
    parts += [_place(terminal.surface.saved), "\x1b7"]
    parts += _region(terminal)
    parts += _cursor(terminal)
    parts += _modes(terminal)
    return "".join(parts).encode()


def _place(saved: Saved) -> str:
    return f"\x1b[{saved.y + 1};{saved.x + 1}H{saved.style.sgr()}{_sets(saved.sets, saved.shifted)}"


def _sets(sets: tuple[str, str], shifted: bool) -> str:
    shift = "\x0e" if shifted else "\x0f"
    return f"\x1b({sets[0]}\x1b){sets[1]}{shift}"


def _region(terminal: Emulator) -> list[str]:
    parts = []
    if (terminal.top, terminal.bottom) != (0, terminal.rows - 1):
        parts.append(f"\x1b[{terminal.top + 1};{terminal.bottom + 1}r")
    if terminal.modes[ORIGIN]:
        parts.append("\x1b[?6h")
    return parts


def _cursor(terminal: Emulator) -> list[str]:
    """Where it is. Behind a full line it gets by writing that line's last character once more."""
    y = terminal.y - terminal.top if terminal.modes[ORIGIN] else terminal.y
    parts = ["\x1b(B\x1b)B\x0f"]
    if terminal.x < terminal.columns:
        parts.append(f"\x1b[{y + 1};{terminal.x + 1}H")
    else:
        row = terminal.grid.rows[terminal.y]
        last = terminal.columns - 1
        if row.chars[last] == "":
            last -= 1
        parts.append(f"\x1b[{y + 1};{last + 1}H{row.styles[last].sgr()}{row.chars[last]}")
    parts += [terminal.style.sgr(), _sets(terminal.sets, terminal.shifted)]
    return parts


def _modes(terminal: Emulator) -> list[str]:
    modes = terminal.modes
    parts = [*_keys(terminal.surface.keys.stack)]
    if modes.insert:
        parts.append("\x1b[4h")
    if modes.newline:
        parts.append("\x1b[20h")
    if modes.keypad:
        parts.append("\x1b=")
    if modes.shape:
        parts.append(f"\x1b[{modes.shape} q")
    if modes.modify_keys:
        parts.append(f"\x1b[>4;{modes.modify_keys}m")
    for mode, on in modes.private.items():
        # The cursor was hidden for the drawing.
        if mode != ORIGIN and (on != DEFAULTS[mode] or mode == 25):
            parts.append(f"\x1b[?{mode}{'h' if on else 'l'}")
    parts.append(f"\x1b]2;{modes.title}\x07")
    return parts


def _keys(stack: list[int]) -> list[str]:
    if stack == [0]:
        return []
    return [f"\x1b[={stack[0]};1u", *(f"\x1b[>{flags}u" for flags in stack[1:])]
