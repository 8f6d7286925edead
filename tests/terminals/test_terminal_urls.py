"""URLs in the output of programs, by case: tests/golden/terminal-urls/<case>.json has the output, the width of the
terminal, and the URLs to find. The cases sign-in-* are the output of Claude Code for `setup-token`.
FAIRLEAD_WRITE=1 rewrites `found`: review the difference afterwards.
"""

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminals.api import FoundUrl
from fairlead.terminals.screen.urls import BEFORE, LONGEST, NEAR, UrlFinder

CASES = Path(__file__).parents[1] / "golden" / "terminal-urls"
NAMES = sorted(path.stem for path in CASES.iterdir())


def found(printed: bytes, width: int, cuts: tuple[int, ...] = ()) -> list[FoundUrl]:
    finder = UrlFinder(width)
    places = [0, *sorted(cut % (len(printed) + 1) for cut in cuts), len(printed)]
    results = [one for start, end in pairwise(places) for one in finder.feed(printed[start:end])]
    return results + finder.flush()


def load(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    return case


@pytest.mark.rules("S003-108", "S003-109", "S003-111", "S003-112")
@pytest.mark.parametrize("name", NAMES)
def test_case(name: str) -> None:
    case = load(name)
    results = [msgspec.to_builtins(one) for one in found(case["printed"].encode(), case["width"])]
    if os.environ.get("FAIRLEAD_WRITE"):
        (CASES / f"{name}.json").write_text(json.dumps(case | {"found": results}, ensure_ascii=True, indent=1) + "\n")
        case = load(name)
    assert results == case["found"]


@pytest.mark.rules("S003-109")
@pytest.mark.parametrize("name", NAMES)
def test_splits_do_not_change_the_found_urls(name: str) -> None:
    """A split at each position by itself (in long cases, at some positions), and at all positions at once."""
    case = load(name)
    printed, width = case["printed"].encode(), case["width"]
    whole = found(printed, width)
    for cut in range(0, len(printed), 1 + len(printed) // 700):
        assert found(printed, width, (cut,)) == whole, cut
    assert found(printed, width, tuple(range(len(printed)))) == whole


PIECES = st.lists(
    st.sampled_from([
        b"https://a.example/x", b"http://b.example", b"?", b"&", b"k=v", b"x" * 17, b".", b" ", b"\r\n", b"\n", b"\r",
        b"Open this URL: ", b"press enter", b" to open", b"\x1b[31m", b"\x1b[0m", b"\x1b[4C", b"\x1b[2;3H", b"\x1b[K",
        b"\x1b]8;;https://c.example\x07", b"\x1b]0;title\x1b\\", b"\x1b", "\u00e9\u4e16".encode(), b"word ", b"://",
        b"\x1b[7", b"\t", b"\x00", b"words and words and words and words\r\n" * 20, b"z" * 5000,
    ]),
    max_size=24,
)  # fmt: skip


@pytest.mark.rules("S003-109")
@given(PIECES, st.lists(st.integers(0, 200_000), max_size=12), st.integers(10, 60))
def test_splits_of_any_output_do_not_change_the_found_urls(pieces: list[bytes], cuts: list[int], width: int) -> None:
    printed = b"".join(pieces)
    assert found(printed, width, tuple(cuts)) == found(printed, width)


@given(st.binary(max_size=2000))
def test_found_urls_are_valid_for_any_output(printed: bytes) -> None:
    for one in found(b"https://a.example/ " + printed, 80):
        assert one.url.lower().startswith(("http://", "https://"))
        assert one.url.isprintable() and one.url.isascii() and " " not in one.url


def test_buffered_output_is_bounded() -> None:
    finder = UrlFinder(80)
    for _ in range(50):
        finder.feed(b"x" * 1000)
    finder.feed(b" https://a.example/" + b"y" * (3 * LONGEST))
    assert finder.flush() == []
    finder.feed(b" \x1b]0;" + b"t" * (5 * LONGEST))
    finder.feed(b"\x07 https://b.example/ ")
    assert finder.flush() == []
    assert finder.feed(b"https://c.example/ ") == [FoundUrl("https://c.example/")]


def test_text_before_a_url_is_found_despite_colour_sequences() -> None:
    colours = b"\x1b[0m" * ((BEFORE - 100) // 4)
    assert found(b"Open this URL: " + colours + b"https://a.example/ ", 80) == [
        FoundUrl("https://a.example/", open=True)
    ]
    far = b"w " * NEAR
    assert found(b"Open this URL: " + far + b"https://a.example/ ", 80) == [FoundUrl("https://a.example/")]
