"""Full-text search over the logs and over the transcripts that have no log yet."""

from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, SearchHit, SessionFilter, Summary
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.paging import all_sessions

T = TypeVar("T")

TOOLS = ("tool.called", "tool.ended")
_AT_A_TIME = 100


async def search(
    services: CoreDependencies, who: Identity, query: q.SearchText, unindexed: Collection[SessionId] | None
) -> q.SearchResult:
    """Hits best first, messages before tools; both sources in turn, since the ranks of two indexes cannot be compared.
    `unindexed`: sessions of which some text is not indexed; None: all that are only listed so far."""
    in_logs: Sequence[SearchHit] = ()
    if query.session is None or not await _only_listed(services, query.session):
        in_logs = await services.store.search(query.words, query.limit, query.session, who.seen_by)
    in_files = await _in_transcripts(services, who, query)
    messages = _in_turn([one for one in in_logs if not _of_tool(one)], [one for one in in_files if not _of_tool(one)])
    tools = _in_turn([one for one in in_logs if _of_tool(one)], [one for one in in_files if _of_tool(one)])
    hits = [*messages, *tools][: query.limit]
    found = dict.fromkeys(hit.session for hit in hits)
    summaries = [await services.store.summary(session) for session in found]
    return q.SearchResult(
        hits=tuple(hits),
        sessions=tuple(summary for summary in summaries if summary is not None),
        not_searched=await _not_searched(services, who, query.session, unindexed),
    )


async def _in_transcripts(services: CoreDependencies, who: Identity, query: q.SearchText) -> list[SearchHit]:
    texts, store = services.transcript_texts, services.store
    hits: list[SearchHit] = []
    if texts is None or not (await store.sessions(_any_transcript(1), who.seen_by)).sessions:
        return hits
    summaries: dict[SessionId, Summary | None] = {}
    skip = 0
    while len(hits) < query.limit:
        page = await texts.search(query.words, _AT_A_TIME, skip, query.session)
        for hit in page:
            if hit.session not in summaries:
                summaries[hit.session] = await _visible(services, who, hit.session)
            summary = summaries[hit.session]
            if summary is not None:
                hits.append(SearchHit(hit.session, 0, hit.at, hit.kind, hit.snippet, summary.title))
        if len(page) < _AT_A_TIME:
            break
        skip += _AT_A_TIME
    return hits[: query.limit]


async def _visible(services: CoreDependencies, who: Identity, session: SessionId) -> Summary | None:
    """The summary of a transcript that has no log yet (else the log is searched) and that `who` may see."""
    summary = await services.store.summary(session)
    if summary is None or summary.deleted or summary.state != TRANSCRIPT or not who.sees(summary.owner, summary.shared):
        return None
    return summary


async def _not_searched(
    services: CoreDependencies, who: Identity, within: SessionId | None, unindexed: Collection[SessionId] | None
) -> int:
    """How many sessions that `who` may see are not indexed yet."""
    if unindexed is not None and not unindexed:
        return 0
    if within is not None:
        return int(await _only_listed(services, within) and (unindexed is None or within in unindexed))
    listed = await all_sessions(services.store, _any_transcript(1000), who.seen_by)
    return sum(unindexed is None or summary.session in unindexed for summary in listed)


async def _only_listed(services: CoreDependencies, session: SessionId) -> bool:
    """Whether a session has no log yet."""
    summary = await services.store.summary(session)
    return summary is not None and summary.state == TRANSCRIPT


def _any_transcript(limit: int) -> SessionFilter:
    return SessionFilter(state=TRANSCRIPT, archived=None, limit=limit)


def _of_tool(hit: SearchHit) -> bool:
    return hit.kind in TOOLS


def _in_turn(one: Sequence[T], two: Sequence[T]) -> Iterator[T]:
    for pair in zip_longest(one, two):
        yield from (item for item in pair if item is not None)
