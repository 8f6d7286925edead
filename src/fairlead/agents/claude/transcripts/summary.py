"""Summarizes a session file from its first and last bytes. Pure: the cost depends on these bytes, not on the file.

Folder names are never decoded (they are lossy): the folder of a session is the `cwd` of its rows. The title is the name
that a person gave the session, else its summary, else the first prompt that a person typed.
"""

import re
from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter.user_text import TOOL_LOADED
from fairlead.agents.claude.transcripts.repair import RepairedRow, read_line, row_time

HEAD: Final = 64 << 10
TAIL: Final = 64 << 10
"""Bytes that are read of each end of a file. Rows of a conversation are 1 to 4 kB; the first prompt is among the first
dozen rows, and the rows that name a session are written again near the end."""

PROMPT_LENGTH: Final = 400
TITLE_LENGTH: Final = 200

_ASIDE: Final = ("<ide_", "<system-reminder>", "<task-notification>", "[Request interrupted")
_WRAPPERS: Final = "command-name|command-message|command-args|local-command-caveat|local-command-stdout"
_ONLY_WRAPPERS: Final = re.compile(rf"(?:\s*<(?:({_WRAPPERS})>.*?</\1|(?:{_WRAPPERS})\s*/)>)+\s*", re.DOTALL)


class TranscriptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from the two ends of a file. `prompts` is their number if the whole file was read, else 0."""

    session: str = ""
    title: str = ""
    cwd: str = ""
    branch: str = ""
    first_prompt: str = ""
    model: str = ""
    version: str = ""
    created: int = 0
    updated: int = 0
    active: int = 0
    prompts: int = 0
    cost_usd: float = 0.0
    sidechain: bool = False
    useful: bool = False
    root: str = ""
    parent: str = ""


class _Message(msgspec.Struct):
    model: Any = None
    content: Any = None


class _Row(msgspec.Struct):
    """The fields that are used, of any type: a row is never rejected for the type of one."""

    type: Any = None
    uuid: Any = None
    sessionId: Any = None
    timestamp: Any = None
    cwd: Any = None
    gitBranch: Any = None
    version: Any = None
    isSidechain: Any = None
    isMeta: Any = None
    isCompactSummary: Any = None
    toolUseResult: Any = None
    summary: Any = None
    customTitle: Any = None
    totalCostUSD: Any = None
    forkedFrom: Any = None
    message: msgspec.Raw = msgspec.Raw()


_rows: Final = msgspec.json.Decoder(_Row)
_messages: Final = msgspec.json.Decoder(_Message)


class _Gathered:
    """Collects facts from the rows, first to last."""

    def __init__(self) -> None:
        self.session = self.cwd = self.branch = self.version = self.model = ""
        self.summary = self.custom = self.first_prompt = self.root = self.parent = ""
        self.created = self.updated = self.active = self.prompts = 0
        self.cost = 0.0
        self.sidechain: bool | None = None
        self.useful = False

    def take(self, row: _Row) -> None:
        at = row_time(row.timestamp)
        self.created = self.created or at
        self.updated = max(self.updated, at)
        self.session = self.session or _text(row.sessionId)
        self.cwd = self.cwd or _text(row.cwd)
        self.branch = _text(row.gitBranch) or self.branch
        self.version = _text(row.version) or self.version
        self.summary = _text(row.summary) if row.type == "summary" and _text(row.summary) else self.summary
        self.custom = _text(row.customTitle) or self.custom
        if isinstance(row.totalCostUSD, int | float) and not isinstance(row.totalCostUSD, bool):
            self.cost = max(0.0, float(row.totalCostUSD))
        if isinstance(row.forkedFrom, dict):
            self.parent = self.parent or _text(row.forkedFrom.get("sessionId"))
        if row.type in ("user", "assistant") and row.isSidechain is not True:
            self.root = self.root or _text(row.uuid)
        if row.uuid and row.type == "assistant":
            self.useful = True
            self.model = _model(row.message) or self.model
        elif row.uuid and row.type == "user":
            self._user(row, at)

    def _user(self, row: _Row, at: int) -> None:
        if self.sidechain is None:
            self.sidechain = row.isSidechain is True
        if row.toolUseResult is not None:
            self.useful = True
            return
        if row.isCompactSummary is True:
            return
        self.active = max(self.active, at)
        prompt = "" if row.isMeta is True else prompt_of(_content(row.message))
        if prompt and row.isSidechain is not True:
            self.useful = True
            self.prompts += 1
            self.first_prompt = self.first_prompt or prompt


def summarize(head: bytes, tail: bytes = b"") -> TranscriptSummary:
    """Summarize a file. `head` has its first bytes, `tail` its last (empty if `head` is the whole file), both cut
    anywhere."""
    gathered = _Gathered()
    for row in [*_read(head, cut_end=bool(tail)), *_read(tail, cut_start=True)]:
        gathered.take(row)
    title = gathered.custom or gathered.summary or gathered.first_prompt
    return TranscriptSummary(
        session=gathered.session,
        title=" ".join(title.split())[:TITLE_LENGTH],
        cwd=gathered.cwd,
        branch=gathered.branch,
        first_prompt=gathered.first_prompt[:PROMPT_LENGTH],
        model=gathered.model,
        version=gathered.version,
        created=gathered.created,
        updated=gathered.updated,
        active=gathered.active,
        prompts=0 if tail else gathered.prompts,
        cost_usd=gathered.cost,
        sidechain=gathered.sidechain is True,
        useful=gathered.useful,
        root=gathered.root,
        parent=gathered.parent,
    )


def prompt_of(content: Any) -> str:
    """The text that a person typed, from a user row's content; empty for text that programs put into a user row."""
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict)]
        texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
        if any(block.get("type") == "tool_result" for block in blocks):
            texts = [text for text in texts if text.strip() != TOOL_LOADED]
    else:
        texts = []
    return "\n".join(text.strip() for text in texts if is_typed(text))


def is_typed(text: str) -> bool:
    """Whether a person may have typed this text."""
    start = text.strip()
    return bool(start) and not start.startswith(_ASIDE) and not _ONLY_WRAPPERS.fullmatch(start)


def _read(data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> list[_Row]:
    lines = data.split(b"\n")
    if cut_start:
        lines = lines[1:]
    if cut_end:
        lines = lines[:-1]
    rows = []
    for line in lines:
        for part in read_line(line).parts:
            if isinstance(part, RepairedRow) and (row := _decoded(part.raw)) is not None:
                rows.append(row)
    return rows


def _decoded(raw: bytes) -> _Row | None:
    try:
        return _rows.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _content(message: msgspec.Raw) -> Any:
    return _message(message).content


def _model(message: msgspec.Raw) -> str:
    model = _text(_message(message).model)
    # A message that the CLI wrote itself.
    return "" if model == "<synthetic>" else model


def _message(message: msgspec.Raw) -> _Message:
    try:
        return _messages.decode(message) if bytes(message) else _Message()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Message()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
