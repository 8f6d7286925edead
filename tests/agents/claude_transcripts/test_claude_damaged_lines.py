"""Damaged lines: every complete row is found, everything else is kept, and nothing takes long."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.claude_transcripts.transcript_files import Writer, line
from fairlead.agents.claude.transcripts.repair import Fragment, read_line, row_time
from fairlead.model.agents import Record

WRITE = Writer()
FIRST = line(WRITE.prompt("first"))[:-1]
SECOND = line(WRITE.says({"type": "text", "text": 'with {braces} and "quotes"'}, {"type": "odd"}))[:-1]
SUMMARY = json.dumps({"type": "summary", "summary": "s", "leafUuid": "l"}).encode()


def rows(data: bytes) -> list[bytes]:
    return [part.raw for part in read_line(data).parts if isinstance(part, Record)]


def fragments(data: bytes) -> list[bytes]:
    return [part.raw for part in read_line(data).parts if isinstance(part, Fragment)]


def test_a_good_line_is_one_row_with_its_time() -> None:
    read = read_line(FIRST)
    assert (rows(FIRST), read.damage) == ([FIRST], ())
    row = json.loads(FIRST)
    assert read.parts[0] == Record(FIRST, "transcript", row_time(row["timestamp"]), row["uuid"])


def test_blank_lines_are_ignored() -> None:
    assert read_line(b"").parts == () == read_line(b" \r\t").parts


def test_rows_without_a_newline_between_them_are_all_found() -> None:
    data = FIRST + SECOND + SUMMARY
    assert (rows(data), read_line(data).damage) == ([FIRST, SECOND, SUMMARY], ("joined",))


def test_a_row_that_begins_inside_another_is_found_and_the_torn_one_is_kept() -> None:
    torn = FIRST[:-25]
    assert rows(torn + SECOND) == [SECOND]
    assert fragments(torn + SECOND) == [torn]
    assert read_line(torn + SECOND).damage == ("spliced",)


def test_both_sides_of_a_row_written_into_another_are_kept() -> None:
    data = FIRST[:60] + SECOND + FIRST[60:]
    assert rows(data) == [SECOND]
    assert fragments(data) == [FIRST[:60], FIRST[60:]]


def test_runs_of_nul_are_noted_and_cost_nothing_else() -> None:
    assert (rows(b"\0" * 5000 + FIRST), read_line(b"\0" * 5000 + FIRST).damage) == ([FIRST], ("nul",))
    inside = FIRST + b"\0" * 300 + SECOND
    assert (rows(inside), read_line(inside).damage) == ([FIRST, SECOND], ("nul",))
    assert read_line(b"\0\0\0").damage == ("nul",)
    cut = SECOND[:50] + b"\0" * 100 + FIRST
    assert (rows(cut), fragments(cut), read_line(cut).damage) == ([FIRST], [SECOND[:50]], ("nul", "spliced"))


def test_an_object_inside_a_torn_row_is_not_a_row() -> None:
    data = SECOND[: SECOND.index(b'"odd"') - 10]
    assert rows(data) == []
    assert read_line(data).damage == ("garbage",)


def test_half_an_emoji_and_stray_bytes_do_not_damage_a_row() -> None:
    odd = FIRST.replace(b"first", b"\\ud83d and \xff")
    assert (rows(odd), read_line(odd).damage) == ([odd], ())


@pytest.mark.parametrize("data", [b"{" * 200_000, b'{"a":' * 100_000, b"[" * 100_000, b'{"a":1}' * 20_000, b"\xff" * 9])
def test_garbage_is_one_fragment_and_is_abandoned_early(data: bytes) -> None:
    read = read_line(data)
    assert (b"".join(part.raw for part in read.parts), read.damage) == (data, ("garbage",))


def test_invalid_timestamps_are_zero() -> None:
    assert [row_time(value) for value in (None, 5, "", "yesterday", "2026-01-02T03:04:05", "9999-99-99T00:00:00Z")] == [
        0
    ] * 6
    assert row_time("1960-01-01T00:00:00Z") == 0


@given(st.lists(st.sampled_from([FIRST, SECOND, SUMMARY, FIRST[:40], b"\0\0", b"}{", b"garbage", b" "]), max_size=6))
def test_no_byte_but_nul_and_blanks_is_lost(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    kept = b"".join(part.raw for part in read_line(data).parts)
    assert kept.replace(b" ", b"") == data.replace(b"\0", b"").replace(b" ", b"")


@given(st.binary(max_size=300))
def test_nothing_makes_it_raise(data: bytes) -> None:
    read_line(data)
