"""What a terminal shows after what a program prints."""

import tracemalloc

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminals.emulator import Emulator
from fairlead.terminals.modes import PASTE
from fairlead.terminals.style import PLAIN, Style
from fairlead.terminals.surface import HISTORY_BYTES
from terminals.streams import COLUMNS, RECORDED, ROWS, STREAMS, recorded, state


def shown(data: bytes | str, columns: int = 10, rows: int = 3) -> Emulator:
    terminal = Emulator(columns, rows)
    terminal.feed(data.encode() if isinstance(data, str) else data)
    return terminal


CASES: list[tuple[str, list[str], tuple[int, int]]] = [
    ("one\r\ntwo", ["one", "two", ""], (3, 1)),
    ("a\nb", ["a", " b", ""], (2, 1)),
    ("1\r\n2\r\n3\r\n4", ["2", "3", "4"], (1, 2)),
    ("0123456789AB", ["0123456789", "AB", ""], (2, 1)),
    ("0123456789\r\nB", ["0123456789", "B", ""], (1, 1)),
    ("\x1b[?7l0123456789AB", ["012345678B", "", ""], (10, 0)),
    ("abc\b\bX", ["aXc", "", ""], (2, 0)),
    ("a\tb", ["a       b", "", ""], (9, 0)),
    ("\x1b[3ga\tb", ["a        b", "", ""], (10, 0)),
    ("abc\x1b[2D\x1b[K", ["a", "", ""], (1, 0)),
    ("abc\x1b[2D\x1b[1K", ["  c", "", ""], (1, 0)),
    ("abc\x1b[2K", ["", "", ""], (3, 0)),
    ("a\r\nb\r\nc\x1b[2;1H\x1b[J", ["a", "", ""], (0, 1)),
    ("a\r\nb\r\nc\x1b[2;1H\x1b[1J", ["", "", "c"], (0, 1)),
    ("a\r\nb\x1b[2J", ["", "", ""], (1, 1)),
    ("abcdef\x1b[1;3H\x1b[2P", ["abef", "", ""], (2, 0)),
    ("abcdef\x1b[1;3H\x1b[2@", ["ab  cdef", "", ""], (2, 0)),
    ("abcdef\x1b[1;3H\x1b[2X", ["ab  ef", "", ""], (2, 0)),
    ("abc\x1b[4h\rX", ["Xabc", "", ""], (1, 0)),
    ("a\r\nb\r\nc\x1b[1;1H\x1b[L", ["", "a", "b"], (0, 0)),
    ("a\r\nb\r\nc\x1b[1;1H\x1b[M", ["b", "c", ""], (0, 0)),
    ("a\r\nb\r\nc\x1b[S", ["b", "c", ""], (1, 2)),
    ("a\r\nb\r\nc\x1b[T", ["", "a", "b"], (1, 2)),
    ("a\x1b[1;1H\x1bM", ["", "a", ""], (0, 0)),
    ("a\r\nb\r\nc\x1b[2;3r\x1b[3;1H\nX", ["a", "c", "X"], (1, 2)),
    ("\x1b[2;3r\x1b[?6h\x1b[1;1HX", ["", "X", ""], (1, 1)),
    ("ab\x1b7\x1b[3;1Hx\x1b8c", ["abc", "", "x"], (3, 0)),
    ("x\x1b[5b", ["xxxxxx", "", ""], (6, 0)),
    ("日本", ["日本", "", ""], (4, 0)),
    ("012345678日", ["012345678", "日", ""], (2, 1)),
    ("日\rx", ["x", "", ""], (1, 0)),
    ("e\u0301x", ["e\u0301x", "", ""], (2, 0)),
    ("\x1b(0lqk\x1b(Bq", ["┌─┐q", "", ""], (4, 0)),
    ("\x1b)0q\x0eq\x0fq", ["q─q", "", ""], (3, 0)),
    ("main\x1b[?1049hother", ["    other", "", ""], (9, 0)),
    ("main\x1b[?1049hother\x1b[?1049l!", ["main!", "", ""], (5, 0)),
    ("\x1b#8", ["EEEEEEEEEE"] * 3, (0, 0)),
    ("a\x1bcb", ["b", "", ""], (1, 0)),
    ("a\x1b]0;title\x07b\x1bPq#0\x1b\\c\x1b_x\x1b\\d", ["abcd", "", ""], (4, 0)),
    ("\x1b[>4;2m\x1b[>1u\x1b[?25l\x1b[2 qa", ["a", "", ""], (1, 0)),
    ("\x1b[1;2;3;4Ha\x1b[9J\x1b[5K", [" a", "", ""], (2, 0)),
    ("\x1b[99999999999;1HX\x1b[9999999A\x1b[99999999999999999999C", ["", "", "X"], (9, 0)),
]


@pytest.mark.parametrize(("given", "lines", "cursor"), CASES, ids=[repr(case[0])[1:-1] for case in CASES])
def test_what_is_on_the_screen(given: str, lines: list[str], cursor: tuple[int, int]) -> None:
    terminal = shown(given)
    assert list(terminal.lines()) == lines
    assert (terminal.x, terminal.y) == cursor


@pytest.mark.parametrize(
    ("given", "style"),
    [
        ("1;31", Style(fg="31", flags=1)),
        ("2;3;7;9", Style(flags=2 | 4 | 16 | 64)),
        ("1;2;22", PLAIN),
        ("38;5;200;48;5;17", Style(fg="38;5;200", bg="48;5;17")),
        ("38;2;1;2;3", Style(fg="38;2;1;2;3")),
        ("38:2::1:2:3", Style(fg="38;2;1;2;3")),
        ("38:2:1:2:3", Style(fg="38;2;1;2;3")),
        ("38;5;999;1", Style(flags=1)),
        ("38;2;1;2", PLAIN),
        ("31;39;41;49", PLAIN),
        ("4:3;58:5:9", Style(under="4:3", under_colour="58:5:9")),
        ("4;24", PLAIN),
        ("4:3;4:0", PLAIN),
        ("31;;1", Style(flags=1)),
        ("94;105", Style(fg="94", bg="105")),
        ("31;999999;77", Style(fg="31")),
    ],
)
def test_how_a_letter_looks(given: str, style: Style) -> None:
    assert shown(f"\x1b[{given}m").style == style
    assert shown(style.sgr()).style == style


def test_what_is_erased_keeps_the_colour_behind() -> None:
    terminal = shown("\x1b[1;44;4mab\x1b[K")
    assert terminal.grid.rows[0].styles[1:3] == [Style(bg="44", under="4", flags=1), Style(bg="44")]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("\x1b[c", b"\x1b[?62;22c"),
        ("\x1b[>c", b"\x1b[>0;0;0c"),
        ("\x1b[5n", b"\x1b[0n"),
        ("abc\x1b[6n", b"\x1b[1;4R"),
        ("0123456789\x1b[?6n", b"\x1b[?1;10R"),
        ("\x1b[18t", b"\x1b[8;3;10t"),
        ("\x1b[?2026$p", b"\x1b[?2026;0$y"),
        ("\x1bZ", b"\x1b[?62;22c"),
        ("\x05", b""),
        ("\x1b]11;?\x07", b""),
        ("\x1b]4;1;?\x1b\\", b""),
        ("\x1bP+q544e\x1b\\", b""),
        ("\x1bP$qm\x1b\\", b""),
        ("\x1b[?u", b""),
        ("\x1b[>q", b""),
    ],
)
def test_a_question_is_answered_here_and_asks_no_watcher(asked: str, answer: bytes) -> None:
    fed = Emulator(10, 3).feed(asked.encode() + b".")
    assert fed.answers == answer
    assert fed.output in (b".", b"abc.", b"0123456789.")


@pytest.mark.parametrize(
    "told", ["\x1b[1;5H", "\x1b]11;#fff\x07", "\x1b[u", "\x1b[s", "\x1b[22;0t", "\x1b[>1u", "\x07"]
)
def test_what_is_no_question_is_passed_on(told: str) -> None:
    assert Emulator(10, 3).feed(told.encode()) == (told.encode(), b"")


def test_modes_are_remembered() -> None:
    terminal = shown("\x1b[?2004h\x1b[?1;1000;1006h\x1b=\x1b]2;it\x07\x1b[>4;2m")
    on = {mode for mode, value in terminal.modes.private.items() if value}
    assert {PASTE, 1, 1000, 1006} < on
    assert (terminal.modes.keypad, terminal.modes.title, terminal.modes.modify_keys) == (True, "it", 2)
    terminal.feed(b"\x1b[?2004l\x1b[!p")
    off = {mode for mode, value in terminal.modes.private.items() if not value}
    assert {PASTE, 1} < off


@pytest.mark.parametrize(("size", "lines", "row"), [((5, 3), ["one", "two", "three"], 2), ((3, 2), ["two", "thr"], 1)])
def test_a_smaller_size_keeps_the_cursor_on_it(size: tuple[int, int], lines: list[str], row: int) -> None:
    terminal = shown("one\r\ntwo\r\nthree")
    terminal.resize(*size)
    assert (list(terminal.lines()), terminal.y) == (lines, row)


def test_lines_that_leave_by_a_smaller_size_are_history() -> None:
    terminal = shown("one\r\ntwo\r\nthree")
    terminal.resize(10, 1)
    assert list(terminal.history.lines) == [b"one", b"two"]


@given(STREAMS, st.lists(st.tuples(st.integers(2, 20), st.integers(1, 8)), max_size=4), STREAMS)
def test_no_size_breaks_it(before: bytes, sizes: list[tuple[int, int]], after: bytes) -> None:
    terminal = shown(before)
    for size in sizes:
        terminal.resize(*size)
        terminal.feed(after)
    assert all(len(row.chars) == len(row.styles) == terminal.columns for row in terminal.grid.rows)
    assert len(terminal.grid.rows) == terminal.rows
    assert 0 <= terminal.y < terminal.rows and 0 <= terminal.x <= terminal.columns


@given(st.binary(max_size=300) | st.text("\x1b[]?;0189hlHJKmqPr$ \x07\\é日", max_size=200).map(str.encode))
def test_nothing_that_is_fed_to_it_breaks_it(data: bytes) -> None:
    terminal = shown(data, 7, 3)
    terminal.feed(b"\x18\x1b\\\x1bc")
    assert terminal.lines() == ("", "", "")


@given(STREAMS, st.lists(st.integers(0, 10**6), max_size=5))
def test_the_same_however_it_is_split(stream: bytes, places: list[int]) -> None:
    whole, split = Emulator(9, 4), Emulator(9, 4)
    whole.feed(stream)
    ends = sorted({place % (len(stream) + 1) for place in places})
    for start, end in zip([0, *ends], [*ends, len(stream)], strict=True):
        split.feed(stream[start:end])
    assert state(split) == state(whole)


@pytest.mark.parametrize("name", RECORDED)
def test_the_output_of_a_real_program_says_the_same(name: str) -> None:
    """What watchers are given, without the questions, ends in the same state."""
    program, watcher = Emulator(COLUMNS, ROWS), Emulator(COLUMNS, ROWS)
    fed = program.feed(recorded(name))
    assert watcher.feed(fed.output).answers == b""
    assert state(watcher) == state(program)


def test_another_terminal_shows_the_same_of_a_shell() -> None:
    theirs = pyte.Screen(COLUMNS, ROWS)
    pyte.ByteStream(theirs).feed(recorded("bash"))
    assert [line.rstrip() for line in theirs.display] == list(shown(recorded("bash"), COLUMNS, ROWS).lines())


HOSTILE = {
    "one-letter lines": b"y\n",
    "empty lines": b"\n",
    "an OSC without an end": b"\x1b]2;" + b"x" * 1000,
    "marks on one letter": "\u0301".encode() * 500,
    "numbers": b"\x1b[" + b"9" * 1000 + b"m",
    "many numbers": b"\x1b[" + b"1;" * 500 + b"m",
    "keys pushed": b"\x1b[>1u" * 100,
    "titles": b"\x1b]2;" + b"t" * 1000 + b"\x07",
    "colours": b"".join(b"\x1b[38;2;%d;%d;7mx" % (n % 256, n // 256) for n in range(300)),
    "repeats": b"x\x1b[9999b" * 50,
    "tabs": b"\x1bH\x1b[C" * 100,
    "not UTF-8": bytes(range(128, 256)) * 4,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_memory_is_bounded(what: str) -> None:
    data = HOSTILE[what] * (1000 // len(HOSTILE[what]) + 1)
    terminal = Emulator(80, 24)
    tracemalloc.start()
    try:
        fed = 0
        while fed < 60_000:
            terminal.feed(data)
            fed += len(data)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * HISTORY_BYTES


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith("claude")])
def test_the_prompt_of_the_real_cli_is_on_the_screen(name: str) -> None:
    """Recorded after one answer of a scripted model."""
    terminal = shown(recorded(name), COLUMNS, ROWS)
    lines = [line.replace("\xa0", " ").rstrip() for line in terminal.lines()]
    assert "● Hello! I am a scripted model: nothing here is thought up, and nothing leaves" in lines
    assert "❯" in lines[lines.index("  fairlead doctor --scripts lists them all.") :]
    assert terminal.modes[PASTE]
