"""Subagent messages that an older CLI does not send: inserted once between the wire records, at the right place."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agents.claude_driver.harness import MemorySink
from agents.claude_transcripts.transcript_files import Row, Writer, line
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.stdio.subagent_files import LAG_SECONDS, SubagentFiles
from fairlead.agents.claude.versions import Version
from fairlead.model import events as ev
from fairlead.model.agents import Record
from fairlead.model.ids import SessionId
from fairlead_testing.clock import ManualClock
from patience import settled

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
OLD: Version = (2, 1, 37)
MIDDLE: Version = (2, 1, 120)
CALL = "toolu_1"


class SubagentHarness:
    """A CLI with one subagent: its transcript rows and its wire messages."""

    def __init__(self, folder: Path, version: Version = OLD) -> None:
        self.transcript = folder / f"{SESSION}.jsonl"
        self.clock = ManualClock()
        self.sink = MemorySink()
        self.write = Writer(SESSION, ".".join(map(str, version)))
        self.version = version
        self.open()

    def open(self) -> None:
        self.files = SubagentFiles(self.transcript, self.version, self.clock, self.sink.records)

    def writes(self, *rows: Row, agent: str = "a1") -> None:
        path = self.transcript.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"".join(map(line, rows)))

    def says(self, text: str) -> Row:
        return self.write.text(text, thread="side", agent="a1")

    def calls(self, call: str) -> Row:
        return self.write.call(call, thread="side", agent="a1", command="ls")

    def asked(self) -> Row:
        return self.write.prompt("look", thread="side", agent="a1")

    async def sent(self, message: Row) -> list[str]:
        """Return summaries of the records to insert before a wire message; the clock advances meanwhile."""
        raw = json.dumps(message, separators=(",", ":")).encode()
        assert self.files.concerns(raw)
        waiting = asyncio.create_task(self.files.before(raw))
        while not waiting.done():
            await settled()
            await self.clock.advance(0.1)
        return [summary_of(record) for record in waiting.result()]


def summary_of(record: Record) -> str:
    """Check that a record has the form that newer versions send, and return it in one word."""
    message = json.loads(record.raw)
    assert record.origin == "agent"
    if message["type"] == "system":
        return str(message["subtype"])
    assert (message["parent_tool_use_id"], message["session_id"]) == (CALL, SESSION)
    content = message["message"]["content"]
    return content if isinstance(content, str) else str(content[0].get("text") or content[0].get("name"))


def on_wire(row: Row, call: str = CALL) -> Row:
    return {"type": row["type"], "uuid": row["uuid"], "message": row["message"], "parent_tool_use_id": call}


def result(**facts: Any) -> Row:
    content = [{"type": "tool_result", "tool_use_id": CALL, "content": "done"}]
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": "r", "message": message, "parent_tool_use_id": None, "tool_use_result": facts}


def finished(text: str) -> Row:
    return result(status="completed", agentId="a1", content=[{"type": "text", "text": text}])


async def test_texts_come_before_the_call_that_follows_them_and_the_last_before_the_result(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path)
    task, first, call, last = harness.asked(), harness.says("I look."), harness.calls("toolu_2"), harness.says("Found.")
    harness.writes(task)
    assert await harness.sent(on_wire(task)) == []
    harness.writes(first, call)
    assert await harness.sent(on_wire(call)) == ["I look."]
    harness.writes(last)
    assert await harness.sent(finished("Found.")) == ["Found."]
    assert await harness.sent(finished("Found.")) == [], "once"


async def test_an_unwritten_row_is_waited_for(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path)
    task, last = harness.asked(), harness.says("Found.")
    waiting = asyncio.create_task(harness.sent(on_wire(task)))
    await settled()
    harness.writes(task)
    assert await waiting == []
    waiting = asyncio.create_task(harness.sent(finished("Found.")))
    await settled()
    harness.writes(last)
    assert await waiting == ["Found."]


async def test_rows_written_out_of_order_are_delivered_in_order(tmp_path: Path) -> None:
    """Measured with 2.1.37 on a busy machine."""
    harness = SubagentHarness(tmp_path)
    task, first, call = harness.asked(), harness.says("I look."), harness.calls("toolu_2")
    harness.writes(first, call, task)
    assert await harness.sent(on_wire(task)) == []
    assert await harness.sent(on_wire(call)) == ["I look."]


async def test_a_missing_file_is_waited_for_once(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path)
    task, call = harness.asked(), harness.calls("toolu_2")
    assert await harness.sent(on_wire(task)) == []
    assert harness.clock.monotonic() >= LAG_SECONDS
    waited = harness.clock.monotonic()
    assert await harness.files.before(json.dumps(on_wire(call), separators=(",", ":")).encode()) == []
    assert harness.clock.monotonic() == waited


async def test_rows_of_an_earlier_process_are_not_delivered_again(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path)
    harness.writes(harness.asked(), harness.says("Long ago."))
    harness.open()
    again, last = harness.asked(), harness.says("Now.")
    harness.writes(again, last)
    assert await harness.sent(on_wire(again)) == []
    assert await harness.sent(finished("Now.")) == ["Now."]


async def test_a_version_that_sends_the_texts_itself_waits_for_no_file(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path, MIDDLE)
    task = harness.asked()
    harness.writes(task, harness.says("I look."))
    raw = json.dumps(on_wire(task), separators=(",", ":")).encode()
    assert await harness.files.before(raw) == []
    assert await harness.files.before(json.dumps(finished("I look."), separators=(",", ":")).encode()) == []


async def test_a_background_subagent_is_delivered_as_it_writes_and_its_last_text_before_its_end(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path, MIDDLE)
    harness.writes(harness.asked())
    assert await harness.sent(result(isAsync=True, status="async_launched", agentId="a1")) == []
    harness.writes(harness.says("I look."))
    await settled()
    await harness.clock.advance(0.3)
    await harness.sink.until(lambda: harness.sink.raws)
    assert [summary_of(record) for record in harness.sink.all("record")] == ["I look."]
    harness.writes(harness.calls("toolu_2"), harness.says("Found."))
    end = {"type": "system", "subtype": "task_notification", "task_id": "a1", "tool_use_id": CALL}
    rest = await harness.sent(end)
    received = [summary_of(record) for record in harness.sink.all("record")]
    assert [*received, *rest] == ["I look.", "Bash", "Found."]
    assert await harness.files.close() == []


async def test_an_end_that_is_not_sent_is_read_from_the_session_file(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path)
    harness.transcript.write_bytes(line(harness.write.prompt("begin")))
    harness.writes(harness.asked(), harness.says("Found."))
    assert await harness.sent(result(isAsync=True, status="async_launched", agentId="a1")) == []
    await settled()
    ended_in(harness.transcript)
    while len(harness.sink.raws) < 2:
        await harness.clock.advance(0.3)
        await settled()
    assert [summary_of(record) for record in harness.sink.all("record")] == ["Found.", "task_notification"]
    assert await harness.files.close() == []


def ended_in(transcript: Path) -> None:
    """Append the row that 2.1.37 writes to the session's own file when a background subagent has ended."""
    note = "<task-notification><task-id>a1</task-id><status>completed</status></task-notification>"
    with transcript.open("ab") as file:
        file.write(line({"type": "queue-operation", "operation": "enqueue", "content": note, "sessionId": SESSION}))


async def test_an_end_written_before_the_first_read_is_delivered(tmp_path: Path) -> None:
    """On a busy machine a short subagent is over before its start has been read from the wire."""
    harness = SubagentHarness(tmp_path)
    harness.transcript.write_bytes(line(harness.write.prompt("begin")))
    harness.writes(harness.asked(), harness.says("Found."))
    ended_in(harness.transcript)
    assert await harness.sent(result(isAsync=True, status="async_launched", agentId="a1")) == []
    while len(harness.sink.raws) < 2:
        assert harness.clock.monotonic() < 60, "its end never comes"
        await harness.clock.advance(0.3)
        await settled()
    assert [summary_of(record) for record in harness.sink.all("record")] == ["Found.", "task_notification"]
    assert await harness.files.close() == []


async def test_an_end_from_an_earlier_process_is_ignored(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path)
    harness.transcript.write_bytes(line(harness.write.prompt("begin")))
    ended_in(harness.transcript)
    harness.open()
    harness.writes(harness.asked(), harness.says("Again."))
    assert await harness.sent(result(isAsync=True, status="async_launched", agentId="a1")) == []
    for _ in range(10):
        await harness.clock.advance(0.3)
        await settled()
    assert [summary_of(record) for record in harness.sink.all("record")] == ["Again."]
    await harness.files.close()


async def test_a_last_text_written_after_the_end_is_delivered_before_it(tmp_path: Path) -> None:
    """Two files, two writers: the session's own file may be written first."""
    harness = SubagentHarness(tmp_path)
    harness.transcript.write_bytes(line(harness.write.prompt("begin")))
    task, first, call = harness.asked(), harness.says("I look."), harness.calls("toolu_2")
    harness.writes(task, first, call)
    assert await harness.sent(result(isAsync=True, status="async_launched", agentId="a1")) == []
    await settled()
    await harness.clock.advance(0.3)
    await harness.sink.until(lambda: len(harness.sink.raws) == 2)
    ended_in(harness.transcript)
    await harness.clock.advance(0.3)
    await settled()
    harness.writes(harness.says("Found."))
    while len(harness.sink.raws) < 4:
        assert harness.clock.monotonic() < 60, "its end never comes"
        await harness.clock.advance(0.1)
        await settled()
    received = [summary_of(record) for record in harness.sink.all("record")]
    assert received == ["I look.", "Bash", "Found.", "task_notification"]


async def test_the_last_rows_are_delivered_when_the_process_has_ended(tmp_path: Path) -> None:
    harness = SubagentHarness(tmp_path, MIDDLE)
    assert await harness.sent(result(isAsync=True, status="async_launched", agentId="a1")) == []
    harness.writes(harness.asked(), harness.says("Too late."))
    rest = await harness.files.close()
    assert [summary_of(record) for record in [*harness.sink.all("record"), *rest]] == ["Too late."]


def test_a_background_turn_of_a_version_that_reports_nothing_ends_with_its_subagent() -> None:
    """2.1.37 starts no turn by itself: without this its session would stay busy forever."""
    interpreter = ClaudeInterpreter(SESSION)
    call = {"type": "tool_use", "id": CALL, "name": "Task", "input": {"prompt": "look", "run_in_background": True}}
    inputs: list[Row] = [
        {"type": "system", "subtype": "init", "uuid": "i", "session_id": SESSION, "claude_code_version": "2.1.37"},
        {"type": "assistant", "uuid": "a", "message": {"id": "m", "role": "assistant", "content": [call]}},
        result(isAsync=True, status="async_launched", agentId="a1"),
        {"type": "result", "subtype": "success", "is_error": False, "uuid": "e", "session_id": SESSION},
        {
            "type": "assistant",
            "uuid": "s",
            "parent_tool_use_id": CALL,
            "message": {"id": "n", "role": "assistant", "content": [{"type": "text", "text": "Found."}]},
        },
        {"type": "system", "subtype": "task_notification", "uuid": "t", "task_id": "a1", "status": "completed"},
    ]
    events = [event for given in inputs for event in interpreter.step(Record(json.dumps(given).encode())).events]
    assert [type(event) for event in events if isinstance(event, ev.TurnStarted | ev.TurnEnded)] == [
        ev.TurnStarted,
        ev.TurnEnded,
        ev.TurnStarted,
        ev.TurnEnded,
    ]
    assert interpreter.turn is None and len(interpreter.background_work) == 0
