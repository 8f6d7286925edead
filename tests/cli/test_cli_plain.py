"""No text from outside reaches the terminal as an escape sequence."""

import io
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.output import escape_unprintable, json_line
from fairlead.cli.sanitize import Cleaner, clean, one_line, text_of, visible

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
LINK = "\x1b]8;;https://evil.example/\x1b\\click\x1b]8;;\x1b\\"

# Enough parts of escape sequences for random texts to contain complete, truncated and nested ones.
PIECES = st.text(
    st.sampled_from([*list("ab;52[]\\\n\tmHP0?!c"), "\x1b", "\x07", "\x9b", "\x9d", "\x9c", "\r", "\u202e"])
)


@pytest.mark.parametrize(
    ("said_by_agent", "shown"),
    [
        (f"before{CLIPBOARD}after", "beforeafter"),
        (LINK, "click"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b2Jgone\x9d52;c;eA==\x9c", "gone"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1bc\x1b(Breset", "reset"),
        ("a\rb\x08c\x00d\x7fe\x85", "abcde"),
        ("\u202etxt.exe\u2066", "txt.exe"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("[bold]not markup[/bold] :smile:", "[bold]not markup[/bold] :smile:"),
    ],
)
def test_escape_sequences_are_removed_and_text_stays(said_by_agent: str, shown: str) -> None:
    assert clean(said_by_agent) == shown


def test_an_endless_sequence_swallows_nothing() -> None:
    assert clean("\x1b]52;c;" + "A" * 5000) == "52;c;" + "A" * 5000
    assert clean("\x1b]0;no end\nthe next line") == "0;no end\nthe next line"


@given(PIECES)
def test_output_has_no_control_character_except_newline_and_tab(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t" for c in clean(text))
    assert all(c.isprintable() or c in "\n\t" for c in visible(text))


@given(st.lists(PIECES))
def test_a_text_in_pieces_is_cleaned_like_the_whole(pieces: list[str]) -> None:
    cleaner = Cleaner()
    shown = "".join(cleaner.feed(piece) for piece in pieces) + cleaner.end()
    assert shown == clean("".join(pieces))


def test_sequence_split_in_two_is_not_shown_in_part() -> None:
    cleaner = Cleaner()
    assert cleaner.feed("a\x1b]52;c;ZX") == "a"
    assert cleaner.feed("ZpbA==\x07b") == "b"
    assert cleaner.end() == ""


def test_invisible_characters_are_shown_escaped_for_a_decision() -> None:
    assert visible("rm -rf x\x1b[1A\u202e\u200b") == "rm -rf x\\u{1b}[1A\\u{202e}\\u{200b}"


def test_a_long_text_on_one_line_is_cut() -> None:
    assert one_line("a\n  b\tc", 20) == "a b c"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"


def test_text_of_unusual_results() -> None:
    assert text_of(None) == ""
    assert text_of([{"type": "text", "text": "one"}, "two", {"type": "image"}]) == "one\ntwo\n(an image)"
    assert text_of({"odd": 1}) == '{"odd":1}'


@given(st.text())
def test_json_for_a_terminal_is_printable_and_has_the_same_meaning(text: str) -> None:
    line = msgspec.json.encode({"title": text}).decode()
    shown = escape_unprintable(line)
    assert shown.isprintable()
    assert msgspec.json.decode(shown) == {"title": text}


def test_a_terminal_gets_no_control_characters_in_json_and_a_pipe_gets_the_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for terminal, expected in (
        (True, b'{"title":"\\u009b31m \\u202egnp \\ud83c\\udff4\\udb40\\udc67 caf\xc3\xa9"}\n'),
        (False, '{"title":"\x9b31m \u202egnp \U0001f3f4\U000e0067 café"}\n'.encode()),
    ):
        written = io.BytesIO()
        stdout = io.TextIOWrapper(written, encoding="utf-8")
        monkeypatch.setattr(stdout, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr(sys, "stdout", stdout)
        json_line({"title": "\x9b31m \u202egnp \U0001f3f4\U000e0067 café"})
        monkeypatch.undo()
        assert written.getvalue() == expected.replace(b"\\ud83c\\udff4", "\U0001f3f4".encode())
