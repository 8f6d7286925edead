"""The state that all parts of a stand-in CLI process share, and the format of the records that it emits."""

import asyncio
import os
import sys
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fairlead.agents.demo import tools
from fairlead_testing.model_messages import FINISHED, Record
from fairlead_testing.standin_cli.checkpoints import Checkpoints
from fairlead_testing.standin_cli.flags import VERSION, Options
from fairlead_testing.standin_cli.permissions import Grants
from fairlead_testing.standin_cli.transcript import Transcript, timestamp
from fairlead_testing.standin_cli.wire import McpServers, Wire

TOOLS = ["Task", "AskUserQuestion", "Bash", "Edit", "ExitPlanMode", "Glob", "Read", "TodoWrite", "Write"]
COMMANDS = ["compact"]
MODELS = {"default": "claude-opus-5-5"} | {name: f"claude-{name}-5-5" for name in ("opus", "sonnet", "haiku")}
COST_PER_CALL = 0.0009102
"""In dollars. The value has no meaning, but the sums add up."""
_USAGE_PER_CALL = {
    "inputTokens": FINISHED["input_tokens"],
    "outputTokens": FINISHED["output_tokens"],
    "cacheReadInputTokens": FINISHED["cache_read_input_tokens"],
    "cacheCreationInputTokens": FINISHED["cache_creation_input_tokens"],
    "costUSD": COST_PER_CALL,
}


def resolve_model(name: str | None) -> str:
    """The model that an alias stands for; any other name is unchanged, as in the real CLI."""
    return MODELS.get(name or "default", name or "")


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The source of a record: the main thread, or a subagent inside a call."""

    session_id: str
    parent_tool_use_id: str | None = None
    agent_id: str | None = None

    def record(self, kind: str, **fields: Any) -> Record:
        head = {"type": kind, "parent_tool_use_id": self.parent_tool_use_id, "session_id": self.session_id}
        if self.agent_id is not None:
            head["agent_id"] = self.agent_id
        return {**head, "uuid": str(uuid.uuid4()), "timestamp": timestamp(), **fields}


@dataclass(slots=True)
class BackgroundTask:
    """A subagent or a command that continues after its call was answered."""

    id: str
    kind: str
    description: str
    tool_use_id: str
    work: asyncio.Task[None] | None = None

    def as_record(self) -> Record:
        return {"task_id": self.id, "task_type": self.kind, "description": self.description}


@dataclass(slots=True)
class StandinSession:
    id: str
    cwd: str
    options: Options
    wire: Wire
    transcript: Transcript
    messages: list[Record]
    """The conversation as the model sees it."""
    model: str = field(init=False)
    grants: Grants = field(init=False)
    mcp: McpServers = field(init=False)
    calls: Counter[str] = field(default_factory=Counter)
    """Calls of each model."""
    reported: Counter[str] = field(default_factory=Counter)
    """Those of them that the last result included."""
    tasks: dict[str, BackgroundTask] = field(default_factory=dict)
    structured: bool = False
    """The host asked for structured output."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    hooks: list[Record] = field(default_factory=list)
    """The host's PreToolUse hooks, as `initialize` registered them."""

    def __post_init__(self) -> None:
        self.model = resolve_model(self.options.model)
        self.grants = Grants(self.options.permission_mode, self.cwd, self.options.add_dir)
        self.mcp = McpServers(self.wire)

    @property
    def source(self) -> RecordSource:
        return RecordSource(self.id)

    @property
    def cost(self) -> float:
        return COST_PER_CALL * self.calls.total()

    def tools(self) -> list[str]:
        return TOOLS + (["StructuredOutput"] if self.structured else []) + self.mcp.tools()

    def emit(self, kind: str, **fields: Any) -> None:
        self.wire.emit({"type": kind, **fields, "uuid": str(uuid.uuid4()), "session_id": self.id})

    def emit_system(self, subtype: str, **fields: Any) -> None:
        self.emit("system", subtype=subtype, **fields)

    def emit_init(self) -> None:
        """Emit the record that begins a turn."""
        self.emit_system(
            "init",
            cwd=self.cwd,
            tools=self.tools(),
            mcp_servers=self.mcp.listing(),
            model=self.model,
            permissionMode=self.grants.mode,
            slash_commands=COMMANDS,
            claude_code_version=VERSION,
        )

    def emit_result(self, ending: Record, *, calls: int, **fields: Any) -> None:
        """Emit the end of a turn. `ending` says how it ended: subtype, is_error, result or errors."""
        since, self.reported = self.calls - self.reported, self.calls.copy()
        self.emit(
            "result",
            total_cost_usd=self.cost,
            usage={name: tokens * calls for name, tokens in FINISHED.items()},
            modelUsage=_model_usage(self.calls),
            model_usage_since_last_result=_model_usage(since),
            **ending,
            **fields,
        )

    def crash(self) -> NoReturn:
        """End the process at once, as the script demands: no result, no transcript row."""
        self.wire.flush()
        print("stand-in CLI: crashed, as the script wanted", file=sys.stderr, flush=True)
        tools.kill_all()
        os._exit(1)


def _model_usage(calls: Counter[str]) -> Record:
    return {
        model: {name: value * count for name, value in _USAGE_PER_CALL.items()} | {"contextWindow": 1_000_000}
        for model, count in calls.items()
    }
