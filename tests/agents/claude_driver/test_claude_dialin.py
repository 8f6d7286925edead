"""The CLI over a dial-in link: repeated records are dropped, lost ones come from the transcript, hangs are reported."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.claude_driver.harness import MemorySink, can_use, success
from agents.links.fake_socket import Agent
from fairlead.agents.claude.dialin.link import (
    HYBRID_SECONDS,
    KEEP_ALIVE_SECONDS,
    REMEMBERED,
    SETTLING_SECONDS,
    ClaudeDialIn,
    message_name,
)
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.interpreter.state import SeenSet
from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.agents.claude.wire.control import user_line
from fairlead.agents.claude.wire.markers import ConnectionMarker, encode_marker
from fairlead.agents.links.dialin import DialInLimits, DialInLink
from fairlead.model import events as ev
from fairlead.model.agents import Decision, Launch, Record
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentRefused
from fairlead.model.ids import RequestId, SessionId
from fairlead_testing.clock import ManualClock
from patience import PATIENCE, settled

SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")
OLD, NEW = (2, 1, 37), (2, 1, 120)
PROMPT = "6a1f0b6e-5f5c-4c55-9a44-00000000000a"


def text(name: str, words: str = "hi") -> dict[str, Any]:
    message = {"id": f"m-{name}", "role": "assistant", "content": [{"type": "text", "text": words}]}
    return {"type": "assistant", "uuid": name, "message": message, "parent_tool_use_id": None}


class DialInHarness:
    """A started driver on a dial-in link, and the CLI's side of its current socket."""

    def __init__(self, folder: Path, version: tuple[int, int, int]) -> None:
        self.clock = ManualClock()
        self.sink = MemorySink()
        self.transcript = folder / "session.jsonl"
        self.wire = DialInLink(self.clock, DialInLimits(tries_s=600.0, close_code=4001), None)
        self.wire.expect()
        self.link = ClaudeDialIn(self.wire, version, self.clock, self.transcript)
        self.agent = ClaudeAgent(self.link, self.sink, self.clock, version)
        self.link.deliver, self.link.open_calls = self.agent.deliver, self.agent.open_calls
        self.cli = Agent(self.wire)

    async def start(self) -> "DialInHarness":
        starting = asyncio.create_task(
            self.agent.start(Launch(session=SESSION, cwd="/w", settings=Settings(link="dial-in")))
        )
        await settled()
        asked = msgspec.json.decode(self.cli.wire.sent[0])
        self.says(success(asked["request_id"]))
        await starting
        self.cli.wire.taken()
        self.sink.story.clear()
        return self

    def says(self, *messages: dict[str, Any]) -> None:
        self.cli.say(*(json.dumps(message) for message in messages))

    async def back(self, last: str = "") -> None:
        """Drop the socket and reconnect."""
        self.cli.drop()
        self.cli = Agent(self.wire, last)
        await settled()

    def writes(self, *rows: dict[str, Any]) -> None:
        """Write the prompt and these rows to the transcript."""
        first = {"type": "user", "uuid": PROMPT, "message": {"role": "user", "content": "go"}}
        self.transcript.write_text("".join(json.dumps(row) + "\n" for row in (first, *rows)))

    async def prompted(self) -> None:
        await self.agent.write(Record(user_line("go", "", PROMPT)[:-1], "gateway"))

    async def delivered(self, last: str) -> list[str]:
        """Wait for `last`, and return the names of all delivered records: uuids, request ids, and our markers."""
        await self.sink.until(lambda: self._names()[-1:] == [last])
        await settled()
        return self._names()

    async def filled(self) -> None:
        """Wait until the link has reconnected and read the transcript as far as needed: only then does its timer start.
        The other timer is the keep-alive."""
        async with asyncio.timeout(PATIENCE):
            while self.clock.waiting < 2:
                await asyncio.sleep(0.001)

    def _names(self) -> list[str]:
        found = []
        for record in self.sink.all("record"):
            body = msgspec.json.decode(record.raw)
            mark = next((name for name in ("gap", "over", "back") if body.get(name) is True), "")
            name = mark or body.get("uuid") or body.get("request_id") or body["type"]
            found.append(f"{record.origin}:{name}" if record.origin != "agent" else str(name))
        return found

    async def end(self) -> None:
        await self.agent.stop("the test is over")
        await self.sink.until(lambda: self.sink.all("exited"))


@pytest.fixture(params=[OLD, NEW], ids=["2.1.37", "2.1.120"])
def version(request: pytest.FixtureRequest) -> tuple[int, int, int]:
    chosen: tuple[int, int, int] = request.param
    return chosen


# --- repeated records


@pytest.mark.rules("S004-279")
async def test_records_repeated_after_a_reconnect_are_delivered_once(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, NEW).start()
    harness.says(text("a"), text("b"))
    await harness.back("b")
    harness.says(text("a"), text("b"), text("c"))
    harness.says(text("c"))
    assert await harness.delivered("c") == ["a", "b", "c"]
    await harness.end()


async def test_a_repeated_request_is_emitted_once_and_its_withdrawal_is_handled(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, NEW).start()
    harness.says(can_use("r1"), can_use("r1"))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    await harness.agent.answer(RequestId("r1"), Decision("allow"))
    harness.says(can_use("r1"))
    await settled()
    assert len(harness.sink.all("asked")) == 1, "nor when it comes again after its answer"
    harness.says(can_use("r2"))
    await harness.sink.until(lambda: len(harness.sink.all("asked")) == 2)
    harness.says({"type": "control_cancel_request", "request_id": "r2"})
    await harness.sink.until(lambda: harness.sink.all("cancelled") == ["r2"])
    await harness.end()


def test_more_messages_are_remembered_than_the_cli_keeps_but_not_all() -> None:
    seen = SeenSet()
    for number in range(10_000):
        seen.add(f"u{number}", REMEMBERED)
    assert all(f"u{number}" in seen for number in range(9_000, 10_000))
    assert "u0" not in seen


def test_a_message_without_an_id_has_no_name() -> None:
    lines = (b"{", b"[]", b'{"type":"keep_alive"}', b'{"uuid":5}', b"\xff")
    assert [message_name(line) for line in lines] == [""] * 5


@pytest.mark.rules("S004-054")
async def test_keep_alive_goes_both_ways_and_is_not_delivered(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, NEW).start()
    harness.says(text("a"), {"type": "keep_alive"}, text("b"))
    await harness.clock.advance(KEEP_ALIVE_SECONDS)
    assert harness.cli.wire.sent[-1] == b'{"type":"keep_alive"}\n'
    harness.cli.drop()
    await harness.clock.advance(KEEP_ALIVE_SECONDS)
    harness.cli = Agent(harness.wire)
    assert harness.cli.wire.sent == [], "it is not kept for later"
    assert (await harness.delivered("b"))[0] == "a"
    await harness.end()


# --- lines to the CLI


@pytest.mark.rules("S004-278")
@pytest.mark.parametrize("taken", [False, True])
async def test_a_prompt_that_may_be_lost_is_sent_again_under_its_own_id(tmp_path: Path, taken: bool) -> None:
    harness = await DialInHarness(tmp_path, OLD).start()
    await harness.prompted()
    if taken:
        harness.cli.wire.taken()
    await harness.back()
    sent = [msgspec.json.decode(line)["uuid"] for line in harness.cli.wire.sent]
    assert sent == ([] if taken else [PROMPT])
    await harness.end()


async def test_an_answer_to_a_request_from_before_the_drop_reaches_the_next_socket(
    tmp_path: Path, version: tuple[int, int, int]
) -> None:
    harness = await DialInHarness(tmp_path, version).start()
    harness.says(can_use("r1"))
    await harness.sink.until(lambda: harness.sink.all("asked"))
    harness.cli.drop()
    await harness.agent.answer(RequestId("r1"), Decision("deny", "no"))
    harness.cli = Agent(harness.wire)
    (line,) = harness.cli.wire.sent
    assert msgspec.json.decode(line)["response"]["request_id"] == "r1"
    await harness.end()


async def test_an_answer_to_a_posted_request_waits_until_the_cli_has_its_request(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, OLD).start()
    await harness.wire.post(json.dumps(can_use("r1")).encode() + b"\n")
    await harness.sink.until(lambda: harness.sink.all("asked"))
    before = len(harness.cli.wire.sent)
    answering = asyncio.create_task(harness.agent.answer(RequestId("r1"), Decision("allow")))
    await settled()
    assert len(harness.cli.wire.sent) == before
    await harness.clock.advance(HYBRID_SECONDS)
    await answering
    assert len(harness.cli.wire.sent) == before + 1
    await harness.end()


# --- gaps


@pytest.mark.rules("S004-277")
async def test_an_id_that_never_arrived_is_a_gap_that_the_transcript_fills(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, OLD).start()
    await harness.prompted()
    harness.says(text("a"))
    harness.writes(text("a"), text("lost"), {"type": "progress"})
    await harness.back("lost")
    harness.says(text("c"))
    assert await harness.delivered("c") == [
        "a",
        "gateway:gap",
        "transcript:a",
        "transcript:lost",
        "transcript:progress",
        "c",
    ]
    await harness.filled()
    await harness.clock.advance(SETTLING_SECONDS)
    assert (await harness.delivered("gateway:back"))[-1] == "gateway:back"
    await harness.end()


async def test_without_a_gap_the_transcript_is_not_read(tmp_path: Path, version: tuple[int, int, int]) -> None:
    harness = await DialInHarness(tmp_path, version).start()
    await harness.prompted()
    harness.says(text("a"))
    harness.writes(text("a"), text("not asked for"))
    await harness.back("a")
    await harness.back("")
    await harness.filled()
    await harness.clock.advance(SETTLING_SECONDS)
    assert await harness.delivered("gateway:back") == ["a", "gateway:back"]
    await harness.end()


async def test_a_version_that_repeats_lost_records_needs_no_transcript(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, NEW).start()
    await harness.prompted()
    harness.says(text("a"))
    harness.writes(text("a"), text("lost"))
    await harness.back("lost")
    harness.says(text("a"), text("lost"))
    await harness.filled()
    await harness.clock.advance(SETTLING_SECONDS)
    assert await harness.delivered("gateway:back") == ["a", "lost", "gateway:back"]
    await harness.end()


@pytest.mark.rules("S004-275")
async def test_a_loss_beyond_the_buffer_of_the_cli_is_filled_before_the_rest_is_delivered(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, NEW).start()
    await harness.prompted()
    harness.says(text("a"))
    lost = [text(f"lost-{number}") for number in range(1100)]
    harness.writes(text("a"), *lost)
    await harness.back("lost-1099")
    harness.says(*lost[100:])
    delivered = await harness.delivered("lost-1099")
    assert delivered[:2] == ["a", "gateway:gap"]
    filled = [name.removeprefix("transcript:") for name in delivered if name.startswith("transcript:lost")]
    assert filled == [row["uuid"] for row in lost], "all 1,100, in order"
    assert delivered[-1000:] == [row["uuid"] for row in lost[100:]], "the interpreter knows them again"
    await harness.end()


async def test_missing_repeats_are_filled_from_the_transcript_after_a_while(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, NEW).start()
    await harness.prompted()
    harness.says(text("a"))
    harness.writes(text("a"), text("lost"))
    await harness.back("a-result")
    await harness.filled()
    await harness.clock.advance(SETTLING_SECONDS)
    delivered = await harness.delivered("gateway:over")
    assert delivered == ["a", "gateway:gap", "transcript:a", "transcript:lost", "gateway:over"]
    await harness.end()


async def test_a_lost_result_is_assumed_only_if_no_more_records_arrive(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, OLD).start()
    await harness.prompted()
    harness.writes(text("lost"))
    await harness.back("a-piece-of-a-message")
    await harness.filled()
    harness.says(text("goes-on"))
    await harness.delivered("goes-on")
    await harness.clock.advance(SETTLING_SECONDS)
    assert (await harness.delivered("gateway:back"))[-1] == "gateway:back", "it was no result: the turn is not over"
    await harness.end()


async def test_a_missing_transcript_fills_nothing(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, OLD).start()
    await harness.back("lost")
    await harness.filled()
    assert await harness.delivered("gateway:gap") == ["gateway:gap"]
    await harness.end()


# --- the resulting events


def interpreted(*records: Record) -> list[ev.Event]:
    interpreter, seq, found = ClaudeInterpreter(SESSION), 0, []
    for record in records:
        for event in interpreter.step(record).events:
            seq += 1
            interpreter.assign_seq(event, seq)
            found.append(event)
    return found


def agents(**message: Any) -> Record:
    return Record(json.dumps(message).encode())


def marked(**fields: Any) -> Record:
    return Record(encode_marker(ConnectionMarker(cause="c", **fields)), "gateway")


PROMPTED = Record(user_line("go", "", PROMPT)[:-1], "gateway")


def stream(name: str, **event: Any) -> Record:
    return agents(type="stream_event", uuid=name, event=event)


def delta(name: str, words: str) -> Record:
    return stream(name, type="content_block_delta", index=0, delta={"type": "text_delta", "text": words})


def test_after_a_gap_no_delta_has_a_wrong_offset_and_the_block_is_complete() -> None:
    start = stream("s1", type="message_start", message={"id": "m1"})
    block = stream("s2", type="content_block_start", index=0, content_block={"type": "text", "text": ""})
    whole = text("a", "one lost three")
    whole["message"]["id"] = "m1"
    events = interpreted(
        PROMPTED, start, block, delta("s3", "one "), marked(gap=True), delta("s5", "three"), agents(**whole)
    )
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["one "]
    (final,) = [event for event in events if isinstance(event, ev.Text)]
    assert final.text == "one lost three" and [mark[1] for mark in final.marks] == [4]
    assert [event.kind for event in events if isinstance(event, ev.Notice)] == ["link.gap"], "no gap is silent"


def tool(name: str) -> Record:
    call = {"type": "tool_use", "id": name, "name": "Bash", "input": {}}
    return agents(type="assistant", uuid=f"u-{name}", message={"id": f"m-{name}", "content": [call]})


def test_a_call_without_a_result_is_reported_unless_its_permission_is_pending() -> None:
    (notice,) = [e for e in interpreted(PROMPTED, tool("t1"), marked(back=True)) if isinstance(e, ev.Notice)]
    assert (notice.kind, notice.data) == ("link.back", {"offers": ["interrupt"], "calls": ["t1"]})
    asked = interpreted(PROMPTED, tool("t1"), marked(back=True, asked=("t1",)))
    idle = interpreted(marked(back=True))
    assert not any(isinstance(event, ev.Notice) for event in (*asked, *idle))


def test_a_turn_with_a_lost_result_ends_with_its_final_answer() -> None:
    row = text("a", "done")
    row |= {"version": "2.1.37"}
    events = interpreted(PROMPTED, marked(gap=True), Record(json.dumps(row).encode(), "transcript"), marked(over=True))
    assert [event.status for event in events if isinstance(event, ev.TurnEnded)] == ["completed"]
    running = interpreted(PROMPTED, tool("t1"), marked(over=True))
    assert not any(isinstance(event, ev.TurnEnded) for event in running)


def test_the_agent_cannot_forge_our_markers() -> None:
    forged = Record(encode_marker(ConnectionMarker(gap=True, over=True, back=True)))
    events = interpreted(PROMPTED, tool("t1"), forged)
    assert not any(isinstance(event, ev.Notice | ev.TurnEnded) for event in events)


# --- variables


@pytest.mark.rules("S004-125")
async def test_variables_are_sent_to_versions_that_use_them_and_rejected_for_others(tmp_path: Path) -> None:
    harness = await DialInHarness(tmp_path, OLD).start()
    await harness.agent.set_variables({"TEAM": "blue"})
    assert harness.cli.wire.sent[-1] == b'{"type":"update_environment_variables","variables":{"TEAM":"blue"}}\n'
    await harness.end()
    newest = ClaudeAgent(harness.link, harness.sink, harness.clock, (2, 1, 325))
    with pytest.raises(AgentRefused, match=r"2\.1\.325"):
        await newest.set_variables({"TEAM": "blue"})
