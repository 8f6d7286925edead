"""The AsyncAPI document matches the code, and real frames fit it."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_schema_validator import OAS31Validator

from clients.native.asyncapi import document
from clients.native.conversation_driver import ConversationDriver, frames
from fairlead.clients.native.codec import Codec
from fairlead.clients.native.terminal import NativeTerminalCodec
from fairlead.model import events as ev
from fairlead.model.agents import Exit
from fairlead.model.errors import NotFound
from fairlead.model.ids import EventId, MessageId, SessionId
from fairlead.model.store import Entry
from fairlead.terminals.api import Size, TerminalOutput, TerminalReply

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "reference" / "asyncapi.yaml"
GOLDEN = ROOT / "tests" / "golden" / "native-dialogues"


@pytest.fixture(scope="module")
def made() -> Any:
    return document(version("fairlead"))


def check(made: Any, message: str, value: Any) -> None:
    schema = {**made["components"]["messages"][message]["payload"], "components": made["components"]}
    OAS31Validator(schema).validate(value)


def test_the_file_in_the_docs_is_up_to_date(made: Any) -> None:
    """FAIRLEAD_WRITE=1 writes it."""
    if os.environ.get("FAIRLEAD_WRITE") == "1":
        FILE.write_bytes(msgspec.yaml.encode(made))
    assert msgspec.yaml.decode(FILE.read_bytes()) == made


@pytest.mark.parametrize("case", ["commands", "subscriptions"])
def test_good_frames_of_the_golden_cases_fit(made: Any, case: str) -> None:
    for line in (GOLDEN / case / "in.jsonl").read_text().splitlines():
        frame = msgspec.json.decode(line)
        check(made, f"{frame['type']}.request", frame)
    for line in (GOLDEN / case / "out.jsonl").read_text().splitlines():
        frame = msgspec.json.decode(line)
        if "does" not in frame:
            check(made, frame["type"], frame)


def test_errors_fit(made: Any) -> None:
    for line in (GOLDEN / "bad-frames" / "out.jsonl").read_text().splitlines():
        frame = msgspec.json.decode(line)
        check(made, frame["type"], frame)


def test_an_event_and_a_signal_fit(made: Any) -> None:
    session = SessionId("11111111-1111-4111-8111-111111111111")
    event = ev.Text(id=EventId("e"), at=1, message=MessageId("m"), block=0, text="x", marks=((1, 2),))
    entry = Entry(2, 1, 1, "text", ev.encode(event))
    check(made, "event", msgspec.json.decode(frames(Codec().encode(session, entry))[0][1]))
    for kind in ("presence", "typing"):
        check(made, kind, msgspec.json.decode(frames(Codec().signal(session, kind, "Ann", ["Ann"]))[0][1]))


def test_every_frame_that_is_accepted_is_described(made: Any) -> None:
    listed = [name for name in made["channels"]["socket"]["messages"] if name.endswith(".request")]
    described = {name.removesuffix(".request") for name in listed}
    for kind in described:
        (answer, *_) = ConversationDriver().say({"type": kind})
        assert answer.get("code") != "unknown_type", kind


def test_frames_of_a_terminal_fit(made: Any) -> None:
    codec = NativeTerminalCodec()
    sent = [*frames(codec.output(TerminalOutput(b"x", redraw=True, size=Size(4, 2))))[:1]]
    sent += frames(codec.output(TerminalOutput(b"x", redraw=True, size=Size(4, 2))))[:1]
    sent += [*frames(codec.ended(Exit(code=1))), *frames(codec.failed(NotFound("terminal", "x")))]
    answer = codec.read(b'{"type":"ping"}')
    assert isinstance(answer, TerminalReply)
    sent += frames(answer.frames)
    for _, payload in sent:
        value = msgspec.json.decode(payload)
        check(made, f"terminal.{value['type']}", value)
    inputs: list[dict[str, Any]] = [
        {"type": "input", "data": "x"},
        {"type": "resize", "cols": 4, "rows": 2},
        {"type": "ping"},
    ]
    for value in inputs:
        codec.read(msgspec.json.encode(value))
        check(made, f"terminal.{value['type']}.request", value)
