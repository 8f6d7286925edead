"""Byte streams of real programs, recorded at 80 by 24, and made-up ones; and what two terminals are compared by."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fairlead.terminals.emulator import Emulator

FOLDER = Path(__file__).parents[1] / "golden" / "terminals"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.bin"))
COLUMNS, ROWS = 80, 24


def recorded(name: str) -> bytes:
    return (FOLDER / f"{name}.bin").read_bytes()


def state(terminal: Emulator) -> dict[str, Any]:
    """All that can be told apart by whatever a program does next; of the history, what a redraw carries."""
    surfaces = {"main": terminal.main, "alternate": terminal.alternate}
    return {
        "size": (terminal.columns, terminal.rows),
        "cursor": (terminal.x, terminal.y, terminal.style, terminal.sets, terminal.shifted),
        "region": (terminal.top, terminal.bottom),
        "tabs": terminal.tabs,
        "modes": vars(terminal.modes),
        "surfaces": {
            name: surface
            and ([(row.chars, row.styles) for row in surface.grid.rows], surface.saved, surface.keys.stack)
            for name, surface in surfaces.items()
        },
        "history": list(terminal.history.lines),
    }


_numbers = st.lists(st.integers(0, 30), max_size=3).map(lambda given: ";".join(map(str, given)))
_csi = st.tuples(_numbers, st.sampled_from("ABCDEFGHIJKLMPSTXZ@`abdefghlrsu")).map(
    lambda given: "\x1b[" + "".join(given)
)
_sgr = st.lists(
    st.sampled_from(
        [
            *map(str, (0, 1, 2, 3, 4, 7, 9, 21, 22, 24, 27, 31, 39, 42, 49, 53, 59, 95, 104)),
            *("4:3", "38;5;200", "48;5;17", "38;2;1;2;3", "48:2::9:8:7", "58:5:9"),
        ]
    ),
    min_size=1,
    max_size=3,
).map(lambda given: f"\x1b[{';'.join(given)}m")
_mode = st.tuples(
    st.sampled_from([1, 5, 6, 7, 25, 47, 1000, 1003, 1004, 1006, 1047, 1048, 1049, 2004]), st.sampled_from("hl")
).map(lambda given: f"\x1b[?{given[0]}{given[1]}")
_single = st.sampled_from(
    [
        *(f"\x1b{final}" for final in ("7", "8", "D", "E", "H", "M", "c", "=", ">", "(0", "(B", ")0", "#8")),
        *(f"\x1b[{rest}" for rest in ("!p", "2 q", "4h", "4l", "20h", "20l", ">4;2m", ">5u", "<1u", "=3;2u")),
        *("\x0e", "\x0f", "\r", "\n", "\b", "\t", "\r\n\r\n\r\n", "\x1b]2;a title\x07"),
    ]
)
_text = st.text(st.sampled_from("abc XYZ qjx日本é✓\u0301─🙂"), min_size=1, max_size=30)
PIECES = st.one_of(_text, _text, _csi, _sgr, _sgr, _mode, _single)
"""What terminals know, each piece a whole."""
STREAMS = st.lists(PIECES, max_size=40).map(lambda pieces: "".join(pieces).encode())


def halves(stream: bytes) -> st.SearchStrategy[tuple[bytes, bytes]]:
    return st.integers(0, len(stream)).map(lambda at: (stream[:at], stream[at:]))
