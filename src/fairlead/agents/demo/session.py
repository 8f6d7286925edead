"""The state that all parts of a demo agent process share: its session, MCP servers and background tasks.

Rule: state and small services; turns and control requests are in separate modules.
"""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from fairlead.agents.demo import records, tools
from fairlead.agents.demo.checkpoints import Checkpoints
from fairlead.agents.demo.flags import Options
from fairlead.agents.demo.ids import epoch_ms, new_id, new_uuid
from fairlead.agents.demo.permissions import Grants
from fairlead.agents.demo.records import Record, RecordSource
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
    output: Path
    subagent_type: str | None = None
    prompt: str = ""
    depth: int = 0
    work: asyncio.Task[None] | None = None

    def as_record(self) -> Record:
        fields = {"task_id": self.id, "run_id": self.run_id, "task_type": self.kind, "description": self.description}
        return fields | ({"subagent_type": self.subagent_type} if self.subagent_type else {})


@dataclass(slots=True)
class DemoSession:
    """The one session of this process."""

    id: str
    cwd: str
    options: Options
    wire: Wire
    transcript: Transcript
    model: str
    grants: Grants
    ledger: TokenUsage
    messages: list[Record] = field(default_factory=list)
    """The conversation as the model sees it."""
    subagents: int = 0
    """How many subagents were started."""
    todos: list[Record] = field(default_factory=list)
    tasks: dict[str, BackgroundTask] = field(default_factory=dict)
    structured: bool = False
    forwards_subagents: bool = False
    """A subagent's output is sent to the host, also while the main thread waits for its call."""
    heartbeat: float = 30.0
    """Seconds between two `tool_progress` records, as measured on the real CLI."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    hooks: list[Record] = field(default_factory=list)
    """The host's PreToolUse hooks, as `initialize` registered them."""
    mcp: "McpServers" = field(init=False)

    def __post_init__(self) -> None:
        self.mcp = McpServers(self.wire)

    @property
    def speaker(self) -> RecordSource:
        return RecordSource(self.id)

    def tools(self) -> list[str]:
        own = [t for t in records.TOOLS if self.options.asks_host or t not in ("AskUserQuestion", "ExitPlanMode")]
        return own + (["StructuredOutput"] if self.structured else []) + self.mcp.tools()

    def emit(self, record: Record) -> None:
        self.wire.emit(record)

    def emit_system(self, subtype: str, **fields: Any) -> None:
        self.emit(records.system(self.id, subtype, **fields))

    def emit_lifecycle(self, prompt_uuid: str, state: str) -> None:
        about = {"type": "command_lifecycle", "command_uuid": prompt_uuid, "state": state}
        self.emit({**about, "uuid": new_uuid(), "session_id": self.id})

    def emit_status(self, state: str | None, **fields: Any) -> None:
        self.emit_system("status", status=state, **fields)

    def emit_init(self, **fields: Any) -> None:
        """Emit the record that begins a turn."""
        self.emit_system(
            "init",
            cwd=self.cwd,
            tools=self.tools(),
            mcp_servers=self.mcp.brief(),
            model=self.model,
            permissionMode=self.grants.mode,
            slash_commands=records.COMMANDS,
            apiKeySource="none",
            claude_code_version=records.VERSION,
            output_style="default",
            agents=records.AGENTS,
            skills=[],
            plugins=[],
            capabilities=["interrupt_receipt_v1", "msg_lifecycle_v1"],
            memory_paths={"auto": f"{self.transcript.path.parent}/memory/"},
            original_cwd=self.cwd,
            additional_directories=[],
            fast_mode_state="off",
            **fields,
        )

    def crash(self) -> NoReturn:
        """End the process at once, as the script demands: no result, no transcript line."""
        self.wire.flush()
        print("demo agent: crashed, as the script wanted", file=sys.stderr, flush=True)
        tools.kill_all()
        os._exit(1)

    def tasks_changed(self) -> None:
        self.emit_system("background_tasks_changed", tasks=[t.as_record() for t in self.tasks.values()])

    def new_task(self, kind: str, description: str, tool_use_id: str) -> BackgroundTask:
        task_id = new_id("a" if kind == "local_agent" else "b", 16)
        run_id = f"0{new_id('', 8)}-{new_id('', 8)}"
        output = self.transcript.path.with_suffix("") / "tasks" / f"{task_id}.output"
        return BackgroundTask(task_id, run_id, kind, description, tool_use_id, output)

    def task_ended(self, task: BackgroundTask, *, killed: bool, summary: str, **fields: Any) -> None:
        patch = {"status": "killed" if killed else "completed", "end_time": epoch_ms()}
        self.emit_system("task_updated", task_id=task.id, run_id=task.run_id, patch=patch)
        status = "stopped" if killed else "completed"
        self.notify_task(task, status, output_file=str(task.output), summary=summary, **fields)

    def notify_task(self, task: BackgroundTask, status: str, **fields: Any) -> None:
        about = {"task_id": task.id, "run_id": task.run_id, "tool_use_id": task.tool_use_id}
        self.emit_system("task_notification", **about, status=status, **fields)


class McpServers:
    """MCP servers inside the host, reached through `mcp_message`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
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
        """The result of `mcp__<server>__<tool>`, one of `tools`."""
        _, server, name = tool.split("__", 2)
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
        return await self._wire.ask({"subtype": "mcp_message", "server_name": server, "message": message})
