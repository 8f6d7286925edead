"""The law of a saved terminal: restored, with the rest of the output, it is the same as one that was never saved."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.terminals.api import FoundUrl, Size
from fairlead.terminals.screen.ghostty import EmulatorFault, Vt
from fairlead.terminals.screen.terminal_state import SavedState, TerminalState
from fairlead.terminals.screen.tokenizer import LONGEST
from sizing import examples
from terminals.streams import COLUMNS, PIECES, RECORDED, ROWS, STREAMS, recorded, state

URLS = st.sampled_from(
    [
        "https://example.org/a?b=1&",
        "c=2 ",
        "see https://example.org/long/er)",
        "open this url: ",
        "\r\nhttps://example.org/0123456789/0123456789/0123456789",
    ]
)
QUERIES = st.sampled_from(["\x1b[6n", "\x1b[c\x1b[18t", "\x05", "\x1b[?25$p", "\x1b]11;?\x07"])
OTHERS = st.sampled_from(["\x1b[7b", "\x1b[?1s\x1b[?1h", "\x1b[?1r", "\x1b[?7s", "\x1b[?7r", "\x1bn", "\x1b[3g"])
"""Without left and right margins: the emulator's own form has no cursor behind a full line that ends at a margin."""
OUTPUT = st.lists(st.one_of(PIECES, PIECES, PIECES, URLS, QUERIES, OTHERS), max_size=12).map(
    lambda pieces: "".join(pieces).encode()
)
Step = bytes | Size
"""Output, or a new size."""
STEPS = st.lists(st.one_of(OUTPUT, OUTPUT, st.builds(Size, st.integers(2, 40), st.integers(1, 8))), max_size=5)


def encoded_and_decoded(saved: SavedState) -> SavedState:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(saved), type=SavedState)


class Shown:
    """A terminal with all that it has sent."""

    def __init__(self, terminal: TerminalState) -> None:
        self.terminal = terminal
        self.output = b""
        self.answers: tuple[bytes, ...] = ()
        self.urls: list[FoundUrl] = []

    def take(self, step: Step) -> None:
        if isinstance(step, Size):
            self.terminal.resize(step)
            return
        fed, urls = self.terminal.feed(step)
        self.output += fed.output
        self.answers += fed.answers
        self.urls += urls

    def restart(self, *, portable: bool = False) -> None:
        self.terminal = TerminalState.restore(encoded_and_decoded(self.terminal.save(portable=portable)))


def assert_same(one: Shown, other: Shown) -> None:
    assert (one.output, one.answers, one.urls) == (other.output, other.answers, other.urls)
    ours, theirs = one.terminal, other.terminal
    assert state(ours.emulator) == state(theirs.emulator)
    assert ours.emulator.lines() == theirs.emulator.lines()
    assert (ours.size, ours.intact, ours.finder.waiting) == (theirs.size, theirs.intact, theirs.finder.waiting)
    assert ours.finder.flush() == theirs.finder.flush()
    assert (ours.tail and ours.tail.blocks) == (theirs.tail and theirs.tail.blocks)


def cut(steps: Sequence[Step], where: st.DataObject) -> list[Step]:
    """The same steps with all output cut once, anywhere."""
    parts: list[Step] = []
    for step in steps:
        if isinstance(step, Size):
            parts.append(step)
        else:
            at = where.draw(st.integers(0, len(step)))
            parts += [step[:at], step[at:]]
    return parts


@examples(200, 5000)
@given(st.data(), st.builds(Size, st.sampled_from([2, 7, 10, 40]), st.sampled_from([1, 4])), STEPS, st.booleans())
def test_restored_terminal_is_the_same_for_any_output(
    data: st.DataObject, size: Size, steps: list[Step], keeps_tail: bool
) -> None:
    undisturbed, restarted = (Shown(TerminalState(size, keeps_tail=keeps_tail)) for _ in range(2))
    parts = cut(steps, data)
    saved_after = data.draw(st.sets(st.integers(0, len(parts)), max_size=3))
    for number, part in enumerate(parts):
        if number in saved_after:
            restarted.restart()
        undisturbed.take(part)
        restarted.take(part)
    assert_same(undisturbed, restarted)


@pytest.mark.parametrize("name", RECORDED)
@settings(max_examples=15)
@given(st.data())
def test_restored_terminal_is_the_same_for_real_programs(name: str, data: st.DataObject) -> None:
    stream = recorded(name)
    undisturbed, restarted = (Shown(TerminalState(Size(COLUMNS, ROWS), keeps_tail=True)) for _ in range(2))
    at = data.draw(st.integers(0, len(stream)))
    for part in (stream[:at], stream[at:]):
        undisturbed.take(part)
        restarted.restart()
        restarted.take(part)
    assert_same(undisturbed, restarted)


@given(STREAMS)
def test_screen_is_restored_by_another_release_of_the_emulator(stream: bytes) -> None:
    there = TerminalState(Size(12, 4), keeps_tail=False)
    there.feed(stream)
    saved = msgspec.structs.replace(there.save(portable=True), encoded=b"unknown")
    assert state(TerminalState.restore(encoded_and_decoded(saved)).emulator) == state(there.emulator)


def test_without_a_drawing_another_release_shows_the_latest_output() -> None:
    there = TerminalState(Size(12, 3), keeps_tail=True)
    there.feed(b"one\r\ntwo\x1b[6n\r\n$ ")
    saved = msgspec.structs.replace(there.save(), encoded=b"unknown")
    assert TerminalState.restore(saved).emulator.lines() == ("one", "two", "$")


def test_screen_that_cannot_be_encoded_is_saved_as_a_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Vt) -> bytes:
        raise EmulatorFault("encode", -2)

    there = TerminalState(Size(12, 2), keeps_tail=False)
    there.feed(b"one\r\ntwo")
    with monkeypatch.context() as patched:
        patched.setattr(Vt, "encode", refuse)
        saved = there.save()
    assert TerminalState.restore(saved).emulator.lines() == ("one", "two")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x", b"\x1b[3b"),
        (b"x\x1b[31m", b"\x1b[3b"),
        (b"e", "\u0301".encode()),
        (("e" + 7 * "\u0301").encode(), ("\u0301" * 3).encode()),
        (b"\x1b[A", "\u0301".encode()),
        ("é".encode()[:1], "é".encode()[1:]),
        (b"\x1b[3", b"1mred"),
        (b"\x1b[?1049", b"hother"),
        (b"\x1b[6", b"n"),
    ],
)
def test_output_continues_where_it_was_cut(before: bytes, after: bytes) -> None:
    undisturbed, restarted = (Shown(TerminalState(Size(12, 2), keeps_tail=True)) for _ in range(2))
    for terminal in (undisturbed, restarted):
        terminal.take(before)
    restarted.restart()
    for terminal in (undisturbed, restarted):
        terminal.take(after)
    assert_same(undisturbed, restarted)


@pytest.mark.parametrize("introducer", ["\x1b]2;", "\x1bP", "\x1b_", "\x1b[1;"])
def test_oversized_sequence_is_dropped_across_a_restart(introducer: str) -> None:
    undisturbed, restarted = (Shown(TerminalState(Size(12, 2), keeps_tail=True)) for _ in range(2))
    for part in (f"before{introducer}{'1' * (LONGEST + 1)}".encode(), b"1111", b"\x07\x1b\\after"):
        undisturbed.take(part)
        restarted.take(part)
        restarted.restart()
    assert_same(undisturbed, restarted)
    assert "1111" not in restarted.terminal.emulator.lines()[0]


def test_full_history_stays_bounded_after_a_restart() -> None:
    undisturbed, restarted = (Shown(TerminalState(Size(80, 24), keeps_tail=True)) for _ in range(2))
    kept = []
    for number in range(20):
        lines = b"".join(b"line %d of %d\r\n" % (line, number) for line in range(1000))
        undisturbed.take(lines)
        restarted.take(lines)
        restarted.restart()
        kept.append(restarted.terminal.emulator.vt.number("SCROLLBACK_ROWS"))
    # The emulator drops its history page by page, and pages begin at other lines after a restart.
    ours, theirs = state(undisturbed.terminal.emulator), state(restarted.terminal.emulator)
    common = min(len(ours.history), len(theirs.history))
    assert common > 400 and ours.history[-common:] == theirs.history[-common:]
    assert ours._replace(history=()) == theirs._replace(history=()) and max(kept) < 2000
    assert undisturbed.terminal.tail and restarted.terminal.tail
    assert undisturbed.terminal.tail.data() == restarted.terminal.tail.data()
    assert not restarted.terminal.intact


def test_history_survives_restarts_with_little_output_between() -> None:
    undisturbed, restarted = (Shown(TerminalState(Size(80, 24), keeps_tail=False)) for _ in range(2))
    for number in range(15):
        lines = b"".join(b"line %d of %d\r\n" % (line, number) for line in range(300 if number == 0 else 3))
        undisturbed.take(lines)
        restarted.take(lines)
        restarted.restart()
    assert_same(undisturbed, restarted)
