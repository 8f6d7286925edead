"""The law of the redraw: one who comes late sees, and goes on seeing, what one sees who was there from the start."""

import re

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.terminals.emulator import Emulator
from fairlead.terminals.redraw import redraw
from terminals.streams import COLUMNS, RECORDED, ROWS, STREAMS, halves, recorded, state

PLENTY = 1 << 20


def late(early: bytes, rest: bytes, columns: int, rows: int, before: bytes = b"") -> tuple[Emulator, Emulator]:
    """A terminal that was there, and one that was drawn it after `early`; `before` is what the second had seen."""
    there, comes = Emulator(columns, rows), Emulator(columns, rows)
    comes.feed(before)
    there.feed(early)
    comes.feed(redraw(there, PLENTY))
    comes.feed(there.feed(rest).output)
    return there, comes


@given(st.data(), st.sampled_from([(10, 4), (7, 3), (40, 6), (2, 1)]), STREAMS)
def test_whatever_is_printed_before_and_after(data: st.DataObject, size: tuple[int, int], stream: bytes) -> None:
    there, comes = late(*data.draw(halves(stream)), *size)
    assert state(comes) == state(there)


def test_keys_that_the_watcher_was_left_with_are_let_go() -> None:
    for before in (b"\x1b[>5u\x1b[>7u", b"\x1b[?1049h\x1b[>5u", b"\x1b[>4;2m\x1b="):
        there, comes = late(b"$ ", b"ls", 10, 2, before)
        assert state(comes) == state(there)


@given(st.data(), STREAMS, STREAMS)
def test_whatever_the_watcher_was_left_with(data: st.DataObject, before: bytes, stream: bytes) -> None:
    there, comes = late(*data.draw(halves(stream)), 12, 5, before)
    assert state(comes) == state(there)


@pytest.mark.parametrize("name", RECORDED)
@settings(max_examples=15)
@given(st.data())
def test_real_programs(name: str, data: st.DataObject) -> None:
    there, comes = late(*data.draw(halves(recorded(name))), COLUMNS, ROWS)
    assert state(comes) == state(there)


@given(STREAMS)
def test_another_terminal_draws_the_same(stream: bytes) -> None:
    """One that is not ours: of its one screen, and without accents, which it puts elsewhere on a wide letter."""
    ours, theirs = Emulator(30, 5), pyte.Screen(30, 5)
    ours.feed(stream.replace("\u0301".encode(), b"") + b"\x1b[?1049l\x1b[?6l\x1b[4l\x1b[?7h")
    pyte.ByteStream(theirs).feed(understood(redraw(ours, 0)))
    assert [line.rstrip() for line in theirs.display] == list(ours.lines())
    assert (theirs.cursor.x, theirs.cursor.y) == (ours.x, ours.y)
    for y, row in enumerate(ours.grid.rows):
        for x, style in enumerate(row.styles):
            cell = theirs.buffer[y][x]
            if row.chars[x] not in (" ", ""):
                assert (cell.bold, cell.italics, cell.underscore, cell.reverse, cell.strikethrough) == (
                    bool(style.flags & 1),
                    bool(style.flags & 4),
                    style.under == "4",
                    bool(style.flags & 16),
                    bool(style.flags & 64),
                )
                assert (cell.fg == "default", cell.bg == "default") == (not style.fg, not style.bg)


def understood(data: bytes) -> bytes:
    """Without what the other one takes for something else: private marks, intermediates, colons."""
    return re.sub(rb"\x1b\[[<=>][0-9;]*[a-z]|\x1b\[\d* q|;(?:58|4|48)[:][0-9:]*|\x1b\[\?5[hl]", b"", data)


def test_as_much_history_as_there_is_room_for() -> None:
    there, comes = Emulator(10, 2), Emulator(10, 2)
    there.feed(b"".join(b"line %d\r\n" % n for n in range(1000)))
    small = redraw(there, 100)
    assert len(small) < len(redraw(Emulator(10, 2), 0)) + 200
    comes.feed(small)
    assert comes.lines() == there.lines() == ("line 999", "")
    assert (
        list(comes.history.lines) == list(there.history.lines)[-len(comes.history.lines) :]
        and len(comes.history.lines) == 10
    )


def test_the_screen_below_is_there_when_the_program_leaves_its_own() -> None:
    there, comes = late(b"$ vi\r\n\x1b[?1049h\x1b[2Jfile", b"\x1b[?1049l$ ", 10, 3)
    assert comes.lines() == there.lines() == ("$ vi", "$", "")


def test_a_colour_without_a_letter_is_drawn_too() -> None:
    there, comes = late(b"\x1b[44m\x1b[2J", b"", 4, 2)
    assert comes.grid.rows[1].styles == there.grid.rows[1].styles
    assert comes.grid.rows[1].styles[3].bg == "44"
