"""One thread of the conversation, main or subagent: model call, tools, model call, until the model is done.

Cancelling `run` interrupts the thread: it then ends its open calls.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.agents.demo import tools
from fairlead.agents.demo.permissions import Stopped, pass_or_refuse
from fairlead.agents.demo.scripts import (
    ApiError,
    Block,
    Call,
    ContentBlock,
    Fault,
    ScriptText,
    SlowText,
    ToolResult,
    ToolUse,
    chunks,
    parse,
    respond,
)
from fairlead.agents.demo.session import TOKENS, DemoSession, ToolRun
from fairlead.agents.demo.tools import Outcome, Record, ToolFailed
from fairlead.model import events as ev
from fairlead.model.ids import CallId, MessageId, SubagentId

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
        super().__init__()
        self.ending: Record = ending


RunTool = Callable[["Thread", ToolRun, Record], Awaitable[Outcome]]
"""Runs a permitted call of a thread; injected, because a subagent is a thread as well."""


@dataclass(slots=True)
class Thread:
    session: DemoSession
    run_tool: RunTool
    subagent: SubagentId | None = None
    take_steering: Callable[[], list[str]] = list
    """Returns the texts of messages that arrived during the turn."""
    calls: int = 0
    messages: int = 0
    """How many messages a subagent's model has seen; the session counts those of the main thread."""
    _script: tuple[str | None, str] = (None, "")
    _results: list[ToolResult] = field(default_factory=list)
    _open_calls: list[ToolRun] = field(default_factory=list)

    async def run(self, prompt: str) -> str:
        """Run to the final text and return it. Raises TurnOver or Stopped."""
        self._choose(prompt)
        attempt = 0
        try:
            while True:
                if self.calls:
                    for text in self.take_steering():
                        self._choose(text)
                player = await self._call_model(attempt)
                attempt = 0
                if not player.complete:
                    attempt = 1  # the stream broke off: ask again
                elif not player.runs:
                    return player.text
                else:
                    await self._run_calls(player.runs)
        except (asyncio.CancelledError, Stopped):
            for run in list(self._open_calls):
                self._answer(run, "The user interrupted this call.", None, is_error=True)
            raise

    def _choose(self, text: str) -> None:
        """A prompt selects a script."""
        self._script, self._results = parse(text) or (None, ""), []
        self._count(1)

    def _count(self, messages: int) -> None:
        if self.subagent is None:
            self.session.messages += messages
        else:
            self.messages += messages

    # -- the model

    async def _call_model(self, attempt: int) -> "Player":
        blocks = await self._wait_for_answer(attempt)
        player = Player(self.session, self.subagent)
        try:
            await player.play(blocks)
        finally:
            if player.blocks:
                self._count(1)
        if player.complete:
            self.calls += 1
            self.session.count_call()
        return player

    async def _wait_for_answer(self, attempt: int) -> list[Block]:
        """The blocks of the model's answer, after as many attempts as its API needs."""
        available = frozenset(self.session.tools())
        while True:
            seen = self.session.messages if self.subagent is None else self.messages
            blocks = respond(Call(*self._script, tuple(self._results), available, seen, attempt))
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
            about: dict[str, Any] = {"message": MessageId(_new_id("msg_")), "block": 0, "error": name}
            host.emit(ev.Text, text=text, subagent=self.subagent, **about)
            raise TurnOver(status="failed", reason=name, text=text, errors=(text,))
        delay = _RETRY_DELAY * attempt
        text = f"{'overloaded' if error.status == 529 else name}: try {attempt} of {_RETRIES}"
        host.emit(ev.Notice, kind="api_retry", text=text, data={"attempt": attempt, "max_retries": _RETRIES})
        await asyncio.sleep(delay)

    # -- tools

    async def _run_calls(self, runs: list[ToolRun]) -> None:
        opened = self.session.opened
        if opened.max_budget_usd is not None and self.session.cost > opened.max_budget_usd:
            raise _limit("error_max_budget_usd", f"Reached maximum budget (${opened.max_budget_usd:g})")
        self._open_calls = runs
        while runs:
            await self._run_call(runs[0])
        if opened.max_turns is not None and self.subagent is None and self.calls >= opened.max_turns:
            raise _limit("error_max_turns", f"Reached maximum number of turns ({opened.max_turns})")

    async def _run_call(self, run: ToolRun) -> None:
        arguments = tools.absolute(run.name, run.input, self.session.cwd)
        try:
            arguments = await pass_or_refuse(self.session, run, arguments)
            content, detail = await self.run_tool(self, run, arguments)
        except ToolFailed as failure:
            self._answer(run, str(failure), None, is_error=True)
            return
        self._answer(run, content, detail)
        if run.name == "StructuredOutput":
            text = msgspec.json.encode(arguments).decode()
            raise TurnOver(status="completed", text=text, output=arguments)

    def _answer(self, run: ToolRun, content: Any, detail: Any, *, is_error: bool = False) -> None:
        self._open_calls.remove(run)
        self._results.append(ToolResult(_flat(content), is_error))
        self._count(1)
        background = isinstance(detail, dict) and bool(detail.get("isAsync"))
        status = "failed" if is_error else "done"
        fields: dict[str, Any] = {"content": content, "data": detail, "is_error": is_error, "status": status}
        self.session.host.emit(
            ev.ToolEnded, call=CallId(run.call), name=run.name, subagent=self.subagent, background=background, **fields
        )


@dataclass(slots=True)
class Player:
    """Plays the blocks of a script as one message of the model: deltas, then the whole block. Cancelling `play`
    interrupts it: a started text is sent as far as it came."""

    session: DemoSession
    subagent: SubagentId | None
    text: str = ""
    runs: list[ToolRun] = field(default_factory=list)
    blocks: int = 0
    complete: bool = False
    _id: MessageId = field(default_factory=lambda: MessageId(_new_id("msg_")))

    async def play(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block is Fault.CUT:
                return
            if block is Fault.CRASH:
                self.session.crash()
            if block is Fault.UNKNOWN_RECORDS:
                self.session.host.write(
                    b'{"type":"demo.unheard_of","note":"an unknown type","nested":{"list":[1,null]}}'
                )
                self.session.host.write(b"not even JSON")
            elif isinstance(block, ToolUse):
                await self._call(block)
            elif isinstance(block, ContentBlock):
                await self._write(block)
        self.complete = True

    async def _write(self, block: ScriptText | SlowText) -> None:
        thinks = isinstance(block, ScriptText) and block.kind == "thinking"
        if isinstance(block, SlowText):
            pieces, delay = [block.text] * block.count, block.delay
        else:
            pieces, delay = chunks(block.text, block.chunks), _DELTA_DELAY
        delta: type[Any] = ev.ThinkingDelta if thinks else ev.TextDelta
        sent: list[str] = []
        offset = 0
        try:
            for piece in pieces:
                self._delta(delta, offset=offset, text=piece)
                sent.append(piece)
                offset += len(piece)
                if delay:
                    await asyncio.sleep(delay)
                elif len(sent) % _BURST_BATCH == 0:
                    await asyncio.sleep(0)
        finally:
            text = "".join(sent)
            if sent:
                self._whole(ev.Thinking if thinks else ev.Text, text=text)
            self.text += "" if thinks else text

    async def _call(self, block: ToolUse) -> None:
        run = ToolRun(_new_id("call_"), block.name, block.input, self.subagent)
        offset = 0
        for piece in chunks(msgspec.json.encode(block.input).decode(), 4):
            self._delta(ev.InputDelta, offset=offset, call=CallId(run.call), name=run.name, json=piece)
            offset += len(piece)
        self._whole(ev.ToolCalled, call=CallId(run.call), name=run.name, input=run.input)
        self.runs.append(run)

    def _delta(self, kind: type[Any], **fields: Any) -> None:
        # A subagent's blocks come whole: people watch the main thread.
        if self.subagent is None:
            self.session.host.emit(kind, message=self._id, block=self.blocks, **fields)

    def _whole(self, kind: type[Any], **fields: Any) -> None:
        about: dict[str, Any] = {"message": self._id, "block": self.blocks, "model": self.session.model}
        self.session.host.emit(kind, subagent=self.subagent, tokens=TOKENS, **about, **fields)
        self.blocks += 1


def _limit(reason: str, error: str) -> TurnOver:
    return TurnOver(status="failed", reason=reason, errors=(error,))


def _new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


def _flat(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content)
