"""The state that all parts of a demo agent process share: its session, hooks, MCP servers and background tasks.

Rule: state and small services; turns and control requests are in separate modules.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from fairlead.agents.demo import records, tools
from fairlead.agents.demo.checkpoints import Checkpoints
from fairlead.agents.demo.flags import Options
from fairlead.agents.demo.ids import epoch_ms, new_id
from fairlead.agents.demo.permissions import Grants
from fairlead.agents.demo.records import Record, RecordSource, SubagentStats
from fairlead.agents.demo.transcript import Transcript
from fairlead.agents.demo.usage import TokenUsage
from fairlead.agents.demo.wire import HostGone, HostRefused, Wire


@dataclass(slots=True)
class BackgroundTask:
    """A subagent or a command that continues after its call was answered."""

    id: str
    run_id: str
    kind: str
    description: str
    tool_use_id: str
    work: asyncio.Task[None] | None = None
    subagent_type: str | None = None

    def as_record(self) -> Record:
        fields = {"task_id": self.id, "run_id": self.run_id, "task_type": self.kind, "description": self.description}
        return fields | ({"subagent_type": self.subagent_type} if self.subagent_type else {})


@dataclass(slots=True)
class DemoSession:
    """The one session of this process."""

    id: str
    cwd: str
    config: Path
    options: Options
    wire: Wire
    transcript: Transcript
    model: str
    grants: Grants
    ledger: TokenUsage
    messages: list[Record] = field(default_factory=list)
    """The conversation as the model sees it."""
    stats: SubagentStats = field(default_factory=SubagentStats)
    todos: list[Record] = field(default_factory=list)
    tasks: dict[str, BackgroundTask] = field(default_factory=dict)
    structured: bool = False
    forwards_subagents: bool = False
    """A subagent's output is sent to the host, also while the main thread waits for its call."""
    heartbeat: float = 30.0
    """Seconds between two `tool_progress` records, as measured on the real CLI."""
    retries: int = 2
    checkpoints: Checkpoints | None = None
    """Kept only when the host asked for it by CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING, as the real CLI does."""
    hooks: Hooks = field(init=False)
    mcp: McpServers = field(init=False)

    def __post_init__(self) -> None:
        self.hooks = Hooks(self)
        self.mcp = McpServers(self)

    @property
    def speaker(self) -> RecordSource:
        return RecordSource(self.id)

    @property
    def scratch(self) -> Path:
        """The folder for the output of background tasks."""
        return self.transcript.path.with_suffix("") / "tasks"

    def tools(self) -> list[str]:
        own = [t for t in records.TOOLS if self.options.asks_host or t not in ("AskUserQuestion", "ExitPlanMode")]
        return own + (["StructuredOutput"] if self.structured else []) + self.mcp.tools()

    def emit(self, record: Record) -> None:
        self.wire.emit(record)

    def emit_system(self, subtype: str, **fields: Any) -> None:
        self.emit(records.system(self.id, subtype, **fields))

    def crash(self) -> NoReturn:
        """End the process at once, as the script demands: no result, no transcript line."""
        self.wire.flush()
        print("demo agent: crashed, as the script wanted", file=sys.stderr, flush=True)
        tools.kill_all()
        os._exit(1)

    def tasks_changed(self) -> None:
        self.emit_system("background_tasks_changed", tasks=[t.as_record() for t in self.tasks.values()])

    def new_task(self, kind: str, description: str, tool_use_id: str) -> BackgroundTask:
        prefix = "a" if kind == "local_agent" else "b"
        return BackgroundTask(new_id(prefix, 16), f"0{new_id('', 8)}-{new_id('', 8)}", kind, description, tool_use_id)

    def task_ended(self, task: BackgroundTask, *, killed: bool, summary: str, output: str, **fields: Any) -> None:
        patch = {"status": "killed" if killed else "completed", "end_time": epoch_ms()}
        self.emit_system("task_updated", task_id=task.id, run_id=task.run_id, patch=patch)
        self.emit_system(
            "task_notification",
            task_id=task.id,
            run_id=task.run_id,
            tool_use_id=task.tool_use_id,
            status="stopped" if killed else "completed",
            output_file=output,
            summary=summary,
            **fields,
        )


class Hooks:
    """The hook callbacks that the host registered in `initialize`."""

    def __init__(self, session: DemoSession) -> None:
        self._session = session
        self._registered: dict[str, list[Record]] = {}
        self.prompt_id = ""

    def register(self, hooks: Record) -> None:
        """Replace all callbacks: a second `initialize` without hooks removes them, as in CLI 2.1.325."""
        self._registered = {event: matchers for event, matchers in hooks.items() if isinstance(matchers, list)}

    def events(self) -> list[str]:
        """The events that have a callback."""
        return sorted(self._registered)

    async def fire(
        self, event: str, speaker: RecordSource, fields: Record, *, tool: str | None = None, about: str | None = None
    ) -> list[Record]:
        """Every callback's answer, in order. An error of the host counts as an empty answer, as in the CLI."""
        answers = []
        for matcher in self._registered.get(event, []):
            if tool is not None and not _matches(matcher.get("matcher"), tool):
                continue
            for callback in matcher.get("hookCallbackIds", []):
                request = {
                    "subtype": "hook_callback",
                    "callback_id": callback,
                    "input": self._input(event, speaker) | fields,
                    "tool_use_id": about or new_id("hook_"),
                }
                try:
                    answers.append(await self._session.wire.ask(request))
                except HostRefused:
                    if matcher.get("onFailure") == "block":
                        answers.append({"decision": "block", "reason": "the host failed to answer its hook"})
                        continue
                    self._session.emit_system(
                        "informational",
                        content=f"{event}: the host answered hook callback {callback} with an error.",
                        level="warning",
                        tag="hook_callback_failed",
                    )
        return answers

    def _input(self, event: str, speaker: RecordSource) -> Record:
        session = self._session
        fields: Record = {
            "session_id": session.id,
            "transcript_path": str(session.transcript.path),
            "cwd": session.cwd,
            "prompt_id": self.prompt_id,
            "permission_mode": session.grants.mode,
        }
        if speaker.agent_id is not None:
            fields |= {"agent_id": speaker.agent_id, "agent_type": speaker.subagent_type}
        return fields | {"hook_event_name": event}


def _matches(matcher: Any, tool: str) -> bool:
    if not isinstance(matcher, str) or matcher in ("", "*"):
        return True
    try:
        return re.fullmatch(matcher, tool) is not None
    except re.error:
        return False


class McpServers:
    """MCP servers inside the host, reached through `mcp_message`."""

    def __init__(self, session: DemoSession) -> None:
        self._session = session
        self._tools: dict[str, list[Record]] = {}
        self._infos: dict[str, Record] = {}
        self._next_id = 0
        self._joining: asyncio.Task[None] | None = None

    def join(self, names: list[str]) -> None:
        """Start the handshake with each server; `ready` waits for it."""
        if names:
            self._joining = asyncio.create_task(self._join(names))

    async def ready(self) -> None:
        if self._joining is not None:
            await self._joining

    async def _join(self, names: list[str]) -> None:
        client = {"name": "fairlead-demo", "version": records.VERSION}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        for name in names:
            try:
                greeting = await self._call(name, "initialize", hello)
                await self._send(name, {"jsonrpc": "2.0", "method": "notifications/initialized"})
                listing = await self._call(name, "tools/list", None)
            except (HostGone, HostRefused):
                continue
            self._infos[name] = greeting.get("serverInfo") or {}
            self._tools[name] = [t for t in listing.get("tools") or [] if isinstance(t, dict)]

    async def call(self, tool: str, arguments: Record, tool_use_id: str) -> Record:
        """The result of `mcp__<server>__<tool>`. Raises KeyError if no server offers it."""
        _, server, name = tool.split("__", 2)
        if server not in self._tools or all(t.get("name") != name for t in self._tools[server]):
            raise KeyError(tool)
        meta = {"claudecode/toolUseId": tool_use_id}
        return await self._call(server, "tools/call", {"name": name, "arguments": arguments, "_meta": meta})

    def tools(self) -> list[str]:
        return [f"mcp__{server}__{t.get('name')}" for server, tools in self._tools.items() for t in tools]

    def known(self, name: str) -> bool:
        return name in self._tools

    def brief(self) -> list[Record]:
        """As `system/init` lists them."""
        return [{"name": name, "status": "connected", "source": "sdk"} for name in self._tools]

    def status(self) -> list[Record]:
        """As `mcp_status` lists them."""
        return [
            {
                "name": name,
                "status": "connected",
                "serverInfo": self._infos[name],
                "transport": "sdk",
                "scope": "dynamic",
                "source": "sdk",
                "tools": [{"name": t.get("name"), "annotations": {}} for t in tools],
            }
            for name, tools in self._tools.items()
        ]

    async def _call(self, server: str, method: str, params: Record | None) -> Record:
        message: Record = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        self._next_id += 1
        if params is not None:
            message["params"] = params
        answer = await self._send(server, message)
        result = (answer.get("mcp_response") or {}).get("result")
        return result if isinstance(result, dict) else {}

    async def _send(self, server: str, message: Record) -> Record:
        return await self._session.wire.ask({"subtype": "mcp_message", "server_name": server, "message": message})
