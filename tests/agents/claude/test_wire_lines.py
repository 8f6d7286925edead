"""Framing: any cut of the bytes gives the same lines, and every message is written as one line."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.records import KeepAlive
from fairlead.agents.links.framing import LineSplitter, Oversize, encode_line, oversize_placeholder


def split(data: bytes, cuts: list[int], limit: int = 1 << 20, kept: int = 1 << 10) -> list[bytes | Oversize]:
    splitter = LineSplitter(limit, kept)
    lines: list[bytes | Oversize] = []
    start = 0
    for cut in sorted(cuts):
        lines += splitter.feed(data[start:cut])
        start = max(start, cut)
    return lines + splitter.feed(data[start:]) + splitter.end()


LINE = st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))


@pytest.mark.rules("S004-002", "S004-024", "S004-046", "S004-318")
@given(st.lists(LINE, max_size=8), st.lists(st.integers(0, 200), max_size=12))
def test_any_cut_gives_the_same_lines(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    assert split(data, cuts) == [line for line in lines if line.strip()]


@pytest.mark.rules("S004-047")
def test_blank_lines_are_skipped_and_crlf_is_one_end() -> None:
    assert split(b'\n{"a":1}\r\n\n  \n\r\n{"b":2}\n', []) == [b'{"a":1}', b'{"b":2}']


@pytest.mark.rules("S004-321")
def test_lines_after_a_keep_alive_in_the_same_read_are_handled() -> None:
    data = b'{"type":"user","message":{}}\n{"type":"keep_alive"}\n{"type":"x"}\n'
    records = [decode(line) for line in LineSplitter().feed(data) if isinstance(line, bytes)]
    assert [type(record).__name__ for record in records] == ["UserRecord", "KeepAlive", "UnknownRecord"]
    assert records[1] == KeepAlive()


def test_an_unterminated_line_is_delivered_at_the_end() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'{"a"') == []
    assert splitter.feed(b":1}") == []
    assert splitter.end() == [b'{"a":1}']
    assert splitter.end() == []


@given(st.integers(0, 60), st.lists(st.integers(0, 80), max_size=6))
def test_an_oversize_line_is_reported_by_head_and_size_in_any_cut(extra: int, cuts: list[int]) -> None:
    long = bytes(range(65, 86)) + b"x" * extra
    assert split(b"one\n" + long + b"\ntwo\n", cuts, limit=20, kept=5) == [
        b"one",
        Oversize(long[:5], len(long)),
        b"two",
    ]


def test_an_oversize_line_is_never_buffered() -> None:
    splitter = LineSplitter(limit=1000, kept=10)
    for _ in range(1000):
        splitter.feed(b"x" * 100)
    assert splitter.end() == [Oversize(b"x" * 10, 100_000)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.rules("S004-045")
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_a_message_is_one_object_and_exactly_one_newline(message: dict[str, object]) -> None:
    line = encode_line(message)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == message


class MemorySpill:
    """A spill whose contents a test can inspect."""

    def __init__(self) -> None:
        self.open = b""
        self.files: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.open += piece

    def done(self) -> str:
        self.files.append(self.open)
        self.open = b""
        return f"file {len(self.files)}"


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")), max_size=6))
def test_a_line_above_the_limit_is_spilled_completely_and_named(lines: list[bytes]) -> None:
    for cut in (1, 7, 1000):
        spill = MemorySpill()
        splitter = LineSplitter(limit=16, kept=4, spill=spill)
        data = b"".join(line + b"\n" for line in lines)
        found = [line for at in range(0, len(data), cut) for line in splitter.feed(data[at : at + cut])]
        long = [line for line in lines if len(line) > 16]
        assert spill.files == long
        assert [line for line in found if isinstance(line, Oversize)] == [
            Oversize(line[:4], len(line), f"file {number}") for number, line in enumerate(long, 1)
        ]


@given(st.integers(17, 200), st.integers(1, 60))
def test_the_spill_of_an_endless_line_is_bounded_and_the_next_line_is_intact(size: int, piece: int) -> None:
    spill = MemorySpill()
    splitter = LineSplitter(limit=16, kept=4, spill=spill, spilled=100)
    line = bytes(97 + number % 26 for number in range(size))
    data = line + b"\n{}\n"
    found = [one for at in range(0, len(data), piece) for one in splitter.feed(data[at : at + piece])]
    assert spill.files == [line[:100]]
    assert found == [Oversize(line[:4], size, "file 1", 100 if size > 100 else 0), b"{}"]


def test_the_record_of_a_cut_line_says_where_it_was_cut() -> None:
    assert msgspec.json.decode(oversize_placeholder(Oversize(b"x", 9, "f", 5))) == {
        "type": "fairlead_oversize", "subtype": "f", "size": 9, "cut": 5, "head": "x"
    }  # fmt: skip
    assert "cut" not in msgspec.json.decode(oversize_placeholder(Oversize(b"x", 9, "f")))
