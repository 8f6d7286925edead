"""Hand-made transcripts in the CLI's format: rows, whole sessions, and a home folder for them."""

import itertools
import json
import uuid
from pathlib import Path
from typing import Any

Row = dict[str, Any]
SESSION = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


def line(row: Row) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def lines(rows: list[Row]) -> bytes:
    return b"".join(map(line, rows))


class Writer:
    """Rows of one session, each with the next uuid and time; threads are chained by parentUuid."""

    def __init__(self, session: str = SESSION, version: str = "2.1.325", cwd: str = "/srv/project") -> None:
        self.session = session
        self.version = version
        self.cwd = cwd
        self._count = itertools.count(1)
        self._last: dict[str, str] = {}

    def row(self, kind: str, thread: str = "", agent: str = "", **fields: Any) -> Row:
        number = next(self._count)
        made = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.session}/{number}"))
        row = {
            "parentUuid": self._last.get(thread),
            "isSidechain": bool(thread),
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": "main",
            "type": kind,
            "uuid": made,
            "timestamp": f"2023-01-02T03:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000:03d}Z",
            **({"agentId": agent} if agent else {}),
            **fields,
        }
        self._last[thread] = made
        return row

    def prompt(self, text: Any, thread: str = "", agent: str = "", **fields: Any) -> Row:
        return self.row("user", thread, agent, message={"role": "user", "content": text}, **fields)

    def says(
        self, *blocks: Row, thread: str = "", agent: str = "", stop: str | None = "end_turn", **fields: Any
    ) -> Row:
        name = f"msg_{next(self._count)}"
        message = {"id": name, "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
        return self.row(
            "assistant", thread, agent, message={**message, "content": list(blocks), "stop_reason": stop}, **fields
        )

    def text(self, text: str, thread: str = "", agent: str = "", **fields: Any) -> Row:
        return self.says({"type": "text", "text": text}, thread=thread, agent=agent, **fields)

    def call(self, call: str, name: str = "Bash", thread: str = "", agent: str = "", **given: Any) -> Row:
        block = {"type": "tool_use", "id": call, "name": name, "input": given}
        return self.says(block, thread=thread, agent=agent, stop="tool_use")

    def result(self, call: str, content: Any = "ok", thread: str = "", agent: str = "", data: Any = None) -> Row:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        fields = {} if data is None else {"toolUseResult": data}
        return self.row("user", thread, agent, message={"role": "user", "content": [block]}, **fields)


SIDE_ROWS = (24, 26, 24)
"""The number of rows of each of three concurrent subagents: 74 in total."""


def subagent_rows(write: Writer, thread: str, agent: str, prompt: str, count: int) -> list[Row]:
    """Build a subagent's whole thread: its prompt, calls with their results, a last text."""
    rows = [write.prompt(prompt, thread, agent)]
    for number in range((count - 2) // 2):
        call = f"toolu_{thread}_{number}"
        rows.append(write.call(call, "Read", thread, agent, file_path=f"/srv/{number}"))
        rows.append(write.result(call, f"content {number}", thread, agent))
    rows.append(write.text(f"{thread} has finished", thread, agent))
    assert len(rows) == count
    return rows


def three_subagents(agents: bool) -> tuple[list[Row], list[list[Row]], list[Row]]:
    """Return (rows before, rows of three subagents, rows after). `agents`: with agent ids, as newer CLIs write them."""
    write = Writer()
    calls = ["toolu_a", "toolu_b", "toolu_c"]
    before = [write.prompt("look at three things")]
    for call in calls:
        before.append(write.call(call, "Task", description=f"job {call}", prompt=f"do {call}"))
    names = [call.removeprefix("toolu_") if agents else "" for call in calls]
    side = [
        subagent_rows(write, call, name, f"do {call}", count)
        for call, name, count in zip(calls, names, SIDE_ROWS, strict=True)
    ]
    after = [
        write.result(
            call,
            "done",
            data={"status": "completed", "content": [{"type": "text", "text": "done"}]}
            | ({"agentId": name} if name else {}),
        )
        for call, name in zip(calls, names, strict=True)
    ]
    return before, side, [*after, write.text("all three are done")]


class Home:
    """A Claude home in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / ".claude"
        self.project = self.folder / "projects" / "-srv-project"
        self.project.mkdir(parents=True)

    def path(self, session: str = SESSION) -> Path:
        return self.project / f"{session}.jsonl"

    def write(self, rows: list[Row] | bytes, session: str = SESSION) -> Path:
        path = self.path(session)
        with path.open("ab") as file:
            file.write(rows if isinstance(rows, bytes) else lines(rows))
        return path

    def subagent(self, agent: str, rows: list[Row] | bytes, call: str = "", session: str = SESSION) -> Path:
        folder = self.path(session).with_suffix("") / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"agent-{agent}.jsonl"
        if call:
            path.with_suffix(".meta.json").write_text(json.dumps({"agentType": "general-purpose", "toolUseId": call}))
        with path.open("ab") as file:
            file.write(rows if isinstance(rows, bytes) else lines(rows))
        return path

    def write_in_project(self, agent: str, rows: list[Row] | bytes) -> Path:
        """Write a subagent's file where older versions put it: in the project's folder, whatever its session."""
        path = self.project / f"agent-{agent}.jsonl"
        with path.open("ab") as file:
            file.write(rows if isinstance(rows, bytes) else lines(rows))
        return path


def conversation(words: str = "hello", session: str = SESSION, **fields: Any) -> list[Row]:
    """Build a short complete conversation."""
    write = Writer(session, **fields)
    return [
        write.prompt(words),
        write.call("toolu_1", command="ls"),
        write.result("toolu_1", "README.md", data={"stdout": "README.md"}),
        write.text(f"answer to {words}"),
    ]
