"""The part of the suite about lists of sessions, search in them, and documents."""

from typing import Any

from msgspec import structs

from fairlead.model.errors import Fenced, NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import (
    TRANSCRIPT,
    Batch,
    Checkpoint,
    Entry,
    ForkPoint,
    SessionFilter,
    Store,
    StoredReply,
    Summary,
)
from fairlead_testing.store_conformance.helping import Stores, batch, entry, new_session, read_all, refusal, seqs


class Listing:
    # --- lists

    async def test_sessions_are_listed_newest_first_and_paged(self, make_store: Stores) -> None:
        store = await make_store()
        made = [await _summarised(store, updated=1000 + n // 2, title=f"number {n}") for n in range(7)]
        expected = [s.session for s in sorted(made, key=lambda s: (s.updated, s.session), reverse=True)]
        found: list[SessionId] = []
        before = ""
        while True:
            page = await store.sessions(SessionFilter(limit=3, before=before))
            assert len(page.sessions) <= 3
            found += [summary.session for summary in page.sessions]
            before = page.next
            if not before:
                break
        assert sorted(found) == sorted(expected)
        assert [s.updated for s in made if s.session == found[0]] == [1003]
        stamps = {s.session: s.updated for s in made}
        assert [stamps[session] for session in found] == sorted(stamps.values(), reverse=True)

    async def test_sessions_are_filtered(self, make_store: Stores) -> None:
        store = await make_store()
        plain = await _summarised(store, title="Fix the Läufer", cwd="/a", state="idle")
        running = await _summarised(store, first_prompt="please fix\nthe 100% bug", cwd="/b", state="running")
        archived = await _summarised(store, title="old fix", cwd="/a", archived=True)

        async def listed(**wanted: Any) -> set[SessionId]:
            return {s.session for s in (await store.sessions(SessionFilter(**wanted))).sessions}

        assert await listed() == {plain.session, running.session}
        assert await listed(archived=None) == {plain.session, running.session, archived.session}
        assert await listed(archived=True) == {archived.session}
        assert await listed(cwd="/a") == {plain.session}
        assert await listed(state="running") == {running.session}
        assert await listed(words="FIX the") == {plain.session, running.session}
        assert await listed(words="läufer") == {plain.session}
        assert await listed(words="100%") == {running.session}
        assert await listed(words="1_0") == set()

    async def test_sessions_without_a_log_are_listed_and_taken_out_again(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        found = Summary(session=session, title="found", agent_session=session, state=TRANSCRIPT, updated=5)
        await store.list_found([found])
        await store.list_found([structs.replace(found, title="found again")])
        assert [summary.title for summary in (await store.sessions(SessionFilter())).sessions] == ["found again"]
        assert (await store.sessions(SessionFilter(transcripts=False))).sessions == ()
        await refusal(NotFound, store.read(session, 0, 10))
        assert await store.session_of(session) == session
        await store.list_found([], [session])
        assert (await store.sessions(SessionFilter())).sessions == ()
        assert (await store.summary(session), await store.session_of(session)) == (None, None)

    async def test_finding_a_session_changes_none_that_is_known_otherwise(self, make_store: Stores) -> None:
        store, agents_id = await make_store(), new_session()
        own = await _summarised(store, title="own", state="idle", agent_session=agents_id)
        gone = await _summarised(store, title="gone")
        await store.erase(gone.session)
        found = [
            Summary(session=session, title="found", agent_session=session, state=TRANSCRIPT)
            for session in (own.session, gone.session, agents_id)
        ]
        await store.list_found(found)
        assert [summary.title for summary in (await store.sessions(SessionFilter())).sessions] == ["own"]
        await store.list_found([], [own.session, gone.session])
        assert await store.summary(own.session) == own
        tombstone = await store.summary(gone.session)
        assert tombstone is not None
        assert tombstone.deleted
        assert await store.session_of(agents_id) == own.session
        assert await store.session_of(gone.session) is None

    async def test_a_summary_is_written_with_its_batch(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        full = Summary(
            session=session,
            title="t",
            cwd="/c",
            agent="claude",
            agent_session="as",
            state="running",
            model="m",
            mode="plan",
            archived=True,
            created=1,
            updated=2,
            turns=3,
            pending=4,
            queued=5,
            cost_usd=0.25,
            input_tokens=6,
            output_tokens=7,
            parent=new_session(),
            first_prompt="p",
            branch="main",
        )
        await store.append(lease, batch(1, summary=full), head)
        assert await store.summary(session) == structs.replace(full, node=(await store.home(session)))

    async def test_erasing_leaves_a_tombstone_and_frees_the_name(self, make_store: Stores) -> None:
        store = await make_store()
        summary = await _summarised(store, title="gone")
        session = summary.session
        lease, log_id, head = await store.claim(session)
        await store.append(
            lease, batch(head + 1, replies=(StoredReply("k", b"r"),), checkpoints=(Checkpoint("c", 1, b""),)), head
        )
        await store.erase(session)
        await store.erase(session)
        tombstone = await store.summary(session)
        assert tombstone is not None
        assert tombstone.deleted
        assert tombstone.title == "gone"
        assert (await store.sessions(SessionFilter(archived=None))).sessions == ()
        await refusal(NotFound, store.read(session, 0, 10))
        await refusal(Fenced, store.append(lease, batch(head + 2), head + 1))
        assert await store.find(session, "k") is None
        assert await store.checkpoint(session, "c") is None
        newer, other, head = await store.claim(session)
        assert (head, other != log_id, newer.epoch > lease.epoch) == (0, True, True)
        await refusal(Fenced, store.append(lease, batch(1), 0))
        await store.append(newer, batch(1), 0)
        assert seqs(await read_all(store, session)) == [1]

    # --- search

    async def test_messages_are_found(self, make_store: Stores) -> None:
        store = await make_store()
        summary = await _summarised(store, title="A title")
        lease, _, head = await store.claim(summary.session)
        prompt = b'{"type":"user.message","content":[{"type":"text","text":"Please rename the widget"}]}'
        answer = b'{"type":"text","text":"The widget is renamed now, \\"quoted\\"."}'
        await store.append(
            lease,
            Batch(
                entries=(
                    Entry(head + 1, 0, 10, "user.message", prompt),
                    Entry(head + 2, 0, 11, "text", answer),
                    Entry(head + 3, 0, 12, "text.delta", b'{"type":"text.delta","text":"widget"}'),
                )
            ),
            head,
        )
        other = await _summarised(store, title="Another")
        await store.wait_indexed()
        hits = await store.search("WIDGET")
        assert {(hit.session, hit.seq, hit.at, hit.kind, hit.title) for hit in hits} == {
            (summary.session, head + 1, 10, "user.message", "A title"),
            (summary.session, head + 2, 11, "text", "A title"),
        }
        assert all("\x02widget\x03" in hit.snippet for hit in hits)
        assert [hit.seq for hit in await store.search("rename widget please")] == [head + 1]
        assert len(await store.search("widget", limit=1)) == 1
        assert await store.search("widget", session=other.session) == ()
        assert len(await store.search("widget", session=summary.session)) == 2
        assert await store.search("absent") == ()
        assert await store.search("   ") == ()
        await store.erase(summary.session)
        assert await store.search("widget") == ()

    async def test_a_fork_is_searched_with_what_it_shows(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        await store.append(lease, Batch(entries=(entry(1, "shared walrus"), entry(2, "later walrus"))), head)
        await store.claim(fork, ForkPoint(parent, 1))
        await store.wait_indexed()
        assert [(hit.session, hit.seq) for hit in await store.search("walrus", session=fork)] == [(fork, 1)]
        await store.erase(parent)
        assert [(hit.session, hit.seq) for hit in await store.search("walrus")] == [(fork, 1)]

    async def test_no_words_break_the_search(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, Batch(entries=(entry(1, "plain words"),)), head)
        await store.wait_indexed()
        for words in ('"', "a OR", "NOT", "(", "*", "col:x", "a NEAR/2 b", "^x", "-", "\x00", "'; --", "\ud800", "%"):
            await store.search(words)


async def _summarised(store: Store, **fields: Any) -> Summary:
    """A new session with one entry and this summary."""
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1, summary=Summary(session=session, **fields)), head)
    summary = await store.summary(session)
    # The store itself sets the node.
    assert summary == Summary(session=session, **fields, node=summary.node if summary else "")
    return summary
