"""One turn of the main thread, from the prompt to the result record; and compaction, which is a turn without a model.

Rule: this module defines the order of records around a thread's work, and the records of each way to end.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from fairlead.agents.demo import records, usage
from fairlead.agents.demo.execution import Executor
from fairlead.agents.demo.gate import Refusal
from fairlead.agents.demo.ids import new_id, new_uuid
from fairlead.agents.demo.records import Record
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.thread import ERROR_NAMES, Answered, LimitReached, ModelRefused, Thread


@dataclass(frozen=True, slots=True)
class Prompt:
    """An input to answer: a person's message, or a background task's notification."""

    content: Any
    uuid: str | None = None
    origin: Record | None = None
    came_while_busy: bool = False

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(b.get("text", "")) for b in self.content if isinstance(b, dict) and "text" in b)


class Turn:
    """Answers one or more prompts that were waiting together, as the real CLI does."""

    def __init__(
        self,
        session: DemoSession,
        prompts: list[Prompt],
        index: int,
        executor: Executor,
        absorb: Callable[[], list[str]],
    ) -> None:
        self._session = session
        self._prompts = prompts
        self._index = index
        self._began = time.monotonic()
        self._work: asyncio.Task[Record] | None = None
        self._acknowledge: Callable[[], None] | None = None
        uuids = [p.uuid for p in prompts if p.uuid]
        self._uuid_fields: Record = {"user_message_uuid": uuids[-1], "user_message_uuids": uuids} if uuids else {}
        self._thread = Thread(
            session,
            session.speaker,
            session.transcript,
            session.messages,
            executor.run,
            fields=self._uuid_fields,
            absorb=absorb,
        )

    def interrupt(self, acknowledge: Callable[[], None]) -> bool:
        """Stop the work; `acknowledge` is called before the turn emits its end. False if it has ended already."""
        if self._work is None or self._work.done() or self._acknowledge is not None:
            return False
        self._acknowledge = acknowledge
        self._work.cancel()
        return True

    async def run(self) -> bool:
        """Run to the result record; True if that was an error."""
        session, thread = self._session, self._thread
        self._work = asyncio.create_task(self._answer())
        try:
            ending = await self._work
        except asyncio.CancelledError:
            if self._acknowledge is None:
                raise
            self._acknowledge()
            ending = self._interrupted()
            self._acknowledge = None
        if self._acknowledge is not None:  # the work ended by itself at the same moment
            self._acknowledge()
        extra = dict(self._uuid_fields)
        if ending["subtype"] == "success" and not ending["is_error"]:
            extra = {"ttft_ms": 1, "ttft_stream_ms": 1, "time_to_request_ms": 1, **extra}
        origin = self._prompts[-1].origin
        if origin is not None:
            extra["origin"] = origin
        elapsed = int((time.monotonic() - self._began) * 1000)
        _emit_result(
            session,
            ending,
            calls=thread.calls,
            num_turns=1 + thread.user_records,
            permission_denials=thread.denials,
            result_index=self._index,
            duration_ms=elapsed,
            duration_api_ms=elapsed if thread.calls else 0,
            stop_reason="stop_sequence" if ending.get("terminal_reason") == "api_error" else thread.stop_reason,
            **extra,
        )
        self._lifecycle("completed")
        last = {"type": "last-prompt", "lastPrompt": self._prompts[-1].text, "leafUuid": session.transcript.leaf}
        session.transcript.line({**last, "sessionId": session.id})
        return bool(ending["is_error"])

    async def _answer(self) -> Record:
        """Do everything that an interrupt may stop; return how it ended."""
        session = self._session
        self._lifecycle("started")
        await session.mcp.ready()
        session.emit_init(**{k: v for k, v in self._uuid_fields.items() if k == "user_message_uuids"})
        self._take_prompts()
        try:
            return _success(await self._thread.run())
        except ModelRefused as refused:
            return self._api_error(refused)
        except LimitReached as limit:
            return _failure(limit.subtype, limit.reason, str(limit))
        except Answered as answered:
            text = msgspec.json.encode(answered.value).decode()
            return {**_success(text), "structured_output": answered.value}
        except Refusal:
            return self._interrupted()

    def _take_prompts(self) -> None:
        session = self._session
        for prompt in self._prompts:
            uuid = prompt.uuid or new_uuid()
            line: Record = {"type": "user", "message": {"role": "user", "content": prompt.content}, "uuid": uuid}
            if prompt.origin is not None:
                line["origin"] = prompt.origin
            session.transcript.add(line)
            session.checkpoints.prompt(uuid)
        # Prompts that waited together form one message to the model.
        blocks: list[Any] = []
        for prompt in self._prompts:
            content = prompt.content
            blocks += [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        session.messages.append({"role": "user", "content": blocks})

    def _lifecycle(self, state: str) -> None:
        for prompt in self._prompts:
            if prompt.uuid is not None:
                self._session.emit_lifecycle(prompt.uuid, state)

    def _api_error(self, refused: ModelRefused) -> Record:
        session, error = self._session, refused.error
        text = f"API Error: {error.status} {error.message}"
        facts = {"api_error_status": error.status, "api_error_type": error.type}
        record = records.assistant(
            session.speaker,
            new_uuid(),
            "<synthetic>",
            {"type": "text", "text": text},
            new_id("req_"),
            error=ERROR_NAMES[error.status],
            is_api_error_message=True,
            **facts,
        )
        record["message"] |= {"stop_reason": "stop_sequence", "stop_sequence": "", "usage": usage.full_usage(0)}
        session.emit(record)
        line = {name: record[name] for name in ("message", "type", "uuid", "timestamp", "error")}
        session.transcript.add({**line, "isApiErrorMessage": True})
        session.messages.append({"role": "assistant", "content": record["message"]["content"]})
        return _success(text) | {"is_error": True, "terminal_reason": "api_error", **facts}

    def _interrupted(self) -> Record:
        during_tool = bool(self._thread.open_calls)
        self._thread.interrupted()
        reason = "aborted_tools" if during_tool else "aborted_streaming"
        stop = self._thread.stop_reason
        diagnostic = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop or 'null'}"
        return _failure("error_during_execution", reason, diagnostic)


def _emit_result(session: DemoSession, ending: Record, *, calls: int, **fields: Any) -> None:
    """Emit the end of a turn. `ending` says how it ended: subtype, is_error, result or errors, terminal_reason."""
    ledger = session.ledger
    session.emit(
        {
            "type": "result",
            "session_id": session.id,
            "uuid": new_uuid(),
            "total_cost_usd": ledger.total_cost,
            "usage": usage.full_usage(calls),
            "modelUsage": usage.model_usage(ledger.calls),
            "model_usage_since_last_result": usage.model_usage(ledger.since_last_result()),
            "fast_mode_state": "off",
            "subagent_stats": {"spawned": session.subagents},
            "safety_stops": 0,
            "queued_turn_count": 0,
            **ending,
            **fields,
        }
    )


def _success(text: str) -> Record:
    return {
        "subtype": "success",
        "is_error": False,
        "terminal_reason": "completed",
        "api_error_status": None,
        "result": text,
    }


def _failure(subtype: str, reason: str, error: str) -> Record:
    return {"subtype": subtype, "is_error": True, "terminal_reason": reason, "errors": [error]}


def compact(session: DemoSession, index: int) -> None:
    """`/compact`: the conversation becomes its summary."""
    session.emit_status("compacting")
    before = session.transcript.leaf
    summary = f"This session continues an earlier conversation of {len(session.messages)} messages."
    session.emit_status(None, compact_result="success")
    session.emit_init()
    metadata = {"trigger": "manual", "pre_tokens": 61, "post_tokens": 7}
    boundary = records.system(session.id, "compact_boundary", compact_metadata=metadata, logical_parent_uuid=before)
    session.emit(boundary)
    session.transcript.leaf = None
    session.transcript.add(
        {
            "logicalParentUuid": before,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "uuid": boundary["uuid"],
            "level": "info",
            "compactMetadata": {"trigger": "manual", "preTokens": 61, "postTokens": 7},
        }
    )
    for content, wire, line in (
        (summary, {"isReplay": False, "isSynthetic": True}, {"isCompactSummary": True}),
        ("<local-command-stdout>Compacted </local-command-stdout>", {"isReplay": True}, {}),
    ):
        record = records.user(session.speaker, content, **wire)
        session.emit(record)
        message = {"role": "user", "content": content}
        session.transcript.add({"type": "user", "message": message, "uuid": record["uuid"], **line})
    session.messages[:] = [{"role": "user", "content": summary}]
    _emit_result(
        session,
        _success(""),
        calls=0,
        num_turns=0,
        permission_denials=[],
        result_index=index,
        duration_ms=1,
        duration_api_ms=0,
        stop_reason=None,
        local_command="compact",
    )
