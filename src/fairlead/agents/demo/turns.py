"""One turn of the main thread, from the prompt to the result record; and compaction, which is a turn without a model.

Rule: this module defines the order of records around a thread's work, and the records of each way to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.agents.demo import records
from fairlead.agents.demo.execution import Executor
from fairlead.agents.demo.gate import Refusal
from fairlead.agents.demo.ids import new_id, new_uuid, timestamp
from fairlead.agents.demo.records import Record
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.thread import ERROR_NAMES, Answered, LimitReached, ModelRefused, Thread
from fairlead.agents.demo.wire import HostGone


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
        self._prompt_id = new_uuid()
        self._began = time.monotonic()
        self._work: asyncio.Task[Record] | None = None
        self._heard: Callable[[], None] | None = None
        uuids = [p.uuid for p in prompts if p.uuid]
        self._uuid_fields: Record = {"user_message_uuid": uuids[-1], "user_message_uuids": uuids} if uuids else {}
        self._thread = Thread(
            session,
            session.speaker,
            session.transcript,
            session.messages,
            executor.run,
            prompt_id=self._prompt_id,
            fields=self._uuid_fields,
            absorb=absorb,
        )

    def interrupt(self, heard: Callable[[], None]) -> bool:
        """Stop the work; `heard` is called before the turn emits its end. False if it has ended already."""
        if self._work is None or self._work.done() or self._heard is not None:
            return False
        self._heard = heard
        self._work.cancel()
        return True

    async def run(self) -> bool:
        """Run to the result record; True if that was an error."""
        session, thread = self._session, self._thread
        self._work = asyncio.create_task(self._answer())
        try:
            ending = await self._work
        except asyncio.CancelledError:
            if self._heard is None:
                raise
            self._heard()
            ending = self._interrupted()
            self._heard = None
        if self._heard is not None:  # the work ended by itself at the same moment
            self._heard()
        extra = dict(self._uuid_fields)
        if ending["subtype"] == "success" and not ending["is_error"]:
            extra = {"ttft_ms": 1, "ttft_stream_ms": 1, "time_to_request_ms": 1, **extra}
        origin = self._prompts[-1].origin
        if origin is not None:
            extra["origin"] = origin
        session.emit(
            records.result(
                session.id,
                ending=ending,
                ledger=session.ledger,
                calls=thread.calls,
                turns=1 + thread.user_records,
                denials=thread.denials,
                stats=session.stats,
                index=self._index,
                duration_ms=self._elapsed(),
                api_ms=self._elapsed() if thread.calls else 0,
                stop_reason="stop_sequence" if ending.get("terminal_reason") == "api_error" else thread.stop_reason,
                extra=extra,
            )
        )
        self._lifecycle("completed")
        session.transcript.line(
            {
                "type": "last-prompt",
                "lastPrompt": self._prompts[-1].text,
                "leafUuid": session.transcript.leaf,
                "sessionId": session.id,
            }
        )
        return bool(ending["is_error"])

    async def _answer(self) -> Record:
        """Do everything that an interrupt may stop; return how it ended."""
        session = self._session
        session.hooks.prompt_id = self._prompt_id
        self._lifecycle("started")
        for prompt in self._prompts:
            if prompt.origin is None:
                await self._fire("UserPromptSubmit", {"prompt": prompt.text})
        await session.mcp.ready()
        uuids = {k: v for k, v in self._uuid_fields.items() if k == "user_message_uuids"}
        session.emit(init_record(session) | uuids)
        self._take_prompts()
        try:
            ending = _success(await self._thread.run())
        except ModelRefused as refused:
            return self._api_error(refused)
        except LimitReached as limit:
            return _failure(limit.subtype, limit.reason, limit.sentence)
        except Answered as answered:
            text = json.dumps(answered.value, separators=(",", ":"))
            return {**_success(text), "structured_output": answered.value}
        except Refusal:
            return self._interrupted()
        about = {"stop_hook_active": False, "last_assistant_message": ending["result"], "background_tasks": []}
        await self._fire("Stop", about)
        return ending

    def _take_prompts(self) -> None:
        session = self._session
        for prompt in self._prompts:
            uuid = prompt.uuid or new_uuid()
            message = {"role": "user", "content": prompt.content}
            line: Record = {"promptId": self._prompt_id, "type": "user", "message": message, "uuid": uuid}
            line |= {"timestamp": timestamp(), "permissionMode": session.grants.mode}
            if prompt.origin is not None:
                line |= {"origin": prompt.origin, "promptSource": "system", "turnOrigin": "task_notification"}
            else:
                line |= {"promptSource": "sdk", "turnOrigin": "sdk"}
            session.transcript.add(line)
            if session.checkpoints is not None:
                session.checkpoints.prompt(uuid)
            if session.options.replay and prompt.origin is None:
                record = records.user(session.speaker, prompt.content, isReplay=True)
                session.emit(record | {"uuid": uuid})
        # Prompts that waited together form one message to the model.
        blocks: list[Any] = []
        for prompt in self._prompts:
            content = prompt.content
            blocks += [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        session.messages.append({"role": "user", "content": blocks})

    async def _fire(self, event: str, fields: Record) -> None:
        with contextlib.suppress(HostGone):
            await self._session.hooks.fire(event, self._session.speaker, fields)

    def _lifecycle(self, state: str) -> None:
        for prompt in self._prompts:
            if prompt.uuid is not None:
                self._session.emit(lifecycle(self._session, prompt.uuid, state))

    def _api_error(self, refused: ModelRefused) -> Record:
        session, error = self._session, refused.error
        text = f"API Error: {error.status} {error.message}"
        record = records.api_error(
            session.speaker, text, error.status, error.type, ERROR_NAMES[error.status], new_id("req_")
        )
        session.emit(record)
        session.transcript.add(
            {
                "message": record["message"],
                "type": "assistant",
                "uuid": record["uuid"],
                "timestamp": record["timestamp"],
                "isApiErrorMessage": True,
                "error": record["error"],
            }
        )
        session.messages.append({"role": "assistant", "content": record["message"]["content"]})
        ending = _success(text) | {"is_error": True, "terminal_reason": "api_error"}
        return ending | {"api_error_status": error.status, "api_error_type": error.type}

    def _interrupted(self) -> Record:
        during_tool = bool(self._thread.open_calls)
        self._thread.interrupted()
        reason = "aborted_tools" if during_tool else "aborted_streaming"
        stop = self._thread.stop_reason
        diagnostic = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop or 'null'}"
        return _failure("error_during_execution", reason, diagnostic)

    def _elapsed(self) -> int:
        return int((time.monotonic() - self._began) * 1000)


def init_record(session: DemoSession) -> Record:
    return records.init(
        session.id,
        cwd=session.cwd,
        model=session.model,
        mode=session.grants.mode,
        tools=session.tools(),
        servers=session.mcp.brief(),
        config=str(session.transcript.path.parent),
    )


def lifecycle(session: DemoSession, command_uuid: str, state: str) -> Record:
    return {
        "type": "command_lifecycle",
        "command_uuid": command_uuid,
        "state": state,
        "uuid": new_uuid(),
        "session_id": session.id,
    }


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


async def compact(session: DemoSession, index: int) -> None:
    """`/compact`: the conversation becomes its summary."""
    with contextlib.suppress(HostGone):
        about = {"trigger": "manual", "custom_instructions": ""}
        await session.hooks.fire("PreCompact", session.speaker, about)
    session.emit(records.status(session.id, "compacting"))
    before = session.transcript.leaf
    summary = f"This session continues an earlier conversation of {len(session.messages)} messages."
    session.emit(records.status(session.id, None, compact_result="success"))
    session.emit(init_record(session))
    boundary = new_uuid()
    metadata = {"trigger": "manual", "pre_tokens": 61, "post_tokens": 7}
    session.emit(
        {
            **records.system(session.id, "compact_boundary", compact_metadata=metadata),
            "uuid": boundary,
            "logical_parent_uuid": before,
        }
    )
    session.transcript.leaf = None
    session.transcript.add(
        {
            "logicalParentUuid": before,
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "uuid": boundary,
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
    ending = _success("") | {"local_command": "compact"}
    session.emit(
        records.result(
            session.id,
            ending=ending,
            ledger=session.ledger,
            calls=0,
            turns=0,
            denials=[],
            stats=session.stats,
            index=index,
            duration_ms=1,
            api_ms=0,
            stop_reason=None,
            extra={},
        )
    )
