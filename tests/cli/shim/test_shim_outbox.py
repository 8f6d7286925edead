"""What the shim keeps for the gateway, and what it hides from its caller."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.shim.frames import CliLine, LinesLost, decode_from_shim, pack, unpack
from fairlead.cli.shim.lines import LineBuffer
from fairlead.cli.shim.outbox import ShimOutbox
from fairlead.cli.shim.own_ids import OwnIds

OURS = "11111111-1111-4111-8111-111111111111"
THEIRS = "22222222-2222-4222-8222-222222222222"


def line(number: int, size: int = 0) -> CliLine:
    return CliLine(n=0, line=pack(json.dumps({"is": number, "more": "x" * size}).encode()))


def numbers(data: bytes) -> list[int]:
    return [decode_from_shim(frame).n for frame in data.splitlines()]


def test_frames_are_numbered_sent_once_and_resent_until_they_are_stored() -> None:
    outbox = ShimOutbox()
    for number in range(3):
        outbox.add(line(number))
    assert numbers(outbox.take(1 << 20)) == [1, 2, 3]
    assert outbox.take(1 << 20) == b""
    outbox.confirm(2)
    outbox.add(line(3))
    assert numbers(outbox.take(1 << 20)) == [4]
    outbox.rewind()
    assert numbers(outbox.take(1 << 20)) == [3, 4]
    outbox.confirm(4)
    assert outbox.empty


def test_a_large_frame_is_sent_alone() -> None:
    outbox = ShimOutbox()
    for number in range(3):
        outbox.add(line(number, 100))
    assert [numbers(outbox.take(50)) for _ in range(3)] == [[1], [2], [3]]


def test_what_does_not_fit_is_replaced_by_a_note() -> None:
    outbox = ShimOutbox(limit=1000)
    for number in range(20):
        outbox.add(line(number, 100))
    first, *rest = (decode_from_shim(frame) for frame in outbox.take(1 << 20).splitlines())
    assert isinstance(first, LinesLost)
    assert [frame.n for frame in rest] == list(range(first.n + 1, 21))
    assert len(rest) >= 5


def test_a_line_that_is_too_large_for_the_gateway_is_left_to_the_transcript() -> None:
    outbox = ShimOutbox(limit=1000)
    outbox.add(line(0))
    outbox.add(line(1, 2000))
    outbox.add(line(2))
    kinds = [type(decode_from_shim(frame)) for frame in outbox.take(1 << 20).splitlines()]
    assert kinds == [CliLine, LinesLost, CliLine]


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 7))
def test_lines_are_cut_at_newlines_wherever_the_chunks_are_cut(lines: list[bytes], size: int) -> None:
    data = b"".join(lines)
    buffer = LineBuffer()
    found = [line for start in range(0, len(data), size) for line in buffer.feed(data[start : start + size])]
    assert b"".join([*found, buffer.rest()]) == data
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found)


@given(st.binary())
def test_any_line_survives_its_frame(data: bytes) -> None:
    given_line = data.replace(b"\n", b" ").strip()
    packed = pack(given_line)
    if not given_line.startswith(b"{"):
        assert unpack(packed) == given_line.decode("utf-8", "replace").encode()


def test_the_caller_does_not_see_reports_on_an_id_that_it_did_not_give() -> None:
    ids = OwnIds()
    ids.add(OURS)
    queued = '{"type":"command_lifecycle","state":"queued","command_uuid":"%s","uuid":"x"}\n'
    assert ids.hide((queued % OURS).encode()) == b""
    assert ids.hide((queued % THEIRS).encode()) == (queued % THEIRS).encode()
    said = '{"type":"assistant","uuid":"x"%s}\n'
    both = f',"user_message_uuid":"{OURS}","user_message_uuids":["{OURS}"],"owed_rows":[]'
    assert ids.hide((said % both).encode()) == (said % "").encode()
    mixed = f',"user_message_uuids":["{OURS}","{THEIRS}"]'
    assert ids.hide((said % mixed).encode()) == (said % f',"user_message_uuids":["{THEIRS}"]').encode()
    theirs = f',"user_message_uuid":"{THEIRS}","owed_rows":[]'
    assert ids.hide((said % theirs).encode()) == (said % theirs).encode()


def test_a_text_that_looks_like_such_a_report_is_not_touched() -> None:
    ids = OwnIds()
    ids.add(OURS)
    text = json.dumps({"type": "assistant", "text": f',"user_message_uuid":"{OURS}"'}, separators=(",", ":"))
    assert ids.hide(text.encode()) == text.encode()
