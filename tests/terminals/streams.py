"""Byte streams of real programs, recorded at 80 by 24, and generated ones; and the state that tests compare."""

from pathlib import Path

from hypothesis import strategies as st

from fairlead.terminals.screen.emulator import HISTORY_BYTES, Emulator
from fairlead.terminals.screen.ghostty import Vt
from fairlead.terminals.screen.snapshot import ScreenSnapshot, take_snapshot

FOLDER = Path(__file__).parents[1] / "golden" / "terminals"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.bin"))
COLUMNS, ROWS = 80, 24


def recorded(name: str) -> bytes:
    return (FOLDER / f"{name}.bin").read_bytes()


def watcher(columns: int, rows: int) -> Vt:
    """A terminal without our emulator in front of it, like a user's own."""
    return Vt.new(columns, rows, HISTORY_BYTES)


def state(terminal: Emulator | Vt) -> ScreenSnapshot:
    """All state that further output could reveal, except for blanks at the end of a line: a printed blank looks like an
    empty cell."""
    seen = take_snapshot(terminal.vt if isinstance(terminal, Emulator) else terminal)
    upper = seen.alternate
    return seen._replace(
        history=_unended(seen.history),
        main=seen.main._replace(lines=_unended(seen.main.lines)),
        alternate=upper and upper._replace(lines=_unended(upper.lines)),
    )


def _unended(lines: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(line.rstrip(b" ") for line in lines)


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
        *(f"\x1b{final}" for final in ("7", "8", "D", "E", "H", "M", "c", "=", ">", "(B", "#8")),
        *(f"\x1b[{rest}" for rest in ("!p", "2 q", "4h", "4l", "20h", "20l", ">4;2m", ">5u", "<1u", "=3;2u")),
        *(
            "\x1b(0lqk\x1b[Cx\x1b(B",
            "\x1b)0\x0eqq\x1b7x\x1b8\x0fq",
            "\x1b(0x\x1b7\x1b(B",
            "\r",
            "\n",
            "\b",
            "\t",
            "\r\n\r\n\r\n",
            "\x1b]2;a title\x07",
        ),
    ]
)
_text = st.text(st.sampled_from("abc XYZ qjxé✓\u0301─"), min_size=1, max_size=30)
_wide = st.sampled_from(["日本", "🙂", "本\u0301x"]).map("\x1b(B\x0f\r{}".format)
"""At the left edge, because the cell that a wide character leaves free when it wraps may keep its style. Not in the
line-drawing set: terminals differ in that, and no program does it."""
PIECES = st.one_of(_text, _text, _wide, _csi, _sgr, _sgr, _mode, _single)
"""Complete sequences and texts that terminals support."""
STREAMS = st.lists(PIECES, max_size=40).map(lambda pieces: "".join(pieces).encode())


def halves(stream: bytes) -> st.SearchStrategy[tuple[bytes, bytes]]:
    return st.integers(0, len(stream)).map(lambda at: (stream[:at], stream[at:]))
