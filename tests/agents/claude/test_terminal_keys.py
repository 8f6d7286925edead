"""How text is typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.tui import keys

OLD, NEW = (2, 1, 37), (2, 1, 325)


@given(st.text())
def test_only_newline_and_tab_remain_of_the_control_keys(text: str) -> None:
    cleaned = keys.clean(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in cleaned)
    assert keys.clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\x1b[201~b", "ab"),
        ("a\x1b[20\x1b[200~1~b", "a[201~b"),
        ("x\x1b[2Jy\x07", "x[2Jy"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\ttab\n", "\ttab"),
        ("\udce9", "?"),
    ],
)
def test_control_characters_are_removed(text: str, left: str) -> None:
    assert keys.clean(text) == left


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("hello", "hello", "hello"),
        ("/help", " /help ", "\u2800/help "),
        (" /help me", "  /help me", "\u2800 /help me"),
        ("!ls", " !ls", " !ls"),
        ("# x", " # x", " # x"),
        ("?", " ?", " ?"),
        ("see @file", "see @file ", "see @file "),
        ("in #channel", "in #channel ", "in #channel "),
        ("path\\", "path\\ ", "path\\ "),
    ],
)
def test_special_text_is_guarded_for_each_version(text: str, old: str, new: str) -> None:
    assert (keys.guarded(text, OLD), keys.guarded(text, NEW)) == (old, new)
    assert keys.same(text, old) and keys.same(text, new)


@pytest.mark.rules("S000-040")
@given(st.text(min_size=1))
def test_one_line_is_typed_and_several_are_pasted(text: str) -> None:
    written = keys.guarded(keys.clean(text), NEW)
    strokes = keys.strokes(written)
    together = b"".join(strokes)
    assert keys.ENTER not in together
    if "\n" in written:
        assert together == b"\x1b[200~" + written.encode() + b"\x1b[201~" and len(strokes) == 1
    else:
        assert together == written.encode() and keys.ESCAPE not in together
        assert [stroke.decode() for stroke in strokes] == list(written)


def test_texts_that_differ_only_in_layout_are_the_same() -> None:
    assert keys.same("a\tb\nc", "a    b\n  c ")
    assert keys.same("e\u0301", "\xe9")
    assert not keys.same("one", "two")
    assert keys.begins("one two", "one") and not keys.begins("one", "one two") and not keys.begins("one", "")
