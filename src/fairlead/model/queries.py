"""Queries: read-only requests of clients to the gateway, and the types of their answers."""

from collections.abc import Generator
from typing import Any, Final, Generic, TypeVar

import msgspec

from fairlead.model.content import MessageSource
from fairlead.model.ids import SessionId
from fairlead.model.store import RowPage, SearchHit, SessionFilter, SessionPage, Summary
from fairlead.model.usage_stats import UsageStats

_PAGE: Final = 1000

A = TypeVar("A")


class QueryBase(msgspec.Struct, Generic[A], frozen=True):
    """Base of queries. `A` is the type of the answer."""


class ListSessions(QueryBase[SessionPage], frozen=True):
    filter: SessionFilter


class GetSession(QueryBase["SessionView"], frozen=True):
    session: SessionId


class ReadMessages(QueryBase["EventPage"], frozen=True):
    """History in pages from the end: entries with seq < before, without deltas and bare records."""

    session: SessionId
    before: int | None = None
    limit: int = 100


class ReadEvents(QueryBase["EventPage"], frozen=True):
    """The log forward from a seq, deltas included."""

    session: SessionId
    after: int = 0
    limit: int = 500


class ListPermissions(QueryBase["tuple[PendingView, ...]"], frozen=True):
    """Requests that wait for a person, in one session or in all."""

    session: SessionId | None = None


class ReadQueue(QueryBase["tuple[QueuedView, ...]"], frozen=True):
    session: SessionId


class ReadUsage(QueryBase["UsageView"], frozen=True):
    """Totals of one session, or of all."""

    session: SessionId | None = None


class SearchText(QueryBase["SearchResult"], frozen=True):
    words: str
    limit: int = 20
    session: SessionId | None = None


class PreviewTranscript(QueryBase["TranscriptPreview"], frozen=True):
    """The end of a session's transcript file, without opening the session: the cost does not depend on its length."""

    session: SessionId
    limit: int = 100


class FindPermission(QueryBase["PendingView"], frozen=True):
    """The pending request of this id, with its session."""

    request: str


class ExplainPermission(QueryBase["PermissionReport"], frozen=True):
    """The effects of a pending request, and the coverage of an "always allow". `rule`: a rule that a person considers
    saving instead of the suggested ones. `admin`: the person may save rules that others may not."""

    request: str
    rule: str = ""
    admin: bool = False


class ReadUsageStats(QueryBase[UsageStats], frozen=True):
    """Usage, cost, tools and limits between two times; days are in a time zone `offset` minutes east of Greenwich."""

    since: int
    until: int
    offset: int = 0


class ListAgents(QueryBase["tuple[AgentView, ...]"], frozen=True):
    """The agents that sessions can run."""


class WaitLoaded(QueryBase[bool], frozen=True):
    """Answered when all of a session's history is in its log: a large file is imported while the session is already
    open. With `wait` false it is answered at once.

    -> bool: the import is complete"""

    session: SessionId
    wait: bool = True


class WaitDelivered(QueryBase[None], frozen=True):
    """Answered when a message has left the queue: it reached the agent, or was withdrawn. -> None; AgentFailed if it
    could not be delivered."""

    session: SessionId
    message: str


class WaitTurn(QueryBase[str], frozen=True):
    """Answered when a session neither works nor has queued messages, or waits for a person; at the latest after
    `seconds`. -> its state, as in lists."""

    session: SessionId
    seconds: float


class ReadRows(QueryBase[RowPage], frozen=True):
    """A projection's rows, caught up with the log: rows after an ordinal, or (no `after`) the last rows before one.

    A page may be shorter than `limit` because of its size: there are more rows unless its last (first) ordinal is the
    head (1)."""

    session: SessionId
    view: str
    after: int | None = None
    before: int | None = None
    limit: int = 100


class FindRow(QueryBase["int | None"], frozen=True):
    """-> the ordinal of the row that has `key`, or None"""

    session: SessionId
    view: str
    key: str


class ReadProjection(QueryBase[bytes], frozen=True):
    """-> bytes: the `snapshot` of a projection's reducer, caught up with the log"""

    session: SessionId
    view: str


WaitQuery = WaitLoaded | WaitDelivered | WaitTurn
SessionQuery = GetSession | ReadMessages | ReadEvents | ReadQueue | PreviewTranscript | WaitQuery
ProjectionQuery = ReadRows | FindRow | ReadProjection
PermissionQuery = ListPermissions | FindPermission | ExplainPermission
OverviewQuery = ListSessions | ListAgents | SearchText | ReadUsage | ReadUsageStats
Query = SessionQuery | ProjectionQuery | PermissionQuery | OverviewQuery


def every_session(**wanted: Any) -> Generator[ListSessions, SessionPage, list[Summary]]:
    """Steps that read all sessions of a filter, newest first, page by page."""
    found: list[Summary] = []
    before = ""
    while True:
        page = yield ListSessions(SessionFilter(before=before, limit=_PAGE, **wanted))
        found.extend(page.sessions)
        if not page.next:
            return found
        before = page.next


class AgentView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent that sessions can run. `default`: sessions run it unless they name another. `problem`: why it cannot
    run, and what to do. `links`: the ways in which it can be connected."""

    name: str
    default: bool = False
    version: str = ""
    problem: str = ""
    links: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()
    """The capabilities that it does not have."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`sessions`: the summaries of the sessions of the hits. `not_searched`: how many sessions of this user are not
    indexed yet, or not to their end."""

    hits: tuple[SearchHit, ...] = ()
    sessions: tuple[Summary, ...] = ()
    not_searched: int = 0


class PendingView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    session: SessionId
    seq: int
    event: msgspec.Raw
    """The event of the request, as stored (permission.asked, question.asked or plan.proposed)."""


class CommandPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One command of a shell line. `hidden`: another command would run it (`sh -c`, `env`, `xargs`)."""

    text: str
    hidden: bool = False


class FileChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file before and after the change. `whole` false: only the replaced parts (the file is outside the session's
    folders, too large, or not text). `new`: the file does not exist yet. `outside`: not in the session's folders."""

    path: str
    before: str
    after: str
    whole: bool = False
    new: bool = False
    outside: bool = False


class RuleScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A description of the calls that a rule would allow. `enough`: the rule covers this call. `problem`: why the rule
    cannot be saved."""

    rule: str
    covers: str
    enough: bool = False
    problem: str = ""


class PermissionReport(PendingView, frozen=True, kw_only=True, omit_defaults=True):
    """`commands` of a shell line, `writes` are the targets of its redirections, `doubts` are its parts that are unknown
    before it runs. `suggested` rules are saved together. `fixed_input`: the agent runs the tool with the input as it
    is, so that a person cannot change it."""

    title: str = ""
    cwd: str = ""
    commands: tuple[CommandPart, ...] = ()
    writes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    files: tuple[FileChange, ...] = ()
    host: str = ""
    suggested: tuple[RuleScope, ...] = ()
    rule: RuleScope | None = None
    fixed_input: bool = False


class QueuedView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    message: str
    by: str = ""
    content: Any = None
    source: MessageSource | None = None
    """The agent that sent it; None: a person did."""


class HandoverView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hand-over that was requested and has not happened yet."""

    link: str
    when: str
    by: str = ""
    waits_for: tuple[str, ...] = ()
    """Descriptions of the work that it waits for now."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of one session, with the cursor from which a subscription continues without a gap.
    `importing`: its log does not have all of its transcript yet."""

    summary: Summary
    log_id: str
    head: int
    turn: str | None = None
    settings: dict[str, Any] = {}
    pending: tuple[PendingView, ...] = ()
    queue: tuple[QueuedView, ...] = ()
    rules: tuple[str, ...] = ()
    watchers: tuple[str, ...] = ()
    handover: HandoverView | None = None
    importing: bool = False
    cannot: tuple[str, ...] = ()
    """The capabilities that this session's agent does not have."""


class EventPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`events` are complete event lines (with seq and session); `next` is the position of the next page, if any."""

    session: SessionId
    log_id: str
    head: int
    events: tuple[msgspec.Raw, ...]
    next: int | None = None


class TranscriptPreview(msgspec.Struct, frozen=True, kw_only=True):
    """`events` have no seq: they are in no log, and the turns and calls that began before them are not known.
    `importing`: the log does not have all of the file yet."""

    session: SessionId
    events: tuple[msgspec.Raw, ...]
    importing: bool = False


class UsageView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    turns: int = 0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    sessions: int = 0
