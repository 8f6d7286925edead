"""Runs the calls that were permitted: tools, questions, plans, MCP tools, subagents, background tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.agents.demo import tools
from fairlead.agents.demo.tools import Outcome, ToolFailed
from fairlead_testing.model_messages import Record, new_id
from fairlead_testing.standin_cli.permissions import Stopped
from fairlead_testing.standin_cli.session import BackgroundTask, RecordSource, StandinSession
from fairlead_testing.standin_cli.thread import Thread, TurnOver
from fairlead_testing.standin_cli.wire import HostFailed

_PROGRESS_SECONDS = 1.0
"""How often a running command reports its progress."""

_ON_FILES = {"Read": tools.read, "Write": tools.write, "Edit": tools.edit, "Glob": tools.glob}


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs calls for all threads of a session. `notify` gives the model a notification that opens a new turn."""

    session: StandinSession
    notify: Callable[[str], None]

    async def run(self, thread: Thread, call: Record, arguments: Record) -> Outcome:
        session, name = self.session, call["name"]
        if name in ("Write", "Edit"):
            session.checkpoints.add_change(Path(str(arguments["file_path"])))
        match name:
            case "Bash" if arguments.get("run_in_background"):
                return self._background_bash(call, arguments)
            case "Bash":
                report = asyncio.create_task(self._report_progress(thread, call))
                try:
                    return await tools.bash(arguments, session.cwd)
                finally:
                    report.cancel()
            case "Read" | "Write" | "Edit" | "Glob":
                return _ON_FILES[name](arguments, session.cwd)
            case "TodoWrite":
                return "The todos have been changed.", {"newTodos": arguments.get("todos") or []}
            case "AskUserQuestion":
                return _answers(arguments)
            case "ExitPlanMode":
                session.grants.mode = "default"
                session.emit_system("status", status=None, permissionMode="default")
                return "User has approved exiting plan mode. You can now proceed.", arguments
            case "StructuredOutput" if session.structured:
                return "Structured output provided successfully", arguments
            case "Agent" | "Task":
                return await self._subagent(call, arguments)
        if name in session.mcp.tools():
            return await self._mcp(name, arguments)
        raise ToolFailed(f"<tool_use_error>Error: No such tool available: {name}</tool_use_error>")

    async def _mcp(self, name: str, arguments: Record) -> Outcome:
        try:
            result = await self.session.mcp.call(name, arguments)
        except HostFailed as error:
            raise ToolFailed(f"MCP server failed: {error}") from None
        content = result.get("content") or []
        if result.get("isError"):
            raise ToolFailed(" ".join(str(block.get("text", "")) for block in content))
        return content, content

    # -- commands

    async def _report_progress(self, thread: Thread, call: Record) -> None:
        elapsed = 0.0
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            elapsed += _PROGRESS_SECONDS
            about = {"tool_use_id": call["id"], "tool_name": "Bash", "elapsed_time_seconds": elapsed}
            self.session.wire.emit(thread.source.record("tool_progress", **about))

    def _background_bash(self, call: Record, arguments: Record) -> Outcome:
        task = BackgroundTask(new_id("b"), "local_bash", str(arguments.get("description") or ""), call["id"])
        self._start_in_background(task, self._finish_bash(task, arguments))
        return f"Command running in background with ID: {task.id}.", {"backgroundTaskId": task.id}

    async def _finish_bash(self, task: BackgroundTask, arguments: Record) -> tuple[str, str]:
        how = "exit code 0"
        try:
            result = str((await tools.bash(arguments, self.session.cwd))[0])
        except ToolFailed as failure:
            result = str(failure)
            how = result.split("\n", 1)[0].lower()
        return f'Background command "{task.description}" completed ({how})', result

    # -- subagents

    async def _subagent(self, call: Record, arguments: Record) -> Outcome:
        session = self.session
        kind = str(arguments.get("subagent_type") or "general-purpose")
        prompt = str(arguments.get("prompt") or "")
        task = BackgroundTask(new_id("a"), "local_agent", str(arguments.get("description") or ""), call["id"])
        source = RecordSource(session.id, call["id"], task.id)
        meta = {"agentType": kind, "description": task.description, "toolUseId": call["id"]}
        transcript = session.transcript.subagent(task.id, meta)
        message = {"role": "user", "content": prompt}
        transcript.add({"type": "user", "message": message})
        thread = Thread(session, source, transcript, [message], self.run)
        detail = {"agentId": task.id, "description": task.description, "prompt": prompt}
        about = {"subagent_type": kind, "prompt": prompt}
        # CLI 2.1.325 runs a subagent in the background unless the call says otherwise.
        if arguments.get("run_in_background") is not False:
            self._start_in_background(task, self._finish_agent(task, thread), **about)
            reply = f"Async agent launched successfully.\nagentId: {task.id}"
            return [{"type": "text", "text": reply}], detail | {"isAsync": True, "status": "async_launched"}
        self._emit_started(task, is_backgrounded=False, **about)
        session.wire.emit(
            source.record("user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
        )
        try:
            final = await _final_text(thread)
        except (asyncio.CancelledError, Stopped):
            self._emit_ended(task, "stopped", task.description)
            raise
        self._emit_ended(task, "completed", final)
        content = [{"type": "text", "text": final}]
        reply = f"{final}\nagentId: {task.id}"
        return [{"type": "text", "text": reply}], detail | {"status": "completed", "content": content}

    async def _finish_agent(self, task: BackgroundTask, thread: Thread) -> tuple[str, str]:
        return f'Agent "{task.description}" finished', await _final_text(thread)

    # -- background tasks

    def _start_in_background(
        self, task: BackgroundTask, work: Coroutine[Any, Any, tuple[str, str]], **about: str
    ) -> None:
        """`work` returns the task's summary and its result."""
        self.session.tasks[task.id] = task
        self._emit_tasks()
        self._emit_started(task, is_backgrounded=True, **about)
        task.work = asyncio.create_task(self._finish(task, work))

    async def _finish(self, task: BackgroundTask, work: Coroutine[Any, Any, tuple[str, str]]) -> None:
        status = "completed"
        try:
            summary, result = await work
        except (asyncio.CancelledError, Stopped):
            # Stopped by stop_task, or by a person's "deny and stop": either way the task is over.
            status, summary, result = "stopped", task.description, ""
        self._emit_ended(task, status, (result or summary) if task.kind == "local_agent" else summary)
        del self.session.tasks[task.id]
        self._emit_tasks()
        self.notify(
            f"<task-notification>\n<task-id>{task.id}</task-id>\n<tool-use-id>{task.tool_use_id}</tool-use-id>\n"
            f"<status>{status}</status>\n<summary>{summary}</summary>\n<result>{result}</result>\n</task-notification>"
        )

    def _emit_tasks(self) -> None:
        tasks = [task.as_record() for task in self.session.tasks.values()]
        self.session.emit_system("background_tasks_changed", tasks=tasks)

    def _emit_started(self, task: BackgroundTask, **about: Any) -> None:
        self.session.emit_system("task_started", **task.as_record(), tool_use_id=task.tool_use_id, **about)

    def _emit_ended(self, task: BackgroundTask, status: str, summary: str) -> None:
        about = {"task_id": task.id, "tool_use_id": task.tool_use_id}
        self.session.emit_system("task_notification", **about, status=status, summary=summary)


async def _final_text(thread: Thread) -> str:
    """A subagent's final text, however it ended."""
    try:
        return await thread.run()
    except TurnOver as over:
        return str(over.ending.get("result") or f"The subagent failed: {over.ending['errors'][0]}")


def _answers(arguments: Record) -> Outcome:
    answers = arguments.get("answers")
    if not isinstance(answers, dict) or not answers:
        raise ToolFailed("The user did not answer the questions.")
    reply = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
    detail = {"questions": arguments.get("questions", []), "answers": answers}
    return f"Your questions have been answered: {reply}.", detail
