"""Runs the calls that passed the gate: tools, questions, plans, MCP tools, subagents, background tasks.

Rule: this module emits all records of a call while it runs; the thread emits its result.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.demo import records, tools
from fairlead.agents.demo.gate import Refusal
from fairlead.agents.demo.ids import new_uuid
from fairlead.agents.demo.records import Record, RecordSource
from fairlead.agents.demo.session import BackgroundTask, DemoSession
from fairlead.agents.demo.thread import Answered, LimitReached, ModelRefused, Thread
from fairlead.agents.demo.tools import Outcome, ToolFailed
from fairlead.agents.demo.usage import full_usage
from fairlead.agents.demo.wire import HostGone, HostRefused

# The time after which the real CLI reports a command as a task.
_SLOW_AFTER = 2.0


class Executor:
    """Runs calls for all threads of a session."""

    def __init__(self, session: DemoSession, notify: Callable[[str, Record], None]) -> None:
        self._session = session
        self._notify = notify

    async def run(self, thread: Thread, call: Record, arguments: Record) -> Outcome:
        session, name = self._session, call["name"]
        if name in ("Write", "Edit"):
            session.checkpoints.about_to_change(Path(str(arguments["file_path"])))
        match name:
            case "Bash" if arguments.get("run_in_background"):
                return self._background_bash(call, arguments)
            case "Bash":
                async with self._watched(call, arguments):
                    return await tools.bash(arguments, session.cwd)
            case "Read" | "Write" | "Edit" | "Glob":
                return tools.ON_FILES[name](arguments, session.cwd)
            case "TodoWrite":
                return tools.todo_write(arguments, session.todos)
            case "AskUserQuestion":
                return _answers(arguments)
            case "ExitPlanMode":
                return self._leave_plan_mode(call)
            case "StructuredOutput" if session.structured:
                reply = "Structured output provided successfully"
                return Outcome(reply, reply)
            case "Agent" | "Task":
                return await self._subagent(thread, call, arguments)
        if name in session.mcp.tools():
            return await self._mcp(call, arguments)
        raise ToolFailed(f"<tool_use_error>Error: No such tool available: {name}</tool_use_error>")

    async def _mcp(self, call: Record, arguments: Record) -> Outcome:
        try:
            result = await self._session.mcp.call(call["name"], arguments, call["id"])
        except (HostGone, HostRefused) as error:
            raise ToolFailed(f"MCP server failed: {error}") from None
        content = result.get("content") or []
        if result.get("isError"):
            raise ToolFailed(" ".join(str(c.get("text", "")) for c in content))
        return Outcome(content, content)

    def _leave_plan_mode(self, call: Record) -> Outcome:
        session = self._session
        session.grants.mode = "default"
        session.emit_status(None, permissionMode="default")
        detail = {"plan": call["input"].get("plan"), "isAgent": False, "filePath": None}
        return Outcome("User has approved exiting plan mode. You can now proceed.", detail)

    # -- commands

    @contextlib.asynccontextmanager
    async def _watched(self, call: Record, arguments: Record) -> AsyncIterator[None]:
        """Report a long-running command: as a task after two seconds, with a heartbeat from then on."""
        task = self._session.new_task("local_bash", str(arguments.get("description") or ""), call["id"])
        reported = asyncio.Event()
        watch = asyncio.create_task(self._report_slow(task, reported))
        try:
            yield
        finally:
            watch.cancel()
        if reported.is_set():
            self._session.notify_task(task, "completed", output_file="", summary=task.description)

    async def _report_slow(self, task: BackgroundTask, reported: asyncio.Event) -> None:
        session = self._session
        beat = 0
        slow_after = min(_SLOW_AFTER, session.heartbeat)
        await asyncio.sleep(slow_after)
        reported.set()
        self._started(task, backgrounded=False)
        await asyncio.sleep(session.heartbeat - slow_after)
        while True:
            beat += 1
            session.emit(
                {
                    "type": "tool_progress",
                    "tool_use_id": f"{task.tool_use_id}-heartbeat-{beat - 1}",
                    "tool_name": "Bash",
                    "parent_tool_use_id": task.tool_use_id,
                    "elapsed_time_seconds": session.heartbeat * beat,
                    "heartbeat": True,
                    "session_id": session.id,
                    "uuid": new_uuid(),
                }
            )
            await asyncio.sleep(session.heartbeat)

    def _background_bash(self, call: Record, arguments: Record) -> Outcome:
        session = self._session
        task = session.new_task("local_bash", str(arguments.get("description") or ""), call["id"])
        self._begin(task, self._finish_bash(task, arguments))
        reply = f"Command running in background with ID: {task.id}. Output is being written to: {task.output}."
        return Outcome(reply, tools.bash_detail() | {"backgroundTaskId": task.id}, is_error=False)

    async def _finish_bash(self, task: BackgroundTask, arguments: Record) -> None:
        code = "exit code 0"
        try:
            reply = (await tools.bash(arguments, self._session.cwd)).content
        except ToolFailed as failure:
            reply = str(failure)
            code = reply.split("\n", 1)[0].lower()
        task.output.parent.mkdir(parents=True, exist_ok=True)
        task.output.write_text(str(reply), encoding="utf-8")
        summary = f'Background command "{task.description}" completed ({code})'
        self._ended(task, summary, summary, str(reply))

    # -- subagents

    async def _subagent(self, parent: Thread, call: Record, arguments: Record) -> Outcome:
        session = self._session
        kind = str(arguments.get("subagent_type") or "general-purpose")
        description = str(arguments.get("description") or "")
        prompt = str(arguments.get("prompt") or "")
        # CLI 2.1.325 runs a subagent in the background unless the call says otherwise.
        background = arguments.get("run_in_background") is not False
        task = session.new_task("local_agent", description, call["id"])
        task.subagent_type, task.prompt, task.depth = kind, prompt, parent.depth + 1
        speaker = RecordSource(session.id, call["id"], task.id, kind, description, task.run_id)
        transcript = session.transcript.subagent(task.id)
        message = {"role": "user", "content": prompt}
        transcript.add({"type": "user", "message": message})
        transcript.meta({"agentType": kind, "description": description, "toolUseId": call["id"]})
        thread = Thread(
            session,
            speaker,
            transcript,
            [message],
            self.run,
            # The real CLI forwards a subagent's output only if it runs in the background or the host requested it.
            forwards_text=background or session.forwards_subagents,
            waited_for=not background,
            depth=task.depth,
        )
        session.subagents += 1
        if background:
            self._begin(task, self._finish_agent(task, thread))
            return _launched(task)
        self._started(task, backgrounded=False)
        session.emit(records.user(speaker, [{"type": "text", "text": prompt}]))
        try:
            final = await _final_text(thread)
        except asyncio.CancelledError:
            parent.afterwards.append(lambda: session.task_ended(task, killed=True, summary=description))
            raise
        session.task_ended(task, killed=False, summary=final, usage=_spent(thread))
        return _completed(thread, prompt, final)

    async def _finish_agent(self, task: BackgroundTask, thread: Thread) -> None:
        final = await _final_text(thread)
        self._ended(task, f'Agent "{task.description}" finished', final, final, usage=_spent(thread))

    # -- background tasks

    def _begin(self, task: BackgroundTask, work: Coroutine[Any, Any, None]) -> None:
        session = self._session
        session.tasks[task.id] = task
        session.tasks_changed()
        self._started(task, backgrounded=True)
        task.work = asyncio.create_task(self._guarded(task, work))

    async def _guarded(self, task: BackgroundTask, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (asyncio.CancelledError, Refusal):
            # Stopped by stop_task, or by a person's "deny and stop": either way the task is over.
            self._ended(task, task.description, task.description, "", killed=True)

    def _started(self, task: BackgroundTask, *, backgrounded: bool) -> None:
        fields = task.as_record() | {"tool_use_id": task.tool_use_id, "is_backgrounded": backgrounded}
        if task.subagent_type is not None:
            fields |= {"spawn_depth": task.depth, "prompt": task.prompt}
        self._session.emit_system("task_started", **fields)

    def _ended(
        self, task: BackgroundTask, headline: str, summary: str, result: str, *, killed: bool = False, **fields: Any
    ) -> None:
        """Notify the host, and give the model a notification that opens a new turn."""
        session = self._session
        session.task_ended(task, killed=killed, summary=summary, **fields)
        session.tasks.pop(task.id, None)
        session.tasks_changed()
        text = (
            f"<task-notification>\n<task-id>{task.id}</task-id>\n<tool-use-id>{task.tool_use_id}</tool-use-id>\n"
            f"<output-file>{task.output}</output-file>\n<status>{'stopped' if killed else 'completed'}</status>\n"
            f"<summary>{headline}</summary>\n<result>{result}</result>\n</task-notification>"
        )
        self._notify(text, {"kind": "task-notification", "producer": "session-task", "runId": task.run_id})


async def _final_text(thread: Thread) -> str:
    """A subagent's final text, however it ended."""
    try:
        return await thread.run()
    except (ModelRefused, LimitReached) as error:
        return f"The subagent failed: {error}"
    except Answered as answered:
        return msgspec.json.encode(answered.value).decode()


def _spent(thread: Thread) -> Record:
    return {"total_tokens": thread.tokens, "tool_uses": thread.tool_uses, "duration_ms": 1}


def _launched(task: BackgroundTask) -> Outcome:
    reply = f"Async agent launched successfully.\nagentId: {task.id}\noutput_file: {task.output}"
    detail = {
        "isAsync": True,
        "status": "async_launched",
        "agentId": task.id,
        "description": task.description,
        "prompt": task.prompt,
        "outputFile": str(task.output),
    }
    return Outcome([{"type": "text", "text": reply}], detail)


def _completed(thread: Thread, prompt: str, final: str) -> Outcome:
    speaker = thread.speaker
    detail = {
        "status": "completed",
        "prompt": prompt,
        "agentId": speaker.agent_id,
        "agentType": speaker.subagent_type,
        "content": [{"type": "text", "text": final}],
        "totalDurationMs": 1,
        "totalTokens": thread.tokens,
        "totalToolUseCount": thread.tool_uses,
        "usage": full_usage(thread.calls),
    }
    reply = f"{final}\nagentId: {speaker.agent_id}"
    return Outcome([{"type": "text", "text": reply}], detail)


def _answers(arguments: Record) -> Outcome:
    answers = arguments.get("answers")
    if not isinstance(answers, dict) or not answers:
        raise ToolFailed("The user did not answer the questions.")
    reply = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
    detail = {"questions": arguments.get("questions", []), "answers": answers}
    return Outcome(f"Your questions have been answered: {reply}.", detail)
