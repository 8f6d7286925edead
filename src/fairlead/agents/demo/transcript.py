"""The session's file: the demo agent writes and reads the same JSONL lines as the real CLI.

Rule: this module knows lines and their chain of parents, but not turns. One line is one write, so a reader never sees
half of a finished line.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead.agents.demo.ids import new_uuid, timestamp
from fairlead.agents.demo.records import VERSION
from fairlead.agents.demo.usage import TokenUsage

Record = dict[str, Any]

# The real CLI cuts longer names and adds a hash.
_LONGEST_NAME = 200

STEERED = "The user sent a new message while you were working:\n"


class NoConversation(Exception):
    """There is nothing to resume. The message is the one that the real CLI prints."""


def config_dir(environ: dict[str, str]) -> Path:
    """The folder for the CLI's files."""
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"))


def folder_of(config: Path, cwd: str) -> Path:
    """The folder of a working directory's transcripts."""
    name = re.sub(r"[^a-zA-Z0-9]", "-", cwd)
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{_short_hash(cwd)}"
    return config / "projects" / name


def _short_hash(text: str) -> str:
    """The 32-bit string hash of JavaScript programs, in base 36."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


class Transcript:
    """One file and the chain of its lines; a subagent has a separate file next to its session's."""

    def __init__(self, path: Path, session_id: str, cwd: str, *, agent_id: str | None = None, keep: bool = True):
        self.path = path
        self.session_id = session_id
        self.leaf: str | None = None
        self._cwd = cwd
        self._agent_id = agent_id
        self._keep = keep
        self._file: int | None = None

    def subagent(self, agent_id: str) -> Transcript:
        folder = self.path.with_suffix("") / "subagents"
        return Transcript(
            folder / f"agent-{agent_id}.jsonl", self.session_id, self._cwd, agent_id=agent_id, keep=self._keep
        )

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
        os.write(self._file, json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

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
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.with_suffix(".meta.json").write_text(json.dumps(record), encoding="utf-8")


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


def load(folder: Path, session_id: str, at: str | None = None) -> History:
    """The history of a session. Raises NoConversation if it does not exist or does not have that message."""
    try:
        text = (folder / f"{session_id}.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise NoConversation(f"No conversation found with session ID: {session_id}") from None
    lines = list(_parsed(text))
    if at is not None and all(r.get("uuid") != at for r in lines):
        raise NoConversation(f"No message found with message.uuid of: {at}")
    return History(lines, at)


def latest(folder: Path) -> str | None:
    """The most recently written session of a folder, for --continue."""
    files = sorted(folder.glob("*.jsonl"), key=lambda p: p.stat().st_mtime_ns)
    return files[-1].stem if files else None


def _parsed(text: str) -> Iterator[Record]:
    for line in text.split("\n"):  # splitlines() would also cut at U+2028 inside a text
        try:
            record = json.loads(line)
        except ValueError:
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
