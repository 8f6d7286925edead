"""The session's file: the stand-in writes and reads the same JSONL rows as the real CLI.

One row is one write, so a reader never sees half of a finished row.
"""

import os
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.links.framing import encode_line
from fairlead_testing.model_messages import Record
from fairlead_testing.standin_cli.flags import VERSION


class CannotStart(Exception):
    """The session cannot be resumed, or its id is taken. The message is the one that the real CLI prints."""


def timestamp() -> str:
    """Now, as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Transcript:
    """One file and the chain of its rows; a subagent has a separate file next to its session's."""

    def __init__(self, path: Path, session_id: str, cwd: str, agent_id: str | None = None) -> None:
        self.path = path
        self.leaf: str | None = None
        self._cwd = cwd
        self._keep = True
        self._file: int | None = None
        self._session_id = session_id
        self._agent_id = agent_id

    def subagent(self, agent_id: str, meta: Record) -> Self:
        """The transcript of a subagent; the small file `meta` next to it names its parent call."""
        path = self.path.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"
        if self._keep:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.with_suffix(".meta.json").write_bytes(encode_line(meta))
        return type(self)(path, self._session_id, self._cwd, agent_id)

    def add(self, record: Record) -> None:
        """Append a row to the chain; its parent is the row before it."""
        row = {
            "parentUuid": self.leaf,
            "isSidechain": self._agent_id is not None,
            "uuid": str(uuid.uuid4()),
            "timestamp": timestamp(),
            **({"agentId": self._agent_id} if self._agent_id else {}),
            **record,
            "cwd": self._cwd,
            "sessionId": self._session_id,
            "version": VERSION,
        }
        self.leaf = row["uuid"]
        self.append(row)

    def append(self, row: Record) -> None:
        """Append a row as it is."""
        if not self._keep:
            return
        if self._file is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                print(f"stand-in CLI: no transcript is kept: {error}", file=sys.stderr, flush=True)
                self._keep = False
                return
        os.write(self._file, encode_line(row))


def load(path: Path, at: str | None = None) -> list[Record]:
    """The chain of a session's rows that ends at the row `at`, or at the last row. Raises CannotStart."""
    rows: dict[str, Record] = {}
    try:
        data = path.read_bytes()
    except OSError:
        raise CannotStart(f"No conversation found with session ID: {path.stem}") from None
    for line in data.split(b"\n"):
        row = decode_object(line)  # empty for a torn row, as a crash leaves it
        if row.get("uuid") and not row.get("isSidechain"):
            rows[row["uuid"]] = row
    if at is not None and at not in rows:
        raise CannotStart(f"No message found with message.uuid of: {at}")
    leaf = at or next(reversed(rows), None)
    chain: list[Record] = []
    while leaf in rows:
        chain.append(rows.pop(leaf))
        leaf = chain[-1].get("parentUuid")
    return chain[::-1]


def messages_of(chain: list[Record]) -> list[Record]:
    """The conversation as it is sent to a model, with the blocks of one message joined again."""
    messages: list[Record] = []
    last = None
    for row in chain:
        message = row.get("message")
        if row.get("type") not in ("user", "assistant") or row.get("isMeta") or not isinstance(message, dict):
            continue
        if last is not None and message.get("id") == last:
            messages[-1]["content"] += message["content"]
        else:
            messages.append({"role": row["type"], "content": message.get("content")})
        last = message.get("id")
    return messages
