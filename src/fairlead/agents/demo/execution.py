"""Runs the calls that were permitted: tools, questions, plans, MCP tools, subagents, background tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fairlead.agents.common_tools import PLAN, QUESTION
from fairlead.agents.demo import tools
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.thread import Stopped, Thread, TurnOver
from fairlead.agents.demo.tools import Outcome, Record, ToolFailed, ToolRun, new_id
from fairlead.model import events as ev
from fairlead.model.ids import CallId, SubagentId


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs calls for all threads of a session. `notify` gives the model a notification that opens a new turn."""

    session: DemoSession
    notify: Callable[[str], None]

    async def run(self, run: ToolRun, arguments: Record) -> Outcome:
        session = self.session
        if run.name in ("Write", "Edit"):
            session.checkpoints.add_change(Path(str(arguments["file_path"])))
        match run.name:
            case "Bash" if arguments.get("run_in_background"):
                return self._background_bash(run, arguments)
            case "Bash":
                report = asyncio.create_task(self._report_progress(run))
                try:
                    return await tools.bash(arguments, session.cwd)
                finally:
                    report.cancel()
            case "Agent":
                return await self._subagent(run, arguments)
            case name if name == PLAN:
                session.mode = "default"
                session.host.emit(ev.ModeChanged, mode="default")
                return "The user has approved the plan. You can start.", arguments
            case name if name == QUESTION:
                return _answers(arguments)
            case name if name in tools.SIMPLE:
                return tools.SIMPLE[name](arguments, session.cwd)
            case name if name in session.mcp.tools:
                return await session.mcp.call(run.name, arguments)
        raise ToolFailed(f"There is no tool {run.name}.")

    async def _report_progress(self, run: ToolRun) -> None:
        about: dict[str, Any] = {"call": CallId(run.call), "name": run.name, "subagent": run.subagent}
        for elapsed in count(1.0):
            await asyncio.sleep(1)
            self.session.host.emit(ev.ToolProgress, elapsed_s=elapsed, **about)

    def _background_bash(self, run: ToolRun, arguments: Record) -> Outcome:
        task, title = new_id("b"), str(arguments.get("description") or "")
        about = {"task": task, "call": run.call}
        emit = self.session.host.emit

        async def work() -> str:
            how = "exit code 0"
            try:
                await tools.bash(arguments, self.session.cwd)
            except ToolFailed as failure:
                how = str(failure).split("\n", 1)[0].lower()
            return f'Background command "{title}" completed ({how})'

        def report(status: str, summary: str) -> None:
            emit(ev.Notice, kind="task_notification", text=summary, data={**about, "status": status})

        emit(ev.Notice, kind="task_started", text=title, data=about)
        self._start(task, title, work(), report)
        return f"Command running in background with ID: {task}.", {"backgroundTaskId": task}

    async def _subagent(self, run: ToolRun, arguments: Record) -> Outcome:
        child = SubagentId(run.call)
        title, prompt = str(arguments.get("description") or ""), str(arguments.get("prompt") or "")
        background = arguments.get("run_in_background") is not False
        which: dict[str, Any] = {"child": child, "call": CallId(run.call), "subagent": run.subagent}
        emit = self.session.host.emit

        def report(status: str, summary: str) -> None:
            emit(ev.SubagentEnded, status=status, summary=summary, **which)

        about = {"title": title, "prompt": prompt, "kind": str(arguments.get("subagent_type") or "")}
        emit(ev.SubagentStarted, background=background, **about, **which)
        work = _final_text(Thread(self.session, self.run, subagent=child), prompt)
        if background:
            self._start(child, title, work, report)
            reply = f"The subagent {child} works in the background."
            return [{"type": "text", "text": reply}], {"agentId": child, "background": True}
        try:
            final = await work
        except (asyncio.CancelledError, Stopped):
            report("stopped", title)
            raise
        report("completed", final)
        return [{"type": "text", "text": final}], {"agentId": child}

    def _start(self, task: str, title: str, work: Coroutine[Any, Any, str], report: Callable[[str, str], None]) -> None:
        """Let the work go on in the background; report its status and a summary at its end, and notify the model."""

        async def finish() -> None:
            status = "completed"
            try:
                summary = await work
            except (asyncio.CancelledError, Stopped):
                # Stopped by a person, or by a "deny and stop": either way the task is over.
                status, summary = "stopped", title
            report(status, summary)
            del self.session.tasks[task]
            self.notify(f"SCRIPT:text A background task ended: {summary}")

        self.session.tasks[task] = asyncio.create_task(finish())


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
