"""Rendering of events: recorded sessions in, the text on a terminal out (tests/cli/cases)."""

from io import StringIO
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from fairlead.cli.output import console
from fairlead.cli.printer import Printer
from fairlead.cli.render import EventRenderer, seconds
from fairlead.model import events as ev
from fairlead.model.ids import EventId, MessageId

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/in.jsonl"))
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def recorded(case: Path) -> list[ev.Event]:
    return [ev.decode(line) for line in (case / "in.jsonl").read_bytes().splitlines()]


def shown(events: list[ev.Event], renderer: EventRenderer | None = None) -> str:
    target = StringIO()
    printer = Printer(console(file=target))
    renderer = renderer or EventRenderer()
    for event in events:
        printer.show(renderer.step(event))
    printer.fresh()
    return target.getvalue()


def without_deltas(events: list[ev.Event]) -> list[ev.Event]:
    """The events as the log has them later: the deltas of a block are deleted once the block is complete."""
    whole = {(event.message, event.block) for event in events if isinstance(event, ev.Text | ev.Thinking)}

    def stays(event: ev.Event) -> bool:
        return not isinstance(event, ev.TextDelta | ev.ThinkingDelta) or (event.message, event.block) not in whole

    return [event for event in events if stays(event)]


@every_case
def test_session_is_rendered_as_expected(case: Path) -> None:
    assert shown(recorded(case)) == (case / "out.txt").read_text()


@every_case
def test_log_without_its_deltas_is_rendered_the_same(case: Path) -> None:
    events = recorded(case)
    assert shown(without_deltas(events)) == shown(events)


@every_case
def test_reconnecting_at_any_position_repeats_nothing(case: Path) -> None:
    """At each cut: live events up to that position, then the log from there, whose deltas may already be deleted."""
    events = recorded(case)
    expected = shown(events)
    for cut in range(len(events)):
        assert shown([*events[:cut], *without_deltas(events[cut:])]) == expected


@every_case
def test_no_control_character_reaches_the_terminal(case: Path) -> None:
    text = shown(recorded(case))
    assert all(c.isprintable() or c in "\n\t" for c in text)


def test_cases_cover_every_kind_of_event() -> None:
    found = {type(event) for case in CASES for event in recorded(case)}
    assert set(get_args(ev.Event)) - found == set()


def test_a_message_that_the_reader_typed_is_not_repeated() -> None:
    sent = ev.UserMessage(id=EventId("e"), message=MessageId("m"), content=())
    assert shown([sent]) != ""
    assert shown([sent], EventRenderer(frozenset({sent.message}))) == ""


def test_delta_after_a_gap_waits_for_the_whole_block() -> None:
    def piece(offset: int, text: str) -> ev.TextDelta:
        return ev.TextDelta(id=EventId(f"d{offset}"), message=MessageId("m"), block=0, offset=offset, text=text)

    whole = ev.Text(id=EventId("t"), message=MessageId("m"), block=0, text="one two three")
    assert shown([piece(0, "one "), piece(8, "three"), whole]) == "one two three\n"
    assert shown([piece(0, "one "), piece(0, "one two "), whole]) == "one two three\n"


def test_durations() -> None:
    assert seconds(1500) == "1.5 s"
    assert seconds(125_000) == "2 min 5 s"


def test_rich_markup_is_printed_as_text() -> None:
    words = "[bold]x[/bold] :smile: [link=y]z[/link]"
    assert shown([ev.Text(id=EventId("t"), message=MessageId("m"), block=0, text=words)]) == f"{words}\n"


def test_event_line_also_has_seq_prev_and_session() -> None:
    line = (CASES[0] / "in.jsonl").read_bytes().splitlines()[0]
    assert {"seq", "prev", "session"} <= msgspec.json.decode(line).keys()
