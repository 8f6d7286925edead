"""Summarizes a session file from its first and last bytes. Pure: the cost depends on these bytes, not on the file.

Folder names are never decoded (they are lossy): the folder of a session is the `cwd` of its rows. The title is the name
that a person gave the session, else its summary, else the first prompt that a person typed.
"""

import re
from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter.user_text import TOOL_LOADED
from fairlead.agents.claude.transcripts.identity import CONVERSATION, SYNTHETIC, RecordIdentity
from fairlead.agents.claude.transcripts.repair import read_line, row_time
from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.claude.wire.records import as_dicts, as_text
from fairlead.model.formats.json_repair import decode_repaired

HEAD: Final = 64 << 10
TAIL: Final = 64 << 10
"""Bytes that are read of each end of a file. Rows of a conversation are 1 to 4 kB; the first prompt is among the first
dozen rows, and the rows that name a session are written again near the end."""

PROMPT_LENGTH: Final = 400
TITLE_LENGTH: Final = 200

_PROGRAM_TEXT: Final = ("<ide_", "<system-reminder>", "<task-notification>", "[Request interrupted")
_WRAPPERS: Final = "command-name|command-message|command-args|local-command-caveat|local-command-stdout"
_ONLY_WRAPPERS: Final = re.compile(rf"(?:\s*<(?:({_WRAPPERS})>.*?</\1|(?:{_WRAPPERS})\s*/)>)+\s*", re.DOTALL)


class _Row(RecordIdentity):
    """The fields that are used, of any type: a row is never rejected for the type of one."""

    cwd: Any = None
    gitBranch: Any = None
    version: Any = None
    isCompactSummary: Any = None
    summary: Any = None
    customTitle: Any = None
    totalCostUSD: Any = None
    forkedFrom: Any = None


_rows: Final = msgspec.json.Decoder(_Row)


class TranscriptSummary(msgspec.Struct):
    """Facts from the two ends of a file, collected from its rows, first to last. `prompts` is their number if the whole
    file was read, else 0."""

    session: str = ""
    cwd: str = ""
    branch: str = ""
    version: str = ""
    model: str = ""
    summary: str = ""
    custom_title: str = ""
    first_prompt: str = ""
    root: str = ""
    parent: str = ""
    created: int = 0
    updated: int = 0
    active: int = 0
    prompts: int = 0
    cost_usd: float = 0.0
    sidechain: bool | None = None
    useful: bool = False

    @property
    def title(self) -> str:
        return " ".join((self.custom_title or self.summary or self.first_prompt).split())[:TITLE_LENGTH]

    def take(self, row: _Row) -> None:
        at = row_time(row.timestamp)
        self.created = self.created or at
        self.updated = max(self.updated, at)
        self.session = self.session or as_text(row.sessionId)
        self.cwd = self.cwd or as_text(row.cwd)
        self.branch = as_text(row.gitBranch) or self.branch
        self.version = as_text(row.version) or self.version
        self.summary = (as_text(row.summary) if row.type == "summary" else "") or self.summary
        self.custom_title = as_text(row.customTitle) or self.custom_title
        if isinstance(row.totalCostUSD, int | float) and not isinstance(row.totalCostUSD, bool):
            self.cost_usd = max(0.0, float(row.totalCostUSD))
        if isinstance(row.forkedFrom, dict):
            self.parent = self.parent or as_text(row.forkedFrom.get("sessionId"))
        if row.type in CONVERSATION and row.isSidechain is not True:
            self.root = self.root or as_text(row.uuid)
        if row.uuid and row.type == "assistant":
            self.useful = True
            model = as_text(decode_object(row.message).get("model"))
            self.model = self.model if model in ("", SYNTHETIC) else model
        elif row.uuid and row.type == "user":
            self._user(row, at)

    def _user(self, row: _Row, at: int) -> None:
        if self.sidechain is None:
            self.sidechain = row.isSidechain is True
        if row.has_result:
            self.useful = True
            return
        if row.isCompactSummary is True:
            return
        self.active = max(self.active, at)
        prompt = "" if row.isMeta is True else prompt_of(decode_object(row.message).get("content"))
        if prompt and row.isSidechain is not True:
            self.useful = True
            self.prompts += 1
            self.first_prompt = self.first_prompt or prompt


def summarize(head: bytes, tail: bytes = b"") -> TranscriptSummary:
    """Summarize a file. `head` has its first bytes, `tail` its last (empty if `head` is the whole file), both cut
    anywhere."""
    lines = head.split(b"\n")
    if tail:
        lines = [*lines[:-1], *tail.split(b"\n")[1:]]
    summary = TranscriptSummary()
    for line in lines:
        for found in read_line(line).rows:
            if (row := decode_repaired(_rows.decode, found.raw)) is not None:
                summary.take(row)
    if tail:
        summary.prompts = 0
    return summary


def prompt_of(content: Any) -> str:
    """The text that a person typed, from a user row's content; empty for text that programs put into a user row."""
    blocks = as_dicts(content)
    texts = [content] if isinstance(content, str) else [as_text(block.get("text")) for block in blocks]
    if any(block.get("type") == "tool_result" for block in blocks):
        texts = [text for text in texts if text.strip() != TOOL_LOADED]
    return "\n".join(text.strip() for text in texts if is_typed(text))


def is_typed(text: str) -> bool:
    """Whether a person may have typed this text."""
    start = text.strip()
    return bool(start) and not start.startswith(_PROGRAM_TEXT) and not _ONLY_WRAPPERS.fullmatch(start)
