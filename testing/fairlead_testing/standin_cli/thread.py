"""One thread of the conversation, main or subagent: model call, tools, model call, until the model is done.

Cancelling `run` interrupts the thread: it then answers its open calls and ends.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.agents.demo import tools
from fairlead.agents.demo.tools import Outcome, ToolFailed
from fairlead.agents.scripts import ApiError, Block, ContentBlock, Fault, respond
from fairlead_testing.conversations import STEERED, read_conversation
from fairlead_testing.model_messages import FINISHED, Record, complete, message, new_id, stream_block
from fairlead_testing.standin_cli.permissions import Stopped, pass_or_refuse
from fairlead_testing.standin_cli.session import RecordSource, StandinSession
from fairlead_testing.standin_cli.transcript import Transcript

# The real CLI uses growing delays; a person at a demo should not have to wait.
_RETRIES = 2
_RETRY_DELAY = 0.2
_ERROR_NAMES = {400: "unknown", 401: "authentication_failed", 429: "rate_limit", 529: "server_error"}
_CUT_OFF = "Your response above was cut off in mid-stream: go on where it stops."
# Fast, but a person still sees a stream.
_DELTA_DELAY = 0.005
# Deltas without a delay between two yields to the event loop.
_BURST_BATCH = 200


@dataclass(frozen=True, slots=True)
class Prompt:
    """An input to answer: a person's message, or a background task's notification."""

    blocks: list[Record]
    uuid: str

    @property
    def text(self) -> str:
        return "\n".join(str(block["text"]) for block in self.blocks if "text" in block)

    def as_row(self) -> Record:
        # A single text is written as a string, as the host sent it.
        content = self.text if [block.get("type") for block in self.blocks] == ["text"] else self.blocks
        return {"type": "user", "message": {"role": "user", "content": content}, "uuid": self.uuid}

    @property
    def is_ordinary(self) -> bool:
        """Whether it may share a turn with others: a command and a notification have their own."""
        return not self.text.startswith(("/", "<task-notification>"))


class TurnOver(Exception):
    """The thread ended in another way than with a final text. Carries the fields of the result."""

    def __init__(self, **ending: Any) -> None:
        super().__init__()
        self.ending: Record = ending


@dataclass(slots=True)
class Player:
    """Plays the blocks of a script as one message of the model: deltas, one assistant record per block, transcript
    rows. Cancelling `play` interrupts it: a started text is sent as far as it came."""

    session: StandinSession
    source: RecordSource
    transcript: Transcript
    content: list[Record] = field(default_factory=list)
    """The blocks so far."""
    stop_reason: str | None = None
    _id: str = field(default_factory=lambda: new_id("msg_"))
    _records: list[Record] = field(default_factory=list)

    async def play(self, blocks: list[Block]) -> None:
        self._event("message_start", message=message(self._id, self.session.model, []))
        try:
            for block in blocks:
                if block is Fault.CUT:
                    return
                if block is Fault.CRASH:
                    self.session.crash()
                if block is Fault.UNKNOWN_RECORDS:
                    self._emit_unknown()
                elif isinstance(block, ContentBlock):
                    await self._play_block(block)
            self.stop_reason = "tool_use" if any(block["type"] == "tool_use" for block in self.content) else "end_turn"
        finally:
            delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
            self._event("message_delta", delta=delta, usage=FINISHED)
            self._event("message_stop")
            self._write()

    async def _play_block(self, block: ContentBlock) -> None:
        opening, deltas, delay = stream_block(block)
        played: list[Record] = []
        index = len(self.content)
        self._event("content_block_start", index=index, content_block=opening)
        try:
            for delta in deltas:
                played.append(delta)
                self._event("content_block_delta", index=index, delta=delta)
                if delay != 0.0:
                    await asyncio.sleep(_DELTA_DELAY if delay is None else delay)
                elif len(played) % _BURST_BATCH == 0:
                    await asyncio.sleep(0)
            self._finish(complete(opening, played))
        except asyncio.CancelledError:
            if opening["type"] == "text" and played:
                self._finish(complete(opening, played))
            raise
        finally:
            self._event("content_block_stop", index=index)

    def _finish(self, block: Record) -> None:
        body = message(self._id, self.session.model, [block])
        record = self.source.record("assistant", message=body)
        self.session.wire.emit(record)
        self.content.append(block)
        self._records.append(record)

    def _write(self) -> None:
        """Write the message's transcript rows: at its end, with its final usage."""
        for index, record in enumerate(self._records):
            body = {**record["message"], "stop_reason": self.stop_reason, "usage": FINISHED}
            about = {name: record[name] for name in ("type", "uuid", "timestamp")}
            self.transcript.add({**about, "message": body, "apiBlockIndex": index})

    def _event(self, kind: str, **fields: object) -> None:
        # The real CLI streams the main thread only.
        if self.session.options.include_partial_messages and self.source.agent_id is None:
            head = {"parent_tool_use_id": None, "session_id": self.source.session_id, "uuid": str(uuid.uuid4())}
            self.session.wire.emit({"type": "stream_event", "event": {"type": kind, **fields}, **head})

    def _emit_unknown(self) -> None:
        """Emit records of types that no gateway knows: the gateway must pass them through."""
        self.session.emit("demo_unheard_of", note="an unknown type")
        self.session.emit_system("demo_never_seen", note="an unknown subtype", nested={"list": [1, None, "ü"]})
        self._event("demo_event", note="an unknown event")


RunTool = Callable[["Thread", Record, Record], Awaitable[Outcome]]
"""Runs a permitted call of a thread; injected, because a subagent is a thread as well."""


@dataclass(slots=True)
class Thread:
    session: StandinSession
    source: RecordSource
    transcript: Transcript
    messages: list[Record]
    run_tool: RunTool
    take_steering: Callable[[], list[Prompt]] = list
    """Returns the messages that arrived during the turn."""
    calls: int = 0
    user_records: int = 0
    _open_calls: list[Record] = field(default_factory=list)

    async def run(self) -> str:
        """Run to the final text and return it. Raises TurnOver or Stopped."""
        try:
            while True:
                played = await self._call_model()
                if played.stop_reason == "end_turn":
                    return "".join(str(block["text"]) for block in played.content if block["type"] == "text")
                if played.stop_reason is None:
                    # The real CLI asks the model to continue, and emits the request to the host too.
                    self._add_user([{"type": "text", "text": _CUT_OFF}], {"isSynthetic": True}, {"isMeta": True})
                else:
                    await self._run_calls([block for block in played.content if block["type"] == "tool_use"])
        except (asyncio.CancelledError, Stopped):
            self._end_interrupted()
            raise

    # -- the model

    async def _call_model(self) -> Player:
        if self.calls:
            for prompt in self.take_steering():
                self.transcript.add(prompt.as_row())
                self.messages.append({"role": "user", "content": f"{STEERED}\n{prompt.text}"})
        blocks = await self._wait_for_answer()
        player = Player(self.session, self.source, self.transcript)
        try:
            await player.play(blocks)
        finally:
            if player.content:
                self.messages.append({"role": "assistant", "content": player.content})
        if player.stop_reason:
            self.calls += 1
            self.session.calls[self.session.model] += 1
        return player

    async def _wait_for_answer(self) -> list[Block]:
        """The blocks of the model's answer, after as many attempts as its API needs."""
        available = frozenset("Agent" if tool == "Task" else tool for tool in self.session.tools())
        attempt = 0
        while True:
            blocks = respond(read_conversation(self.messages, available, attempt))
            if not isinstance(error := blocks[0], ApiError):
                return blocks
            attempt += 1
            await self._retry(error, attempt)

    async def _retry(self, error: ApiError, attempt: int) -> None:
        """Report a failed attempt and wait for the next, or give up."""
        session, name = self.session, _ERROR_NAMES[error.status]
        if error.status == 429 and attempt == 1:
            session.emit("rate_limit_event", rate_limit_info={"status": "rejected", "rateLimitType": "five_hour"})
        if error.status == 400 or attempt > _RETRIES:
            text = f"API Error: {error.status} {error.message}"
            body = message(new_id("msg_"), "<synthetic>", [{"type": "text", "text": text}])
            record = self.source.record("assistant", message=body | {"stop_reason": "stop_sequence"}, error=name)
            self._add(record, {"isApiErrorMessage": True, "error": name})
            raise TurnOver(subtype="success", is_error=True, result=text, api_error_status=error.status)
        delay = _RETRY_DELAY * attempt
        about = {"attempt": attempt, "max_retries": _RETRIES, "retry_delay_ms": int(delay * 1000)}
        session.emit_system("api_retry", **about, error="overloaded" if error.status == 529 else name)
        await asyncio.sleep(delay)

    # -- tools

    async def _run_calls(self, calls: list[Record]) -> None:
        options = self.session.options
        if options.max_budget_usd is not None and self.session.cost > options.max_budget_usd:
            raise _limit("error_max_budget_usd", f"Reached maximum budget (${options.max_budget_usd:g})")
        self._open_calls = calls
        while calls:
            await self._run_call(calls[0])
        if options.max_turns is not None and self.source.agent_id is None and self.calls >= options.max_turns:
            raise _limit("error_max_turns", f"Reached maximum number of turns ({options.max_turns})")

    async def _run_call(self, call: Record) -> None:
        if self.source.agent_id is not None:
            self.session.emit_system(
                "task_progress",
                task_id=self.source.agent_id,
                tool_use_id=self.source.parent_tool_use_id,
                description=f"Running {call['input'].get('description') or call['name']}",
            )
        arguments = tools.absolute(call["name"], call["input"], self.session.cwd)
        try:
            arguments = await pass_or_refuse(self.session, call, arguments, self.source.agent_id)
            content, detail = await self.run_tool(self, call, arguments)
        except ToolFailed as failure:
            self._answer(call, str(failure), f"Error: {failure}", is_error=True)
            return
        self._answer(call, content, detail)
        if call["name"] == "StructuredOutput":
            text = msgspec.json.encode(arguments).decode()
            raise TurnOver(subtype="success", is_error=False, result=text, structured_output=arguments)

    def _answer(self, call: Record, content: Any, detail: Any, *, is_error: bool = False) -> None:
        self._open_calls.remove(call)
        block: Record = {"tool_use_id": call["id"], "type": "tool_result", "content": content}
        if is_error:
            block["is_error"] = True
        self._add_user([block], {"tool_use_result": detail}, {"toolUseResult": detail})

    def _add_user(self, content: list[Record], fields: Record, row_fields: Record) -> None:
        self.user_records += 1
        self._add(self.source.record("user", message={"role": "user", "content": content}, **fields), row_fields)

    def _add(self, record: Record, row_fields: Record) -> None:
        """Emit a record, add its message to the conversation, and write it with these fields."""
        self.session.wire.emit(record)
        self.messages.append({name: record["message"][name] for name in ("role", "content")})
        self.transcript.add({name: record[name] for name in ("type", "message", "uuid", "timestamp")} | row_fields)

    def _end_interrupted(self) -> None:
        during = " for tool use" if self._open_calls else ""
        for call in list(self._open_calls):
            refused = "The user doesn't want to proceed with this tool use."
            self._answer(call, refused, "User rejected tool use", is_error=True)
        self._add_user([{"type": "text", "text": f"[Request interrupted by user{during}]"}], {}, {})


def _limit(subtype: str, error: str) -> TurnOver:
    return TurnOver(subtype=subtype, is_error=True, errors=[error])
