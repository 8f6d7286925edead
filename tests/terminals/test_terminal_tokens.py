"""Splitting bytes into tokens: the same however the bytes are split into reads, and bounded for any input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminals.screen.tokenizer import (
    LONGEST,
    Token,
    Tokenizer,
    TokenKind,
    closing_text,
    has_text,
    last_character,
)
from terminals.streams import RECORDED, STREAMS, recorded


def tokens(*pieces: bytes) -> list[tuple[TokenKind, str]]:
    """Kinds and characters of the tokens; runs, which may be split anywhere, are joined."""
    tokenizer = Tokenizer()
    found: list[tuple[TokenKind, str]] = []
    for piece in pieces:
        for token in tokenizer.feed(piece):
            if token.kind is TokenKind.RUN and found and found[-1][0] is TokenKind.RUN:
                found[-1] = (token.kind, found[-1][1] + token.raw)
            else:
                found.append((token.kind, token.raw))
    return found


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(stream) + 1) for place in places})
    return [stream[start:end] for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)]


@given(STREAMS | st.binary(max_size=60), st.lists(st.integers(0, 10**6), max_size=8))
def test_tokens_do_not_depend_on_how_the_stream_is_split(stream: bytes, places: list[int]) -> None:
    assert tokens(*cut(stream, places)) == tokens(stream)


@pytest.mark.parametrize("name", RECORDED)
def test_real_programs_byte_by_byte(name: str) -> None:
    stream = recorded(name)
    assert tokens(*(stream[at : at + 1] for at in range(len(stream)))) == tokens(stream)
    assert "".join(raw for _, raw in tokens(stream)).encode() == stream


def one(data: bytes) -> Token:
    (token,) = Tokenizer().feed(data)
    return token


def test_parts_of_a_sequence() -> None:
    assert one(b"\x1b[?1;2$p")[:5] == (TokenKind.CSI, "\x1b[?1;2$p", "?1;2", "$", "p")
    assert one(b"\x1b]2;title\x1b\\").body == "2;title"
    assert one(b"\x1bP$qm\x1b\\")[2:] == ("$qm", "", "P")
    assert one(b"\x1b*0")[2:] == ("*", "", "0")
    assert one(b"\x1bc").final == "c"


@pytest.mark.parametrize(
    "together", ["a\r\nb", "\x1b[1;31mé\x1b[0m\x1b[K", "\x1b[?25l\x1b[?2004h\x1b7\x1b(0q\x1b(B\x1b[u\t"]
)
def test_ordinary_output_is_one_run(together: str) -> None:
    assert one(together.encode()) == Token(TokenKind.RUN, together)


@pytest.mark.parametrize(
    "alone",
    [
        "\x05",
        "\x1b[c",
        "\x1b[6n",
        "\x1b[5b",
        "\x1b[?47h",
        "\x1b[?1049l",
        "\x1b[?1;40h",
        "\x1b[?u",
        "\x1b[>1u",
        "\x1b[18t",
    ],
)
def test_sequence_that_needs_inspection_is_a_separate_token(alone: str) -> None:
    before, token, after = Tokenizer().feed(f"a{alone}b".encode())
    assert (before.raw, token.raw, after.raw) == ("a", alone, "b") and token.kind is not TokenKind.RUN


def test_last_character_and_closing_text_of_a_run() -> None:
    for run, character, text in (("ab\x1b[3mc", "c", "c"), ("ab\x1b[3m", "b", ""), ("\r\n", "", ""), ("", "", "")):
        assert (last_character(run), closing_text(run), has_text(run)) == (character, text, bool(character))


def test_the_eight_bit_controls_are_the_seven_bit_ones() -> None:
    assert one("\x9b31m".encode()) == one(b"\x1b[31m")
    assert one("\x9d2;x\x9c".encode()) == one(b"\x1b]2;x\x1b\\")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (b"\x1b[3\x1b[1mX", ["\x1b[1mX"]),
        (b"\x1b[3\x18X", ["\x18X"]),
        (b"\x1b]2;half\x1b[1mX", ["\x1b[1mX"]),
        (b"\x1b]2;half\x18X", ["\x18X"]),
        (b"\x1bPhalf\x1bcX", ["\x1bc", "X"]),
        (b"\x1b\x1b7", ["\x1b7"]),
        ("\x1b[é".encode(), ["é"]),
    ],
)
def test_bytes_that_abort_a_sequence_are_parsed_separately(given: bytes, left: list[str]) -> None:
    assert [raw for _, raw in tokens(given)] == left


@pytest.mark.parametrize("opener", [b"\x1b]2;", b"\x1bP", b"\x1b_", b"\x1b["])
@pytest.mark.parametrize("whole", [True, False])
def test_a_sequence_without_an_end_is_not_kept(opener: bytes, whole: bool) -> None:
    tokenizer = Tokenizer()
    filler = b"1" * 4096
    stream = [opener, *[filler] * (LONGEST // 4096 + 5)]
    for piece in [b"".join(stream)] if whole else stream:
        assert tokenizer.feed(piece) == []
    held = sum(len(value) for value in vars(tokenizer).values() if isinstance(value, str))
    assert held <= LONGEST
    end = b"m" if opener == b"\x1b[" else b"\x1b\\"
    after = [token for token in tokenizer.feed(end + b"X") if token.final != "\\"]
    assert [token.raw for token in after] == ["X"]


def test_sequence_that_is_too_long_is_dropped_however_it_is_split() -> None:
    long = b"\x1b]52;c;" + b"A" * (LONGEST + 1) + b"\x07"
    assert tokens(long, b"X") == tokens(*(long[at : at + 1000] for at in range(0, len(long), 1000)), b"X")
    assert tokens(long, b"X") == [(TokenKind.RUN, "X")]
