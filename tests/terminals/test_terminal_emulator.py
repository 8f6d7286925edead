"""The screen of a terminal after the output of a program."""

import os
import subprocess
import sys
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminals.screen.emulator import HISTORY_BYTES, TITLE_LENGTH, Emulator
from fairlead.terminals.screen.modes import DEFAULTS, PASTE
from fairlead.terminals.screen.redraw import redraw
from terminals.streams import COLUMNS, RECORDED, ROWS, STREAMS, recorded, state, watcher


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
    ("\x1b[1;2Ha\x1b[9J\x1b[5K", [" a", "", ""], (2, 0)),
    ("\x1b[99999999999;1HX\x1b[9999999A\x1b[99999999999999999999C", ["", "", "X"], (9, 0)),
]


@pytest.mark.parametrize(("given", "lines", "cursor"), CASES, ids=[repr(case[0])[1:-1] for case in CASES])
def test_screen_and_cursor_after_output(given: str, lines: list[str], cursor: tuple[int, int]) -> None:
    terminal = shown(given)
    assert list(terminal.lines()) == lines
    assert (terminal.x, terminal.y) == cursor


def test_erased_cells_keep_the_background_colour() -> None:
    assert state(shown("\x1b[1;44;4mab\x1b[K", 4, 1)).main.lines == (
        b"\x1b[0m\x1b[1m\x1b[4m\x1b[48;5;4mab\x1b[0m\x1b[48;5;4m  \x1b[0m",
    )


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("\x1b[c", b"\x1b[?62;22c"),
        ("\x1b[>c", b"\x1b[>1;0;0c"),
        ("\x1b[5n", b"\x1b[0n"),
        ("abc\x1b[6n", b"\x1b[1;4R"),
        ("0123456789\x1b[?6n", b"\x1b[?1;10R"),
        ("\x1b[18t", b"\x1b[8;3;10t"),
        ("\x1b[?2026$p", b"\x1b[?2026;0$y"),
        ("\x1b[?25$p", b"\x1b[?25;1$y"),
        ("\x1b[?1007$p", b"\x1b[?1007;2$y"),
        ("\x1b[4$p", b"\x1b[4;2$y"),
        ("\x1bZ", b"\x1b[?62;22c"),
        ("\x05", b""),
        ("\x1b]11;?\x07", b""),
        ("\x1b]4;1;?\x1b\\", b""),
        ("\x1bP+q544e\x1b\\", b""),
        ("\x1bP$qm\x1b\\", b"\x1bP1$r0m\x1b\\"),
        ("\x1bP$qr\x1b\\", b"\x1bP1$r1;3r\x1b\\"),
        ('\x1bP$q"p\x1b\\', b""),
        ("\x1b[?u", b""),
        ("\x1b[>q", b""),
    ],
)
def test_device_query_is_answered_here_and_not_passed_to_watchers(asked: str, answer: bytes) -> None:
    fed = Emulator(10, 3).feed(asked.encode() + b".")
    assert fed.answers == ((answer,) if answer else ())
    assert fed.output in (b".", b"abc.", b"0123456789.")


@pytest.mark.parametrize(
    "sequence", ["\x1b[1;5H", "\x1b]11;#fff\x07", "\x1b[u", "\x1b[s", "\x1b[22;0t", "\x1b[>1u", "\x07"]
)
def test_other_sequences_are_passed_on(sequence: str) -> None:
    assert Emulator(10, 3).feed(sequence.encode()) == (sequence.encode(), ())


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ("x\x1b[3b", "xxxx"),
        ("x\r\n\x1b[31m\x1b[2b", "x\r\n\x1b[31mxx"),
        ("\x1b[3b", ""),
        ("\x1b[?40h\x1b[?3hx", "x"),
        ("\x1b[?2048;2004;0040hx", "\x1b[?2004hx"),
        ("\x1b[?2027lx", "x"),
        ('\x1bVx\x1bW\x1b[1"q', "x"),
        ("\x1b[?1049s\x1b[?1049r\x1b[?25;47rx", "\x1b[?25rx"),
        ("\x1b[?01049h\x1b[?1049l\x1b[?1049l", "\x1b[?1049h\x1b[2J\x1b[<16u\x1b7\x1b[2J\x1b[?1049l\x1b[?1049l"),
        ("\x1b[?47hx", "\x1b[?47h\x1b[2J\x1b[<16u\x1b7x"),
        ("\x1b[?1049h\x1b[?1049hx", "\x1b[?1049h\x1b[2J\x1b[<16u\x1b7\x1b[?1049hx"),
        ("\x1b]8;;http://localhost/\x1b\\x", "\x1b]8;;http://localhost/\x1b\\x"),
    ],
)
def test_sequences_that_terminals_interpret_differently_are_rewritten(given: str, passed_on: str) -> None:
    terminal = Emulator(10, 3)
    assert terminal.feed(given.encode()) == (passed_on.encode(), ())
    assert terminal.columns == terminal.vt.number("COLS")


def test_modes_are_remembered() -> None:
    terminal = shown("\x1b[?2004h\x1b[?1;1000;1006h\x1b=\x1b]2;it\x07\x1b[>4;2m\x1b[5 q\x1b[4h")
    seen = state(terminal)
    assert {mode for mode, on in seen.modes.items() if on != DEFAULTS[mode]} == {1, 12, 1000, 1006, PASTE}
    assert (seen.keypad, seen.insert, seen.newline, seen.shape) == (True, True, False, 5)
    assert (seen.title, seen.keyboard, terminal.vt.mode(PASTE)) == ("it", b"\x1b[>4;2m", True)
    terminal.feed(b"\x1bc")
    assert state(terminal) == state(Emulator(10, 3))


@pytest.mark.parametrize("asked", ["", "\x1b[0 q", "\x1b[2 q", "\x1b[3 q", "\x1b[6 q"])
def test_cursor_shape_is_the_default_unless_the_program_sets_it(asked: str) -> None:
    assert state(shown(asked)).shape == int(asked[2:3] or 0)


def test_a_title_is_bounded_and_has_no_controls() -> None:
    assert state(shown("\x1b]2;" + "t" * 1000 + "\x07")).title == "t" * TITLE_LENGTH
    assert state(shown("\x1b]0;one\ntwo\x07")).title == "one"


@pytest.mark.parametrize(
    ("size", "lines", "row"),
    [((6, 3), ["one", "two", "three"], 2), ((10, 2), ["two", "three"], 1), ((3, 3), ["two", "thr", "ee"], 2)],
)
def test_smaller_size_keeps_the_cursor_on_the_screen(size: tuple[int, int], lines: list[str], row: int) -> None:
    terminal = shown("one\r\ntwo\r\nthree")
    terminal.resize(*size)
    assert (list(terminal.lines()), terminal.y) == (lines, row)


def test_lines_pushed_out_by_a_smaller_size_go_into_history() -> None:
    terminal = shown("one\r\ntwo\r\nthree")
    terminal.resize(10, 1)
    assert state(terminal).history == (b"one", b"two")


@given(
    STREAMS,
    st.lists(st.tuples(st.sampled_from([2, 3, 9, 20, 500]), st.sampled_from([1, 4, 8, 200])), max_size=4),
    STREAMS,
)
def test_any_size_is_handled(before: bytes, sizes: list[tuple[int, int]], after: bytes) -> None:
    terminal = shown(before)
    for size in sizes:
        terminal.resize(*size)
        terminal.feed(after)
    assert len(terminal.lines()) == len(state(terminal).main.lines) == terminal.rows
    assert (terminal.vt.number("COLS"), terminal.vt.number("ROWS")) == (terminal.columns, terminal.rows)
    assert 0 <= terminal.y < terminal.rows and 0 <= terminal.x <= terminal.columns


@pytest.mark.parametrize("left", [b"", b"\x1b[?1049l", b"\x1b[?47l"])
def test_half_of_a_wide_character_is_not_kept(left: bytes) -> None:
    """The library cannot copy a screen that has half of a wide character."""
    terminal = shown("\x1b[?1049h\x1b[2;3r\x1b[?6h\x1b[31m日本日\x1b[2;2H".encode() + left)
    terminal.resize(3, 3)
    upper = state(terminal).alternate
    assert (upper and upper.lines) == (None if left else (b"", "\x1b[0m\x1b[38;5;1m日\x1b[0m".encode(), b""))
    assert left or (terminal.x, terminal.y) == (1, 2)


def test_half_of_a_wide_character_before_the_cursor_is_not_kept() -> None:
    terminal = shown("\x1b[?1049hb日", 3, 2)
    terminal.resize(2, 2)
    assert state(terminal).alternate is not None and terminal.lines() == ("b", "")


@given(st.binary(max_size=300) | st.text("\x1b[]?;0189hlHJKmqPr$ \x07\\é日", max_size=200).map(str.encode))
def test_any_input_is_handled(data: bytes) -> None:
    terminal = shown(data, 7, 3)
    terminal.feed(b"\x18\x1b\\\x1bc")
    assert terminal.lines() == ("", "", "")


@given(STREAMS, st.lists(st.integers(0, 10**6), max_size=5))
def test_state_does_not_depend_on_how_the_stream_is_split(stream: bytes, places: list[int]) -> None:
    whole, split = Emulator(9, 4), Emulator(9, 4)
    whole.feed(stream)
    ends = sorted({place % (len(stream) + 1) for place in places})
    for start, end in zip([0, *ends], [*ends, len(stream)], strict=True):
        split.feed(stream[start:end])
    assert state(split) == state(whole)


@pytest.mark.parametrize("name", RECORDED)
def test_passed_on_output_of_a_real_program_gives_the_same_state(name: str) -> None:
    """The output passed on to watchers, which has no device queries, gives the same state."""
    program, other = Emulator(COLUMNS, ROWS), watcher(COLUMNS, ROWS)
    assert other.ask(program.feed(recorded(name)).output) == b""
    assert state(other) == state(program)


def test_another_terminal_shows_the_same_shell_session() -> None:
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
    "marks on every letter": ("e" + "\u0301" * 30).encode() * 30,
    "marks on letters of before": "ab\x1b[D\u0301\x1b[m\u0301\u0302\x1b[C".encode() * 30,
    "pictures": b"\x1b_Ga=T,f=24,s=9,v=9;" + b"A" * 900 + b"\x1b\\",
    "links": b"".join(b"\x1b]8;;http://localhost/%d\x1b\\x" % n for n in range(50)),
    "the other screen": b"\x1b[?1049hx\x1b7\x1b[>1u\x1b[?1049l\x1b[?47h\x1b[?47l" * 20,
}


def resident() -> int:
    """Resident bytes of this process: Python does not count the memory of the emulator."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size", [(80, 24), (500, 200)])
@pytest.mark.parametrize("what", HOSTILE)
def test_memory_is_bounded(what: str, size: tuple[int, int]) -> None:
    before = resident()
    terminal = Emulator(*size)
    data = HOSTILE[what] * (2000 // len(HOSTILE[what]) + 1)
    for _ in range(100):
        terminal.feed(data)
    assert resident() - before < 16 * HISTORY_BYTES


def test_memory_of_dropped_emulators_is_freed() -> None:
    def use() -> None:
        redraw(shown("$ vi\r\n\x1b[?1049h~", COLUMNS, ROWS), HISTORY_BYTES)

    for _ in range(50):
        use()
    before = resident()
    for _ in range(400):
        use()
    # Each emulator that is not freed takes more than 100 KiB.
    assert resident() - before < 20 * 2**20


@pytest.mark.process
def test_links_that_would_crash_the_library_are_harmless() -> None:
    """A link over more cells than the library's table of links has room for. Runs in a separate process, which a crash
    of the library would end."""
    code = "\n".join(
        (
            "from fairlead.terminals.screen.emulator import Emulator",
            "terminal = Emulator(500, 200)",
            "terminal.feed(b'\\x1b[?1049h\\x1b]8;id=a;http://localhost/\\x1b\\\\')",
            "terminal.feed(b'abcdefgh' * 40_000)",
            "print(len(terminal.lines()))",
        )
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("200\n", 0), done.stderr


@pytest.mark.parametrize("name", [name for name in RECORDED if name.startswith("claude")])
def test_the_prompt_of_the_real_cli_is_on_the_screen(name: str) -> None:
    """The recording ends after one answer of a scripted model."""
    terminal = shown(recorded(name), COLUMNS, ROWS)
    lines = [line.replace("\xa0", " ").rstrip() for line in terminal.lines()]
    assert "● Hello! I am a scripted model: nothing here is thought up, and nothing leaves" in lines
    assert "❯" in lines[lines.index("  fairlead doctor --scripts lists them all.") :]
    assert terminal.vt.mode(PASTE)
