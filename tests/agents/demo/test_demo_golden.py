"""The demo agent compared with the real CLI: the same host, the same records in the same order, with the same fields.

tests/golden/demo_agent/*.jsonl were recorded from Claude Code 2.1.325 on our scripted model API. A line is a message
of the host, or the kind and the field names of an agent record; "..." stands for any number of deltas.
NOT compared: the values, and the fields that only concern the vendor (NOT_OURS).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.demo.demo_host import DemoHost, Record, demo

pytestmark = pytest.mark.process

GOLDEN = Path(__file__).parents[2] / "golden" / "demo_agent"
CASES = sorted(path.stem for path in GOLDEN.glob("*.jsonl"))

NOT_OURS = {
    "analytics_disabled",
    "fast_mode_disabled_reason",
    "first_content_frame_ms",
    "first_request_cache_read_input_tokens",
    "first_request_input_tokens",
    "messaging_socket_path",
    "per_turn_effort_active",
    "product_feedback_disabled",
    "request_sent_wall_ms",
    "terminal_slash_commands",
    "tool_use_meta",
    "ultrathink_available",
    "ultrathink_typed_raises",
    "view_mode",
}
LOOSE = "..."
# The real CLI starts a tool before its message has ended: the position of these between a tool's records is random.
CLOSERS = {"stream_event/content_block_stop", "stream_event/message_delta", "stream_event/message_stop"}


def kind(record: Record) -> str:
    """Return the kind of a record, named as in the golden files."""
    name = str(record["type"])
    match name:
        case "stream_event":
            name += "/" + record["event"]["type"]
        case "system":
            name += "/" + record["subtype"]
        case "control_request":
            name += "/" + record["request"]["subtype"]
        case "control_response":
            name += "/" + record["response"]["subtype"]
        case "result":
            name += f"/{record['subtype']}/{'error' if record['is_error'] else 'fine'}/{record['num_turns']}"
        case "user" | "assistant":
            content = record["message"]["content"]
            name += "/string" if isinstance(content, str) else "/" + content[0]["type"]
            if not isinstance(content, str) and content[0].get("is_error"):
                name += "/error"
    if record.get("parent_tool_use_id") and record["type"] != "tool_progress":
        name += "/subagent"
    if name in ("stream_event/content_block_delta", "system/thinking_tokens"):
        return LOOSE
    return name


class Replay:
    """Replays a golden file: sends the host's lines and compares the agent's."""

    def __init__(self, host: DemoHost) -> None:
        self._host = host
        self._ids: dict[str, str] = {}
        self._closers: list[str] = []
        self._expected_closers: list[str] = []
        self._ended = False

    async def say(self, message: Record) -> None:
        text = json.dumps(message).replace("/project", str(self._host.cwd))
        for recorded, actual in self._ids.items():
            text = text.replace(recorded, actual)
        await self._host.send(json.loads(text))

    async def expect(self, line: dict[str, Any], after: str) -> None:
        wanted = line["agent"]
        if wanted in CLOSERS:
            self._expected_closers.append(wanted)
            return
        record = await self._next(skip_loose=wanted != LOOSE)
        assert kind(record) == wanted, f"after {after}: {record}"
        if wanted == LOOSE:
            return
        missing = set(line["keys"]) - set(record) - NOT_OURS
        assert not missing, f"{wanted} lacks {missing}"
        if "request_keys" in line:
            missing = set(line["request_keys"]) - set(record["request"])
            assert not missing, f"{wanted} lacks {missing}"
        if "request_id" in line:
            known = self._ids.setdefault(line["request_id"], record["request_id"])
            assert known == record["request_id"]

    async def _next(self, *, skip_loose: bool) -> Record:
        while True:
            record = await self._host.read()
            assert record is not None, "the agent ended"
            if kind(record) in CLOSERS:
                self._closers.append(kind(record))
            elif not (skip_loose and kind(record) == LOOSE):
                return record

    async def end(self) -> int:
        rest = []
        self._host.close_stdin()
        while (record := await self._host.read()) is not None:
            rest.append(kind(record))
        assert [r for r in rest if r not in CLOSERS] == []
        assert self._closers + rest == self._expected_closers
        return await self._host.process.wait()


@pytest.mark.parametrize("case", CASES)
async def test_the_demo_agent_sends_the_same_records_as_the_real_cli(case: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (GOLDEN / f"{case}.jsonl").read_text().splitlines()]
    flags = [f for f in lines[0]["argv"] if f != "-p"]
    async with demo(tmp_path, *flags, asks=False) as host:
        # The recording's host had created this file for the cases that edit a file.
        (host.cwd / "f.txt").write_text("hello\nworld\n")
        replay = Replay(host)
        before = "the start"
        for line in lines[1:]:
            match line:
                case {"host": "closes stdin"}:
                    host.close_stdin()
                case {"host": message}:
                    await replay.say(message)
                case {"agent": name}:
                    await replay.expect(line, before)
                    before = name
                case {"exit": code}:
                    assert await replay.end() == code


def test_there_are_cases() -> None:
    assert len(CASES) > 30
