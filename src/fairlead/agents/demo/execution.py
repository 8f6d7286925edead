"""Runs the calls that were permitted: tools, questions, plans, MCP tools, subagents, background tasks."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.agents.demo import tools
from fairlead.agents.demo.host import HostFailed
from fairlead.agents.demo.permissions import Stopped
from fairlead.agents.demo.session import BackgroundTask, DemoSession, ToolRun
from fairlead.agents.demo.thread import Thread, TurnOver
from fairlead.agents.demo.tools import PLAN, QUESTION, Outcome, Record, ToolFailed
from fairlead.model import events as ev
from fairlead.model.ids import CallId, SubagentId, subagent_id

_PROGRESS_SECONDS = 1.0
"""How often a running command reports its progress."""

_ON_FILES = {"Read": tools.read, "Write": tools.write, "Edit": tools.edit, "Glob": tools.glob}


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs calls for all threads of a session. `notify` gives the model a notification that opens a new turn."""

    session: DemoSession
    notify: Callable[[str], None]

    async def run(self, thread: Thread, run: ToolRun, arguments: Record) -> Outcome:
        session, name = self.session, run.name
        if name in ("Write", "Edit"):
            session.checkpoints.add_change(Path(str(arguments["file_path"])))
        match name:
            case "Bash" if arguments.get("run_in_background"):
                return self._background_bash(run, arguments)
            case "Bash":
                report = asyncio.create_task(self._report_progress(run))
                try:
                    return await tools.bash(arguments, session.cwd)
                finally:
                    report.cancel()
            case "Read" | "Write" | "Edit" | "Glob":
                return _ON_FILES[name](arguments, session.cwd)
            case "TodoWrite":
                return "The todos have been changed.", {"newTodos": arguments.get("todos") or []}
            case "StructuredOutput" if session.opened.structured:
                return "Structured output provided successfully", arguments
            case "Agent":
                return await self._subagent(run, arguments)
        if name == QUESTION:
            return _answers(arguments)
        if name == PLAN:
            session.mode = "default"
            session.host.emit(ev.ModeChanged, mode="default")
            return "The user has approved the plan. You can start.", arguments
        if name in session.mcp.tools():
            return await self._mcp(name, arguments)
        raise ToolFailed(f"There is no tool {name}.")

    async def _mcp(self, name: str, arguments: Record) -> Outcome:
        try:
            result = await self.session.mcp.call(name, arguments)
        except HostFailed as error:
            raise ToolFailed(f"The MCP server failed: {error}") from None
        content = result.get("content") or []
        if result.get("isError"):
            raise ToolFailed(" ".join(str(block.get("text", "")) for block in content))
        return content, content

    # -- commands

    async def _report_progress(self, run: ToolRun) -> None:
        elapsed = 0.0
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            elapsed += _PROGRESS_SECONDS
            about: dict[str, Any] = {"call": CallId(run.call), "name": run.name, "subagent": run.subagent}
            self.session.host.emit(ev.ToolProgress, elapsed_s=elapsed, **about)

    def _background_bash(self, run: ToolRun, arguments: Record) -> Outcome:
        task = BackgroundTask(uuid.uuid4().hex[:9], str(arguments.get("description") or ""), run.call)
        self.session.host.emit(
            ev.Notice, kind="task_started", text=task.description, data={"task": task.id, "call": task.call}
        )
        self._start(task, self._bash(task, arguments), self._end_bash)
        return f"Command running in background with ID: {task.id}.", {"backgroundTaskId": task.id}

    async def _bash(self, task: BackgroundTask, arguments: Record) -> str:
        how = "exit code 0"
        try:
            await tools.bash(arguments, self.session.cwd)
        except ToolFailed as failure:
            how = str(failure).split("\n", 1)[0].lower()
        return f'Background command "{task.description}" completed ({how})'

    def _end_bash(self, task: BackgroundTask, status: str, summary: str) -> None:
        data = {"task": task.id, "call": task.call, "status": status}
        self.session.host.emit(ev.Notice, kind="task_notification", text=summary, data=data)

    # -- subagents

    async def _subagent(self, run: ToolRun, arguments: Record) -> Outcome:
        child = subagent_id("demo", run.call)
        title, prompt = str(arguments.get("description") or ""), str(arguments.get("prompt") or "")
        background = arguments.get("run_in_background") is not False
        task = BackgroundTask(child, title, run.call)
        thread = Thread(self.session, self.run, child)
        about: dict[str, Any] = {"title": title, "prompt": prompt, "kind": str(arguments.get("subagent_type") or "")}
        self.session.host.emit(
            ev.SubagentStarted,
            child=child,
            call=CallId(run.call),
            subagent=run.subagent,
            background=background,
            **about,
        )
        if background:
            self._start(task, _final_text(thread, prompt), self._end_subagent)
            reply = f"The subagent {child} works in the background."
            return [{"type": "text", "text": reply}], {"isAsync": True, "agentId": child}
        try:
            final = await _final_text(thread, prompt)
        except (asyncio.CancelledError, Stopped):
            self._end_subagent(task, "stopped", title)
            raise
        self._end_subagent(task, "completed", final)
        return [{"type": "text", "text": final}], {"agentId": child, "status": "completed"}

    def _end_subagent(self, task: BackgroundTask, status: str, summary: str) -> None:
        about: dict[str, Any] = {"child": SubagentId(task.id), "call": CallId(task.call)}
        self.session.host.emit(ev.SubagentEnded, status=status, summary=summary, **about)

    # -- background tasks

    def _start(
        self, task: BackgroundTask, work: Coroutine[Any, Any, str], end: Callable[[BackgroundTask, str, str], None]
    ) -> None:
        self.session.tasks[task.id] = task
        task.work = asyncio.create_task(self._finish(task, work, end))

    async def _finish(
        self, task: BackgroundTask, work: Coroutine[Any, Any, str], end: Callable[[BackgroundTask, str, str], None]
    ) -> None:
        status = "completed"
        try:
            summary = await work
        except (asyncio.CancelledError, Stopped):
            # Stopped by a person, or by a "deny and stop": either way the task is over.
            status, summary = "stopped", task.description
        end(task, status, summary)
        del self.session.tasks[task.id]
        self.notify(f"SCRIPT:text A background task ended: {summary}")


async def _final_text(thread: Thread, prompt: str) -> str:
    """A subagent's final text, however it ended."""
    try:
        return await thread.run(prompt)
    except TurnOver as over:
        return str(over.ending.get("text") or f"The subagent failed: {over.ending['errors'][0]}")


def _answers(arguments: Record) -> Outcome:
    answers = arguments.get("answers")
    if not isinstance(answers, dict) or not answers:
        raise ToolFailed("The user did not answer the questions.")
    reply = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
    detail = {"questions": arguments.get("questions", []), "answers": answers}
    return f"Your questions have been answered: {reply}.", detail
