"""One thread of the conversation, main or subagent: model call, tools, model call, until the model is done.

Rule: a thread knows its own messages and calls. turns.py handles the start and end of a turn, tools.py runs tools, and
permissions.py decides about them. Cancelling `run` interrupts the thread; `open_calls` are then unanswered.
"""

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.agents.demo import records, tools
from fairlead.agents.demo.conversation import read_conversation
from fairlead.agents.demo.gate import Gate, Refusal
from fairlead.agents.demo.player import Played, Player
from fairlead.agents.demo.records import Record, RecordSource
from fairlead.agents.demo.scripts import ApiError, respond
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.tools import Outcome, ToolFailed
from fairlead.agents.demo.transcript import STEERED, Transcript
from fairlead.agents.demo.usage import TOKENS_PER_CALL

# The real CLI uses growing delays; a person at a demo should not have to wait.
_RETRIES = 2
_RETRY_DELAY = 0.2
_RETRIED = frozenset({401, 429, 529})
ERROR_NAMES = {400: "unknown", 401: "authentication_failed", 429: "rate_limit", 529: "server_error"}
CUT_OFF = "Your response above was cut off in mid-stream: go on where it stops."
INTERRUPTED = "The user doesn't want to proceed with this tool use."


class ModelRefused(Exception):
    """The model's API refused, and no retry is left."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class LimitReached(Exception):
    """A limit of the command line ended the turn."""

    def __init__(self, subtype: str, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.subtype, self.reason = subtype, reason


class Answered(Exception):
    """The model gave its structured output: the turn is over."""

    def __init__(self, value: Record) -> None:
        super().__init__("structured output")
        self.value = value


RunTool = Callable[["Thread", Record, Record], Awaitable[Outcome]]
"""Runs a permitted call of a thread; injected, because a subagent is a thread as well."""


class Thread:
    """Runs one thread to its final text."""

    def __init__(
        self,
        session: DemoSession,
        speaker: RecordSource,
        transcript: Transcript,
        messages: list[Record],
        run_tool: RunTool,
        *,
        forwards_text: bool = True,
        waited_for: bool = False,
        fields: Record | None = None,
        absorb: Callable[[], list[str]] | None = None,
        depth: int = 0,
    ) -> None:
        self.session = session
        self.speaker = speaker
        self.transcript = transcript
        self._run_tool = run_tool
        self.depth = depth
        self.player = Player(session, speaker, transcript, self._block_done)
        self._forwards_text = forwards_text
        self._waited_for = waited_for
        self.calls = 0
        self.user_records = 0
        self.tool_uses = 0
        self.denials: list[Record] = []
        self.stop_reason: str | None = None
        self.open_calls: list[Record] = []
        self.running = False
        """The first open call is running: an interrupt stops it."""
        self.afterwards: list[Callable[[], None]] = []
        """Callbacks that an interrupt leaves for the time after the open calls were answered."""
        self._messages = messages
        self._fields = fields or {}
        self._absorb = absorb
        self._gate = Gate(self)

    async def run(self) -> str:
        """Run to the final text and return it. Raises ModelRefused, LimitReached, Answered or Refusal."""
        options = self.session.options
        while True:
            played = await self._call_model()
            if played.cut:
                # The real CLI asks the model to continue, and emits the request to the host too.
                self._add_user([{"type": "text", "text": CUT_OFF}], {"isSynthetic": True}, {"isMeta": True})
                continue
            if not played.calls:
                return played.text
            if options.max_budget is not None and self.session.ledger.total_cost > options.max_budget:
                sentence = f"Reached maximum budget (${options.max_budget:g})"
                raise LimitReached("error_max_budget_usd", "budget_exhausted", sentence)
            self.open_calls = list(played.calls)
            for call in played.calls:
                await self._run_call(call)
                self.open_calls.pop(0)
            if options.max_turns is not None and self.depth == 0 and self.calls >= options.max_turns:
                sentence = f"Reached maximum number of turns ({options.max_turns})"
                raise LimitReached("error_max_turns", "max_turns", sentence)

    @property
    def tokens(self) -> int:
        return self.calls * TOKENS_PER_CALL

    # -- the model

    async def _call_model(self) -> Played:
        self._take_steering()
        available = frozenset(("Agent" if t == "Task" else t) for t in self.session.tools())
        attempt = 0
        while True:
            blocks = respond(read_conversation(self._messages, available, attempt))
            error = next((b for b in blocks if isinstance(b, ApiError)), None)
            if error is None:
                break
            attempt += 1
            await self._refused(error, attempt)
        played = await self.player.play(blocks, self._fields)
        if not played.cut:
            self.calls += 1
            self.session.ledger.count(self.session.model)
        if self.speaker.agent_id is not None and not self._waited_for:
            for call in played.calls:
                self._progress(call)
        self._messages.append({"role": "assistant", "content": played.content})
        self.stop_reason = played.stop_reason
        return played

    def _block_done(self, block: Record) -> bool:
        """Whether this block goes to the host. A foreground subagent reports a call before it makes it."""
        if self._waited_for and block["type"] == "tool_use":
            self._progress(block)
        return self._forwards_text or block["type"] == "tool_use"

    async def _refused(self, error: ApiError, attempt: int) -> None:
        """Report a retry and wait for it, or give up."""
        session = self.session
        if error.status == 429 and attempt == 1:
            limit = {"status": "rejected", "rateLimitType": "five_hour", "isUsingOverage": False}
            session.emit({**records.system(session.id, ""), "type": "rate_limit_event", "rate_limit_info": limit})
        if error.status not in _RETRIED or attempt > _RETRIES:
            raise ModelRefused(error)
        delay = _RETRY_DELAY * 2 ** (attempt - 1)
        session.emit_system(
            "api_retry",
            attempt=attempt,
            max_retries=_RETRIES,
            retry_delay_ms=int(delay * 1000),
            error_status=error.status,
            error="overloaded" if error.status == 529 else ERROR_NAMES[error.status],
        )
        await asyncio.sleep(delay)

    def _take_steering(self) -> None:
        """Add messages that arrived during the turn before the next call of the model."""
        for text in self._absorb() if self._absorb and self.calls else []:
            self.transcript.queued("remove", content=text, reason="absorbed_mid_turn")
            attachment = {"type": "queued_command", "prompt": text, "commandMode": "prompt"}
            self.transcript.add({"type": "attachment", "attachment": attachment})
            self._messages.append({"role": "user", "content": STEERED + text})

    # -- tools

    async def _run_call(self, call: Record) -> None:
        self.running = False
        self.tool_uses += 1
        arguments = tools.absolute(call["name"], call["input"], self.session.cwd)
        try:
            arguments, meta = await self._gate.pass_or_refuse(call, arguments)
        except Refusal as refusal:
            if refusal.interrupts:
                raise
            self._answer(call, Outcome(refusal.sentence, f"Error: {refusal.sentence}", is_error=True), refusal.meta)
            return
        self.running = True
        try:
            outcome = await self._run_tool(self, call, arguments)
        except ToolFailed as failure:
            outcome = Outcome(str(failure), f"Error: {failure}", is_error=True)
        self._answer(call, outcome, {"permission_decision": meta})
        if call["name"] == "StructuredOutput" and not outcome.is_error:
            raise Answered(arguments)

    def _answer(self, call: Record, outcome: Outcome, meta: Record) -> None:
        block: Record = {"tool_use_id": call["id"], "type": "tool_result", "content": outcome.content}
        if outcome.is_error is not None:
            block["is_error"] = outcome.is_error
        wire: Record = {} if self.speaker.agent_id else {"tool_use_result": outcome.detail}
        line: Record = {} if self.speaker.agent_id else {"toolUseResult": outcome.detail}
        self._add_user([block], wire | {"tool_result_meta": [{"id": call["id"], **meta}]}, line)

    def _add_user(self, content: list[Record], wire: Record, line: Record) -> None:
        """Emit a user record with the fields `wire`, and write it with the fields `line`."""
        record = records.user(self.speaker, content, **wire)
        self.session.emit(record)
        self.user_records += 1
        self._messages.append(record["message"])
        fields = {name: record[name] for name in ("type", "message", "uuid", "timestamp")}
        self.transcript.add(fields | line)

    def _progress(self, call: Record) -> None:
        description = call["input"].get("description") or call["input"].get("file_path") or call["name"]
        self.session.emit_system(
            "task_progress",
            task_id=self.speaker.agent_id,
            run_id=self.speaker.run_id,
            tool_use_id=self.speaker.parent_tool_use_id,
            description=f"Running {description}",
            subagent_type=self.speaker.subagent_type,
            usage={"total_tokens": self.tokens, "tool_uses": self.tool_uses + 1, "duration_ms": 1},
            last_tool_name=call["name"],
        )

    # -- the end of an interrupted thread

    def interrupted(self) -> None:
        """Emit what a cancelled thread still owes: its text so far, and an answer to each open call."""
        if content := self.player.emit_unfinished():
            self._messages.append({"role": "assistant", "content": content})
        for call in self.open_calls:
            sentence = f"{INTERRUPTED} It was stopped while it ran." if self.running else INTERRUPTED
            outcome = Outcome(sentence, "User rejected tool use", is_error=True)
            self._answer(call, outcome, {"non_execution_kind": "user-rejected"})
            self.running = False
        for emit in self.afterwards:
            emit()
        text = f"[Request interrupted by user{' for tool use' if self.open_calls else ''}]"
        self._add_user([{"type": "text", "text": text}], {}, {})
        self.player.end_unfinished()
        self.open_calls, self.afterwards = [], []
