"""The native socket by case: tests/golden/native/<case>/in.jsonl gives out.jsonl, frame by frame.

A line of `in` is a client's frame (an object), or raw text (a string); a line of `out` is a frame of the gateway, or
a request of the conversation to the server (`does`).
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clients.native.conversation_driver import ConversationDriver
from fairlead.clients.native.codec import MSGPACK

CASES = Path(__file__).parents[2] / "golden" / "native"


def lines(path: Path) -> list[Any]:
    return [msgspec.json.decode(line) for line in path.read_text().splitlines() if line]


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_case_comes_out_as_written(case: str) -> None:
    dialogue = ConversationDriver()
    output = [*dialogue.open()]
    for message in lines(CASES / case / "in.jsonl"):
        output += dialogue.say(message)
    assert output == lines(CASES / case / "out.jsonl")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_messagepack_gives_the_same_output(case: str) -> None:
    dialogue = ConversationDriver(subprotocol=MSGPACK)
    output = [*dialogue.open()]
    for message in lines(CASES / case / "in.jsonl"):
        if not isinstance(message, str):
            output += dialogue.say(message)
    expected = [line for line in lines(CASES / case / "out.jsonl") if line.get("code") != "bad_frame"]
    for line in expected:
        if line.get("variant"):
            line["variant"] = "native/msgpack"
    assert [line for line in output if line.get("code") != "bad_frame"] == expected
