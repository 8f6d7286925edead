"""One thread of the conversation, main or subagent: model call, tools, model call, until the model is done.

Cancelling `run` interrupts the thread: a started text is sent as far as it came, and open calls end.
"""

import asyncio
import os.path
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.agents import scripts
from fairlead.agents.common_tools import PLAN, QUESTION
from fairlead.agents.demo import tools
from fairlead.agents.demo.host import HostFailed
from fairlead.agents.demo.session import TOKENS, DemoSession
from fairlead.agents.demo.tools import Outcome, Record, ToolFailed, ToolRun, new_id
from fairlead.agents.demo.wire import DemoMessage
from fairlead.agents.scripts import ApiError, Block, Fault, ScriptText, SlowText, ToolResult, ToolUse
from fairlead.model import events as ev
from fairlead.model.agents import Decision
from fairlead.model.ids import CallId, MessageId, RequestId, SubagentId

# Growing delays would be usual; a person at a demo should not have to wait.
_RETRIES = 2
_RETRY_DELAY = 0.2
_ERROR_NAMES = {400: "unknown", 401: "authentication_failed", 429: "rate_limit", 529: "server_error"}
# Fast, but a person still sees a stream.
_DELTA_DELAY = 0.005
# Deltas without a delay between two yields to the event loop.
_BURST_BATCH = 200


class TurnOver(Exception):
    """The thread ended in another way than with a final text. Carries the fields of the turn's end."""

    def __init__(self, **ending: Any) -> None:
        self.ending = ending


class Stopped(Exception):
    """A person denies the call and ends the turn."""


@dataclass(slots=True)
class Thread:
    session: DemoSession
    run_tool: Callable[[ToolRun, Record], Awaitable[Outcome]]
    """Runs a permitted call; injected, because a subagent is a thread as well."""
    take_steering: Callable[[], list[str]] = list
    """Returns the texts of messages that arrived during the turn."""
    subagent: SubagentId | None = None
    calls: int = 0
    _script: tuple[str | None, str] = (None, "")
    _results: list[ToolResult] = field(default_factory=list)
    _open_calls: list[ToolRun] = field(default_factory=list)

    async def run(self, prompt: str) -> str:
        """Run to the final text and return it. Raises TurnOver or Stopped."""
        prompts, attempt = [prompt], 0
        try:
            while True:
                for text in prompts:
                    self._script, self._results = scripts.parse(text) or (None, ""), []
                player = Player(self.session, self.subagent)
                await player.play(await self._wait_for_answer(attempt))
                # After a stream that broke off, the model is asked again.
                attempt = 0 if player.complete else 1
                if player.complete:
                    self.calls += 1
                    self.session.count_call()
                    if not player.runs:
                        return player.text
                    await self._run_calls(player.runs)
                prompts = self.take_steering()
        except (asyncio.CancelledError, Stopped):
            for run in list(self._open_calls):
                self._answer(run, "The user interrupted this call.", None, is_error=True)
            raise

    async def _wait_for_answer(self, attempt: int) -> list[Block]:
        """The blocks of the model's answer, after as many attempts as its API needs."""
        while True:
            results, available = tuple(self._results), frozenset(self.session.tools())
            blocks = scripts.respond(scripts.Call(*self._script, results, available, self.session.host.seen, attempt))
            if not isinstance(error := blocks[0], ApiError):
                return blocks
            attempt += 1
            await self._retry(error, attempt)

    async def _retry(self, error: ApiError, attempt: int) -> None:
        """Report a failed attempt and wait for the next, or give up."""
        host, name = self.session.host, _ERROR_NAMES[error.status]
        if error.status == 429 and attempt == 1:
            host.emit(ev.RateLimit, info={"status": "rejected", "rateLimitType": "five_hour"})
        if error.status == 400 or attempt > _RETRIES:
            text = f"API Error: {error.status} {error.message}"
            about: dict[str, Any] = {"message": MessageId(new_id("msg_")), "block": 0, "error": name}
            host.emit(ev.Text, text=text, subagent=self.subagent, **about)
            raise TurnOver(status="failed", reason=name, text=text, errors=(text,))
        text = f"{'overloaded' if error.status == 529 else name}: try {attempt} of {_RETRIES}"
        host.emit(ev.Notice, kind="api_retry", text=text, data={"attempt": attempt, "max_retries": _RETRIES})
        await asyncio.sleep(_RETRY_DELAY * attempt)

    async def _run_calls(self, runs: list[ToolRun]) -> None:
        settings = self.session.launch.settings
        if settings.max_budget_usd is not None and self.session.cost > settings.max_budget_usd:
            raise _limit("error_max_budget_usd", f"Reached maximum budget (${settings.max_budget_usd:g})")
        self._open_calls = runs
        while runs:
            await self._run_call(runs[0])
        if settings.max_turns is not None and self.subagent is None and self.calls >= settings.max_turns:
            raise _limit("error_max_turns", f"Reached maximum number of turns ({settings.max_turns})")

    async def _run_call(self, run: ToolRun) -> None:
        arguments = tools.absolute(run.name, run.input, self.session.cwd)
        try:
            arguments = await pass_or_refuse(self.session, run, arguments)
            content, detail = await self.run_tool(run, arguments)
        except ToolFailed as failure:
            self._answer(run, str(failure), None, is_error=True)
            return
        self._answer(run, content, detail)
        if run.name == "StructuredOutput":
            text = msgspec.json.encode(arguments).decode()
            raise TurnOver(status="completed", text=text, output=arguments)

    def _answer(self, run: ToolRun, content: Any, detail: Any, *, is_error: bool = False) -> None:
        self._open_calls.remove(run)
        self._results.append(ToolResult(tools.text_of(content), is_error))
        fields: dict[str, Any] = {"content": content, "data": detail, "is_error": is_error}
        fields |= {"status": "failed" if is_error else "done", "subagent": self.subagent}
        background = isinstance(detail, dict) and "background" in detail
        self.session.host.emit(ev.ToolEnded, call=CallId(run.call), name=run.name, background=background, **fields)


@dataclass(slots=True)
class Player:
    """Plays the blocks of a script as one message of the model: deltas, then the whole block."""

    session: DemoSession
    subagent: SubagentId | None
    text: str = ""
    runs: list[ToolRun] = field(default_factory=list)
    complete: bool = False
    _blocks: int = 0
    _id: MessageId = field(default_factory=lambda: MessageId(new_id("msg_")))

    async def play(self, blocks: list[Block]) -> None:
        for block in blocks:
            match block:
                case ScriptText(text, count, kind):
                    await self._write(scripts.chunks(text, count), _DELTA_DELAY, thinks=kind == "thinking")
                case SlowText(text, count, delay):
                    await self._write([text] * count, delay)
                case ToolUse():
                    self._call(block)
                case Fault.CUT:
                    return
                case Fault.CRASH:
                    self.session.crash()
                case Fault.UNKNOWN_RECORDS:
                    self.session.host.write(b'{"type":"demo.unheard_of","nested":{"list":[1,null]}}')
                    self.session.host.write(b"not even JSON")
        self.complete = True

    async def _write(self, pieces: list[str], delay: float, *, thinks: bool = False) -> None:
        delta: type[Any] = ev.ThinkingDelta if thinks else ev.TextDelta
        sent = offset = 0
        try:
            for piece in pieces:
                self._delta(delta, offset=offset, text=piece)
                sent, offset = sent + 1, offset + len(piece)
                if delay or sent % _BURST_BATCH == 0:
                    await asyncio.sleep(delay)
        finally:
            text = "".join(pieces[:sent])
            if text:
                self._whole(ev.Thinking if thinks else ev.Text, text=text)
            self.text += "" if thinks else text

    def _call(self, block: ToolUse) -> None:
        run = ToolRun(new_id("call_"), block.name, block.input, self.subagent)
        about: dict[str, Any] = {"call": CallId(run.call), "name": run.name}
        offset = 0
        for piece in scripts.chunks(msgspec.json.encode(block.input).decode(), 4):
            self._delta(ev.InputDelta, offset=offset, json=piece, **about)
            offset += len(piece)
        self._whole(ev.ToolCalled, input=run.input, **about)
        self.runs.append(run)

    def _delta(self, kind: type[Any], **fields: Any) -> None:
        # A subagent's blocks come whole: people watch the main thread.
        if self.subagent is None:
            self.session.host.emit(kind, message=self._id, block=self._blocks, **fields)

    def _whole(self, kind: type[Any], **fields: Any) -> None:
        about: dict[str, Any] = {"message": self._id, "block": self._blocks, "model": self.session.model}
        self.session.host.emit(kind, subagent=self.subagent, tokens=TOKENS, **about, **fields)
        self._blocks += 1


def _limit(reason: str, error: str) -> TurnOver:
    return TurnOver(status="failed", reason=reason, errors=(error,))


async def pass_or_refuse(session: DemoSession, run: ToolRun, arguments: Record) -> Record:
    """Return the input to run the call with. Raises ToolFailed or Stopped if it may not run."""
    check = {"call": run.call, "tool": run.name, "input": arguments, "mode": session.mode}
    try:
        verdict: Record = await session.host.ask("check", check)
    except HostFailed as error:
        raise ToolFailed(f"The policy could not be asked: {error}") from None
    if verdict["behavior"] == "deny":
        raise ToolFailed(f"The policy denies {run.name}: {verdict['reason']}")
    if verdict["behavior"] == "allow" and run.name not in (QUESTION, PLAN):
        return arguments
    return await _ask(session, run, arguments, verdict["reason"])


async def _ask(session: DemoSession, run: ToolRun, arguments: Record, reason: str) -> Record:
    host, request = session.host, RequestId(str(uuid.uuid4()))
    kind: type[Any] = ev.PermissionRequested
    title = arguments.get("description") or os.path.basename(str(arguments.get("file_path", "")))
    fields: dict[str, Any] = {"title": str(title), "reason": reason}
    if run.name == QUESTION:
        kind, fields = ev.QuestionAsked, {"questions": tuple(arguments.get("questions") or ())}
    elif run.name == PLAN:
        kind, fields = ev.PlanProposed, {"plan": str(arguments.get("plan") or "")}
    fields |= {"request": request, "call": CallId(run.call), "tool": run.name, "input": arguments}
    try:
        answer: Decision = await host.answer_to(request, lambda: host.emit(kind, subagent=run.subagent, **fields))
    except HostFailed as error:
        raise ToolFailed(f"Permission cannot be requested: {error}") from None
    except BaseException:
        host.send(DemoMessage("withdraw", request))
        raise
    if answer.behavior != "allow":
        if answer.interrupt:
            raise Stopped
        raise ToolFailed(answer.message or "Permission was denied.")
    return arguments if answer.updated_input is None else answer.updated_input
