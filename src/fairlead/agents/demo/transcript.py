"""The session's file: the demo agent writes and reads the same JSONL lines as the real CLI.

Rule: this module knows lines and their chain of parents, but not turns. One line is one write, so a reader never sees
half of a finished line.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec

from fairlead.agents.claude.wire.framing import encode_line
from fairlead.agents.demo.ids import new_uuid, timestamp
from fairlead.agents.demo.records import VERSION, Record
from fairlead.agents.demo.usage import TokenUsage

STEERED = "The user sent a new message while you were working:\n"


class NoConversation(Exception):
    """There is nothing to resume. The message is the one that the real CLI prints."""


class Transcript:
    """One file and the chain of its lines; a subagent has a separate file next to its session's."""

    def __init__(self, path: Path, session_id: str, cwd: str, agent_id: str | None = None) -> None:
        self.path = path
        self.session_id = session_id
        self.leaf: str | None = None
        self._cwd = cwd
        self._agent_id = agent_id
        self._keep = True
        self._file: int | None = None

    def subagent(self, agent_id: str) -> Self:
        folder = self.path.with_suffix("") / "subagents"
        return type(self)(folder / f"agent-{agent_id}.jsonl", self.session_id, self._cwd, agent_id)

    def line(self, record: Record) -> None:
        """Append a line that is not part of the chain."""
        if not self._keep:
            return
        if self._file is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                print(f"demo agent: no transcript is kept: {error}", file=sys.stderr, flush=True)
                self._keep = False
                return
        os.write(self._file, encode_line(record))

    def add(self, record: Record) -> None:
        """Append a line to the chain; its parent is the line before it."""
        who: Record = {"parentUuid": self.leaf, "isSidechain": self._agent_id is not None}
        if self._agent_id is not None:
            who["agentId"] = self._agent_id
        record = {
            **who,
            **record,
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": self._cwd,
            "sessionId": self.session_id,
            "version": VERSION,
            "gitBranch": "HEAD",
        }
        record.setdefault("uuid", new_uuid())
        record.setdefault("timestamp", timestamp())
        self.leaf = str(record["uuid"])
        self.line(record)

    def queued(self, operation: str, **fields: Any) -> None:
        base = {"type": "queue-operation", "operation": operation, "timestamp": timestamp()}
        self.line({**base, "sessionId": self.session_id, **fields})

    def meta(self, record: Record) -> None:
        """Write the small file next to a subagent's transcript that names its parent call."""
        if self._keep:
            self.path.with_suffix(".meta.json").write_bytes(encode_line(record))


class History:
    """The content of a transcript, for a session that continues it."""

    def __init__(self, lines: list[Record], at: str | None) -> None:
        by_uuid = {str(r["uuid"]): r for r in lines if r.get("uuid") and not r.get("isSidechain")}
        self.leaf = at if at is not None else next(reversed(by_uuid), None)
        self.chain = list(_chain(by_uuid, self.leaf))
        self.prompts = {u for u, r in by_uuid.items() if r.get("type") == "user"}
        self.ledger = TokenUsage()
        for record in lines:
            if record.get("type") == "cost-state":
                self.ledger = TokenUsage.from_cost_state(record)
        self.messages = list(_messages(self.chain))


def load(path: Path, at: str | None = None) -> History:
    """The history of a session. Raises NoConversation if it does not exist or does not have that message."""
    try:
        lines = list(_parsed(path.read_bytes()))
    except OSError:
        raise NoConversation(f"No conversation found with session ID: {path.stem}") from None
    if at is not None and all(r.get("uuid") != at for r in lines):
        raise NoConversation(f"No message found with message.uuid of: {at}")
    return History(lines, at)


def _parsed(data: bytes) -> Iterator[Record]:
    for line in data.split(b"\n"):
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a torn line, as a crash leaves it
        if isinstance(record, dict):
            yield record


def _chain(by_uuid: dict[str, Record], leaf: str | None) -> list[Record]:
    chain = []
    while leaf is not None and leaf in by_uuid:
        record = by_uuid.pop(leaf)
        chain.append(record)
        leaf = record.get("parentUuid")
    return chain[::-1]


def _messages(chain: list[Record]) -> Iterator[Record]:
    """The conversation as it is sent to a model, with the blocks of one message joined again."""
    open_id: str | None = None
    content: list[Record] = []
    for record in chain:
        message = record.get("message") or {}
        if record.get("type") == "assistant":
            if open_id is not None and message.get("id") != open_id:
                yield {"role": "assistant", "content": content}
                content = []
            open_id = message.get("id")
            content = content + list(message.get("content") or [])
            continue
        user_message = _user_message(record, message)
        if user_message is None:
            continue
        if open_id is not None:
            yield {"role": "assistant", "content": content}
            open_id, content = None, []
        yield user_message
    if open_id is not None:
        yield {"role": "assistant", "content": content}


def _user_message(record: Record, message: Record) -> Record | None:
    if record.get("type") == "user" and not record.get("isMeta"):
        return {"role": "user", "content": message.get("content")}
    attachment = record.get("attachment") or {}
    if record.get("type") == "attachment" and attachment.get("type") == "queued_command":
        return {"role": "user", "content": STEERED + str(attachment.get("prompt", ""))}
    return None
