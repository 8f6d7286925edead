"""Golden cases of terminal frames: tests/golden/cognova-terminal/<case>/in.jsonl has one input a line (`say`: a frame
of the client, `print`, `redraw`, `exit`, `fail`); out.jsonl has the results: the input to the program (`keys`, `size`)
and the frames to the client (`frame`). FAIRLEAD_WRITE=1 rewrites them: then review the diff.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.clients.cognova.terminal import EARLY_BYTES, ShellCodec, ShellConversation
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import AgentMissing, AgentNotRunning, BadRequest
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import Handshake, Write
from fairlead.terminals.api import Size, TerminalOutput, TerminalReply, TypedKeys

CASES = Path(__file__).parents[2] / "golden" / "cognova-terminal"
NAMES = sorted(path.name for path in CASES.iterdir())
ERRORS = {
    "missing": AgentMissing("/bin/bash cannot be started.", path="/bin/bash", errno="ENOENT"),
    "gone": AgentNotRunning("The program of this terminal has ended."),
    "bad": BadRequest("No."),
}


def frames(data: bytes) -> list[dict[str, Any]]:
    """Short text frames only: a head of two or four bytes."""
    found = []
    while data:
        assert data[0] == 0x81
        head, length = (2, data[1]) if data[1] < 126 else (4, int.from_bytes(data[2:4], "big"))
        found.append({"frame": json.loads(data[head : head + length])})
        data = data[head + length :]
    return found


def play(codec: ShellCodec, line: dict[str, Any]) -> list[dict[str, Any]]:
    size = Size(*line["size"]) if "size" in line else None
    match line:
        case {"say": sent}:
            match codec.read((sent if isinstance(sent, str) else json.dumps(sent)).encode()):
                case TypedKeys(data=keys):
                    return [{"keys": keys.decode()}]
                case Size(columns=columns, rows=rows):
                    return [{"size": [columns, rows]}]
                case TerminalReply(frames=data):
                    return frames(data)
        case {"print": text}:
            return frames(codec.output(TerminalOutput(text.encode(), size=size)))
        case {"redraw": text}:
            return frames(codec.output(TerminalOutput(text.encode(), redraw=True, size=size)))
        case {"exit": exit}:
            return frames(codec.ended(Exit(**exit)))
        case {"not_started": name}:
            return frames(codec.not_started(ERRORS[name]))
        case {"fail": name}:
            return frames(codec.failed(ERRORS[name]))
    raise AssertionError(line)


@pytest.mark.rules("S002-002", "S002-060", "S002-063", "S002-066", "S002-067", "S002-068", "S002-070", "S002-072")
@pytest.mark.parametrize("case", NAMES)
def test_case(case: str) -> None:
    codec = ShellCodec(sized=case == "sized")
    given = [json.loads(line) for line in (CASES / case / "in.jsonl").read_text().splitlines()]
    found = [one for line in given for one in play(codec, line)]
    out = CASES / case / "out.jsonl"
    if os.environ.get("FAIRLEAD_WRITE"):
        out.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found))
    assert found == [json.loads(line) for line in out.read_text().splitlines()]


def test_input_for_a_starting_shell_is_bounded() -> None:
    who = Identity("c", "u", "n", frozenset({"terminal"}))
    conversation = ShellConversation(
        Handshake(head=Head(method="GET", path="/"), who=who, version="1", fresh=lambda: "f")
    )
    frame = b'{"type":"ping","more":"' + b"x" * (EARLY_BYTES // 4) + b'"}'
    for _ in range(10):
        assert conversation.throttled(frame, True, BadRequest("too many")) == ()
    error, *pongs = conversation.failed(BadRequest("No."))
    assert isinstance(error, Write) and b"Failed to start terminal: No." in error.frames
    assert len(pongs) == 3
    assert conversation.throttled(frame, True, BadRequest("too many")) == ()
