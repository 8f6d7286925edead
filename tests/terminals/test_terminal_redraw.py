"""The property of the redraw: a late watcher sees, from then on, what a watcher from the start sees."""

import re

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.terminals.screen.emulator import Emulator
from fairlead.terminals.screen.ghostty import EmulatorFault, Vt
from fairlead.terminals.screen.redraw import redraw
from terminals.streams import COLUMNS, RECORDED, ROWS, STREAMS, halves, recorded, state, watcher

PLENTY = 1 << 20


def late(early: bytes, rest: bytes, columns: int, rows: int, before: bytes = b"") -> tuple[Emulator, Vt]:
    """A terminal with all output, and one that got a redraw after `early`; `before` is earlier output of the second."""
    there, comes = Emulator(columns, rows), watcher(columns, rows)
    comes.write(Emulator(columns, rows).feed(before).output)
    there.feed(early)
    comes.write(redraw(there, PLENTY))
    comes.write(there.feed(rest).output)
    return there, comes


@given(st.data(), st.sampled_from([(10, 4), (7, 3), (40, 6), (2, 1)]), STREAMS)
def test_redraw_gives_the_same_state_for_any_output(data: st.DataObject, size: tuple[int, int], stream: bytes) -> None:
    there, comes = late(*data.draw(halves(stream)), *size)
    assert state(comes) == state(there)


def test_redraw_keeps_the_place_after_a_wide_character_in_the_line_drawing_set() -> None:
    """The emulator shows it as a blank of two columns."""
    there, comes = late(b"qqq\x1b(0\r\xe6\x97\xa5", b"\xe6\x9c\xac", 12, 2)
    assert state(comes) == state(there)


def test_redraw_resets_keyboard_modes_of_earlier_output() -> None:
    for before in (b"\x1b[>5u\x1b[>7u", b"\x1b[?1049h\x1b[>5u", b"\x1b[>4;2m\x1b="):
        there, comes = late(b"$ ", b"ls", 10, 2, before)
        assert state(comes) == state(there)


@given(st.data(), STREAMS, STREAMS)
def test_redraw_gives_the_same_state_after_any_earlier_output(
    data: st.DataObject, before: bytes, stream: bytes
) -> None:
    there, comes = late(*data.draw(halves(stream)), 12, 5, before)
    assert state(comes) == state(there)


@pytest.mark.parametrize("name", RECORDED)
@settings(max_examples=15)
@given(st.data())
def test_redraw_gives_the_same_state_for_real_programs(name: str, data: st.DataObject) -> None:
    there, comes = late(*data.draw(halves(recorded(name))), COLUMNS, ROWS)
    assert state(comes) == state(there)


@given(STREAMS)
def test_another_terminal_draws_the_same(stream: bytes) -> None:
    """pyte, with its one screen, and without accents, which it places differently on a wide character."""
    ours, theirs = Emulator(30, 5), pyte.Screen(30, 5)
    ours.feed(stream.replace("\u0301".encode(), b"") + b"\x1b[?1049l\x1b[?6l\x1b[4l\x1b[?7h")
    pyte.ByteStream(theirs).feed(understood(redraw(ours, 0)))
    assert [line.rstrip() for line in theirs.display] == list(ours.lines())
    assert (theirs.cursor.x, theirs.cursor.y) == (ours.x, ours.y)


def test_another_terminal_draws_the_same_styles() -> None:
    stream = b"".join(
        b"\x1b[%sma\x1b[0m\x1b[2Cb" % style for style in (b"1", b"3", b"4", b"7", b"9", b"38;5;200", b"48;5;17")
    )
    ours, seen, drawn = Emulator(30, 3), pyte.Screen(30, 3), pyte.Screen(30, 3)
    ours.feed(stream)
    pyte.ByteStream(seen).feed(stream)
    pyte.ByteStream(drawn).feed(understood(redraw(ours, 0)))
    assert [seen.buffer[0][x] for x in range(28)] == [drawn.buffer[0][x] for x in range(28)]


def understood(data: bytes) -> bytes:
    """Remove the sequences that pyte misinterprets: private marks, intermediates, colons."""
    return re.sub(rb"\x1b\[[<=>][0-9;]*[a-z]|\x1b\[\d* q|\x1b\[[0-9;]*:[0-9:;]*m|\x1b\[\?5[hl]|\x1b[*+]B", b"", data)


def test_redraw_includes_as_much_history_as_fits() -> None:
    there, comes = Emulator(10, 2), watcher(10, 2)
    there.feed(b"".join(b"line %d\r\n" % n for n in range(1000)))
    small = redraw(there, 100)
    assert len(small) < len(redraw(Emulator(10, 2), 0)) + 200
    comes.write(small)
    assert state(comes).main == state(there).main
    assert state(comes).history == state(there).history[-10:]


def test_main_screen_is_restored_when_the_program_leaves_the_alternate_screen() -> None:
    there, comes = late(b"$ vi\r\n\x1b[?1049h\x1b[2Jfile", b"\x1b[?1049l$ ", 10, 3)
    assert there.lines() == ("$ vi", "$", "")
    assert state(comes).main.lines == (b"$ vi", b"$", b"")


def test_background_colour_of_empty_cells_is_drawn() -> None:
    _, comes = late(b"\x1b[44m\x1b[2J\x1b[0m\x1b[1;2H\x1b[X", b"", 4, 2)
    blue = b"\x1b[0m\x1b[48;5;4m"
    assert state(comes).main.lines == (blue + b" \x1b[0m " + blue + b"  \x1b[0m", blue + b"    \x1b[0m")


def test_skipped_cells_have_no_style() -> None:
    _, comes = late(b"\x1b[7ma\x1b[0m\x1b[3C\x1b[4mb\x1b[0m\r\n" * 5, b"", 8, 2)
    line = b"\x1b[0m\x1b[7ma\x1b[0m   \x1b[0m\x1b[4mb\x1b[0m"
    assert state(comes).history == (line,) * 4 and state(comes).main.lines == (line, b"")


def test_pending_wrap_at_the_last_column_is_preserved() -> None:
    for early in (b"\x1b[31m0123\x1b[0m", b"0123\x1b7\x1b[2;1Hx\x1b8", b"0123\x1b7\x1b[1;4H\x1b[44m\x1b[X\x1b[0m\x1b8"):
        there, comes = late(early, b"ab", 4, 3)
        assert state(comes) == state(there) and there.lines()[1].startswith("ab")


def test_positions_relative_to_margins_are_preserved() -> None:
    there, comes = late(b"\x1b[?69h\x1b[3;8s\x1b[2;4r\x1b[?6h\x1b[2;2Hx\x1b7\x1b[?6l", b"\x1b8y\x1b[Hz", 10, 5)
    assert state(comes) == state(there)
    assert there.lines() == ("", "  z", "   xy", "", "")


def test_screen_that_cannot_be_copied_is_drawn_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Vt) -> Vt:
        raise EmulatorFault("copy", -2)

    there, comes = Emulator(10, 2), watcher(10, 2)
    there.feed(b"\x1b[31mone\r\ntwo")
    with monkeypatch.context() as patched:
        patched.setattr(Vt, "copy", refuse)
        drawn = redraw(there, PLENTY)
    comes.write(drawn)
    assert state(comes).main.lines == (b"one", b"two")
    assert (comes.number("CURSOR_X"), comes.number("CURSOR_Y")) == (there.x, there.y)


def test_keyboard_modes_of_both_screens_are_restored() -> None:
    there, comes = late(b"\x1b[>1u\x1b[>0u\x1b[>5u\x1b[?1049h\x1b[>7u\x1b[=2;2u", b"", 10, 2)
    upper = state(comes).alternate
    assert (state(comes).main.keys, upper and upper.keys) == ((1, 0, 5), (7,))
    assert state(comes) == state(there)
