"""The search index: its content from the log, that it survives any damage, and that no input breaks it."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import events
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.errors import Unavailable
from fairlead.model.ids import CallId, EventId, MessageId, RequestId
from fairlead.model.store import Batch, Entry
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite import search as search_module
from fairlead.stores.sqlite.open import Opened, open_folder
from fairlead.stores.sqlite.search import INDEXED, text_of
from fairlead_testing.store_conformance import batch, entry, new_session, refusal
from patience import PATIENCE


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


ID = EventId("r/0/x")
MESSAGE = MessageId("m")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            events.UserMessage(id=ID, message=MESSAGE, content=(TextBlock("one"), ImageBlock({}), TextBlock("two"))),
            "one\ntwo",
        ),
        (events.Text(id=ID, message=MESSAGE, block=0, text="the answer"), "the answer"),
        (events.PlanProposed(id=ID, request=RequestId("q"), call=CallId("c"), plan="first this"), "first this"),
        (events.SessionOpened(id=ID, cwd="/c", agent="claude", title="opened"), "opened"),
        (events.SessionChanged(id=ID, title="renamed"), "renamed"),
        (events.SessionChanged(id=ID, archived=True), ""),
    ],
)
def test_text_of_each_indexed_event(event: events.Event, words: str) -> None:
    assert events.kind_of(event) in INDEXED
    assert text_of(events.encode(event)) == words


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"text":7}', b'{"content":[{"type":"text","text":7}]}'])
def test_an_unreadable_event_has_no_text(data: bytes) -> None:
    assert text_of(data) == ""


async def test_thinking_and_the_queue_are_left_out(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    kinds = ("thinking", "message.queued", "turn.ended", "text.delta", "record")
    entries = tuple(entry(n, "zebra", kind=kind) for n, kind in enumerate(kinds, 1))
    await store.append(lease, Batch(entries=entries), head)
    await store.wait_indexed()
    assert await store.search("zebra") == ()


async def test_tool_texts_rank_below_messages(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    called = events.ToolCalled(
        id=ID, call=CallId("c"), name="Bash", input={"command": "zebra", "deep": [{"x": "okapi"}]}, message=MESSAGE
    )
    ended = events.ToolEnded(id=ID, call=CallId("c"), content=[{"type": "text", "text": "zebra zebra"}])
    text = events.Text(id=ID, message=MESSAGE, block=0, text="one zebra among many other words")
    logged: tuple[events.Event, ...] = (called, ended, text)
    entries = tuple(Entry(n, 0, n, events.kind_of(event), events.encode(event)) for n, event in enumerate(logged, 1))
    await store.append(lease, Batch(entries=entries), head)
    await store.wait_indexed()
    assert (await store.search("zebra"))[0].kind == "text"
    assert {hit.kind for hit in await store.search("zebra")} == {"text", "tool.called", "tool.ended"}
    assert [hit.kind for hit in await store.search("okapi")] == ["tool.called"]


async def test_the_last_word_may_be_a_prefix(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, Batch(entries=(entry(1, "renaming the Größe"),)), head)
    await store.wait_indexed()
    assert len(await store.search("the rena")) == 1
    assert len(await store.search("rena the")) == 0
    assert len(await store.search("grosse")) == 0
    assert len(await store.search("GRÖßE")) == 1


async def test_better_hits_come_first(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    entries = (
        entry(1, "a walrus among many other words that have nothing at all to do with it, for a long while"),
        entry(2, "walrus walrus"),
        entry(3, "nothing"),
    )
    await store.append(lease, Batch(entries=entries), head)
    await store.wait_indexed()
    assert [hit.seq for hit in await store.search("walrus")] == [2, 1]


async def test_the_index_updates_by_itself(store: SqliteStore) -> None:
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, Batch(entries=(entry(1, "unasked"),)), head)
    async with asyncio.timeout(PATIENCE):
        while not await store.search("unasked"):
            await asyncio.sleep(0.02)


async def test_the_index_continues_at_its_position_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(tmp_path)
    session = new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(*range(1, 31)), head)
    await store.wait_indexed()
    await store.close()
    taken: list[bytes] = []

    def counted(event: bytes) -> str:
        taken.append(event)
        return text_of(event)

    monkeypatch.setattr(search_module, "text_of", counted)
    monkeypatch.setattr(search_module, "_SLICE", 2)
    store = await SqliteStore.open(tmp_path)
    lease, _, _ = await store.claim(session)
    await store.append(lease, batch(31, 32, 33, 34, 35), head)
    await store.wait_indexed()
    assert len(taken) == 5
    assert len(await store.search("entry", limit=100)) == 35
    await store.close()


async def test_texts_of_entries_lost_in_a_power_cut_leave_the_index(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    session = new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1, 2), head)
    await store.append(lease, Batch(entries=(entry(3, "lost"),)), head)
    await store.wait_indexed()
    await store.close()
    db = sqlite3.connect(tmp_path / "fairlead.db")
    db.execute("delete from entries where seq = 3")
    db.commit()
    db.close()
    store = await SqliteStore.open(tmp_path)
    lease, _, head = await store.claim(session)
    await store.append(lease, Batch(entries=(entry(3, "found"),)), head)
    await store.wait_indexed()
    assert await store.search("lost") == ()
    assert [hit.seq for hit in await store.search("found")] == [3]
    await store.close()


def spoil(file: Path, how: str) -> None:
    if how == "gone":
        os.unlink(file)
    elif how == "garbage":
        file.write_bytes(b"garbage" * 1000)
    elif how == "empty":
        file.write_bytes(b"")
    else:
        db = sqlite3.connect(file)
        db.execute("delete from texts")
        db.execute(
            {
                "of another log": "update cursor set store_id = 'other'",
                "without FTS5": "pragma user_version = 2",
                "unfinished": "delete from cursor",
            }[how]
        )
        db.commit()
        db.close()


@pytest.mark.parametrize("how", ["gone", "garbage", "empty", "of another log", "without FTS5", "unfinished"])
async def test_an_unusable_index_is_rebuilt(tmp_path: Path, how: str) -> None:
    store = await SqliteStore.open(tmp_path)
    lease, _, head = await store.claim(new_session())
    await store.append(lease, batch(1, 2, 3), head)
    await store.wait_indexed()
    await store.close()
    spoil(tmp_path / "search.db", how)
    store = await SqliteStore.open(tmp_path)
    await store.wait_indexed()
    assert len(await store.search("entry")) == 3
    await store.close()


async def test_a_failed_index_write_is_reported_and_retried(store: SqliteStore) -> None:
    lease, _, head = await store.claim(new_session())
    other = sqlite3.connect(store.folder / "search.db", isolation_level=None)
    store._maintenance._index._db.execute("pragma busy_timeout = 0")
    other.execute("begin immediate")
    await store.append(lease, batch(1), head)
    assert "search.db" in (await refusal(Unavailable, store.wait_indexed())).message
    other.execute("rollback")
    other.close()
    await store.wait_indexed()
    assert len(await store.search("entry")) == 1


async def test_a_slice_is_indexed_completely_or_not_at_all(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lease, _, head = await store.claim(new_session())
    await store.append(lease, batch(1, 2, 3), head)

    def broken(event: bytes) -> str:
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr(search_module, "text_of", broken)
        with pytest.raises(RuntimeError, match="a mistake"):
            await store.wait_indexed()
    await store.wait_indexed()
    assert len(await store.search("entry")) == 3


async def test_dropped_entries_are_not_found(store: SqliteStore) -> None:
    lease, _, head = await store.claim(new_session())
    head = await store.append(lease, batch(1, 2), head)
    await store.wait_indexed()
    await store.append(lease, batch(drop=(1,)), head)
    assert [hit.seq for hit in await store.search("entry")] == [2]


async def test_a_limit_of_zero_finds_nothing(store: SqliteStore) -> None:
    assert await store.search("words", limit=0) == ()


def test_a_python_without_fts5_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("no such module: fts5")

    assert search_module.has_fts5()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda file: connect(file, factory=Lacking))
    assert not search_module.has_fts5()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The connections of a store without its threads, on a folder with one text entry."""
    opened = open_folder(tmp_path_factory.mktemp("said"), "process", 0, alone=False, prepare=print)
    opened.writer.execute("insert into logs (id, session, log_id) values (1, 's', 'l')")
    opened.writer.execute(
        "insert into entries (log, seq, prev, epoch, at, kind, event, origin)"
        """ values (1, 1, 0, 1, 0, 'text', '{"text":"NOT a OR b: the word"}', '')"""
    )
    opened.index.advance()
    yield opened
    opened.index.close()
    for db in (opened.writer, opened.maintenance, *opened.readers):
        db.close()


# Tokens with a meaning in FTS5's query language or in SQL, and plain words.
PIECES = st.sampled_from(
    ["NOT", "AND", "OR", "NEAR(", "a", "word", '"', "'", "*", "^", ":", "-", "+", "{", ")", ",", "%"]
)


@given(
    st.lists(PIECES | st.text(max_size=8)).map(" ".join) | st.lists(PIECES | st.text(max_size=4)).map("".join),
    st.booleans(),
)
def test_no_input_breaks_a_search(opened: Opened, words: str, fts: bool) -> None:
    for hit in search_module.search(opened.readers[0], words, 5, None, fts=fts):
        assert hit.snippet.count("\x02") == hit.snippet.count("\x03") > 0


def test_operators_are_searched_as_plain_words(opened: Opened) -> None:
    for words in ("NOT a", "a OR b", "the word", "b"):
        assert len(search_module.search(opened.readers[0], words, 5, None, fts=True)) == 1
    assert search_module.search(opened.readers[0], "NOT absent", 5, None, fts=True) == ()


async def test_an_entry_after_a_dropped_one_is_found(store: SqliteStore) -> None:
    """The newest entry of all logs is dropped after the index has passed it: the next one must not reuse its number."""
    first, other = [(await store.claim(new_session()))[0] for _ in range(2)]
    await store.append(first, batch(1, 2), 0)
    await store.append(other, batch(1), 0)
    await store.wait_indexed()
    await store.erase(other.session)
    await store.append(first, Batch(entries=(entry(3, "afterwards"),)), 2)
    await store.wait_indexed()
    assert [hit.seq for hit in await store.search("afterwards")] == [3]
