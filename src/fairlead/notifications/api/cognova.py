"""Cognova's resources: tasks, projects, documents, memory, secrets, hook events, reminders, scheduled agents."""

from typing import Any, ClassVar, Literal

from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall
from fairlead.notifications.api.resources import Resource


class Task(Resource, frozen=True, kw_only=True, rename="camel"):
    title: str
    description: str = ""
    status: Literal["todo", "in_progress", "done", "blocked"] = "todo"
    priority: int = 2
    project_id: str | None = None
    due_date: int | None = None
    tags: tuple[str, ...] = ()
    completed_at: int | None = None


class Project(Resource, frozen=True, kw_only=True, rename="camel"):
    name: str
    color: str
    description: str = ""


class Document(Resource, frozen=True, kw_only=True, rename="camel"):
    """Kept in the store, not as a file: the gateway never writes into a folder in which agents work."""

    path: str
    title: str
    tags: tuple[str, ...] = ()
    project_id: str | None = None
    shared: bool = False
    share_type: str | None = None
    mime_type: str = "text/markdown"
    binary: bool = False
    body: str = ""


class MemoryResource(Resource, frozen=True, kw_only=True, rename="camel"):
    private: ClassVar[bool] = True
    content: str
    chunk_type: str
    session_id: str | None = None
    project_path: str | None = None
    source_excerpt: str | None = None
    relevance_score: float = 1.0


class Secret(Resource, frozen=True, kw_only=True, rename="camel"):
    """`sealed` never leaves this package."""

    key: str
    description: str = ""
    sealed: str = ""


class HookEvent(Resource, frozen=True, kw_only=True, rename="camel"):
    private: ClassVar[bool] = True
    event_type: str
    session_id: str | None = None
    project_dir: str | None = None
    tool_name: str | None = None
    tool_matcher: str | None = None
    event_data: Any = None
    exit_code: int | None = None
    blocked: bool = False
    block_reason: str | None = None
    duration_ms: int | None = None
    hook_script: str | None = None


class Reminder(Resource, frozen=True, kw_only=True, rename="camel"):
    message: str
    remind_at: int
    task_id: str | None = None
    notified: bool = False


class ScheduledAgent(Resource, frozen=True, kw_only=True, rename="camel"):
    """A prompt that runs as a separate session, at the times of `schedule` (cron, UTC) or on request."""

    private: ClassVar[bool] = True

    name: str
    schedule: str
    prompt: str
    description: str = ""
    enabled: bool = True
    max_turns: int = 50
    max_budget_usd: float | None = None
    folder: str = ""


RunStatus = Literal["running", "success", "error", "cancelled", "budget_exceeded"]


class AgentRun(Resource, frozen=True, kw_only=True, rename="camel"):
    private: ClassVar[bool] = True
    agent_id: str
    session_id: SessionId
    status: RunStatus = "running"
    error: str | None = None
    cost_usd: float = 0.0
    duration_ms: int = 0
    completed_at: int | None = None
    node: str = ""
    """The node that started it, if there are several."""


class RevealSecret(ServiceCall[str], frozen=True):
    """-> str; NotFound"""

    key: str


class RunAgent(ServiceCall["AgentRun"], frozen=True):
    """-> `AgentRun`; NotFound, Busy while a run is in progress"""

    id: str


class CancelAgent(ServiceCall[int], frozen=True):
    """-> the number of runs that are being cancelled; NotFound"""

    id: str
