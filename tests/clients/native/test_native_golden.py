"""The native socket by case: tests/golden/native-dialogues/<case>/in.jsonl gives out.jsonl, frame by frame.

A line of `in` is a client's frame (an object), or raw text (a string); a line of `out` is a frame of the gateway, or
a request of the conversation to the server (`does`).
"""

from pathlib import Path
from typing import Any

import pytest

from clients.native.conversation_driver import ConversationDriver
from fairlead.clients.native.codec import MSGPACK
from golden.cases import read_lines

CASES = Path(__file__).parents[2] / "golden" / "native-dialogues"


def lines(case: str, name: str) -> list[Any]:
    return read_lines(CASES.name, case, name)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_case_comes_out_as_written(case: str) -> None:
    dialogue = ConversationDriver()
    output = [*dialogue.open()]
    for message in lines(case, "in.jsonl"):
        output += dialogue.say(message)
    assert output == lines(case, "out.jsonl")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_messagepack_gives_the_same_output(case: str) -> None:
    dialogue = ConversationDriver(subprotocol=MSGPACK)
    output = [*dialogue.open()]
    for message in lines(case, "in.jsonl"):
        if not isinstance(message, str):
            output += dialogue.say(message)
    expected = [line for line in lines(case, "out.jsonl") if line.get("code") != "bad_frame"]
    for line in expected:
        if line.get("variant"):
            line["variant"] = "native/msgpack"
    assert [line for line in output if line.get("code") != "bad_frame"] == expected
