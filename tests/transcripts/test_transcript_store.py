"""Stored transcripts: what is kept, for whom, and the limits."""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotAllowed, NotFound, Stale, TooLarge, TooMany, Unavailable
from fairlead.system.clock import SystemClock
from fairlead.transcripts import api
from fairlead.transcripts.database import TranscriptDatabase
from fairlead.transcripts.services import StoredTranscripts

MAIN = api.TranscriptKey("project", "session")
SUB = api.TranscriptKey("project", "session", "subagents/../agent 1")


def entries(*values: Any) -> tuple[msgspec.Raw, ...]:
    return tuple(msgspec.Raw(msgspec.json.encode(value)) for value in values)


@pytest.fixture
def database(tmp_path: Path) -> TranscriptDatabase:
    return TranscriptDatabase(tmp_path / "transcripts.db", user_bytes=1000, user_count=3)


def append(database: TranscriptDatabase, *values: Any, user: str = "ann", **fields: Any) -> api.TranscriptState:
    key = fields.pop("key", MAIN)
    return database.append(user, api.AppendEntries(key=key, entries=entries(*values), **fields), 5)


def loaded(database: TranscriptDatabase, key: api.TranscriptKey = MAIN, user: str = "ann", **page: int) -> list[Any]:
    return [msgspec.json.decode(raw) for raw in database.load(user, api.LoadEntries(key=key, **page)).entries]


def test_entries_keep_their_order_and_a_uuid_counts_once(database: TranscriptDatabase) -> None:
    append(database, {"uuid": "b", "n": 1}, {"n": 2})
    state = append(database, {"uuid": "b", "n": 3}, {"n": 2}, {"uuid": 7}, {"uuid": 7})
    assert loaded(database) == [{"uuid": "b", "n": 1}, {"n": 2}, {"n": 2}, {"uuid": 7}, {"uuid": 7}]
    assert (state.entries, state.revision, state.at) == (5, 2, 5)


def test_pages_follow_each_other(database: TranscriptDatabase) -> None:
    append(database, *({"n": n} for n in range(5)))
    page = database.load("ann", api.LoadEntries(key=MAIN, limit=3))
    assert page.next == 3
    assert loaded(database, after=page.next) == [{"n": 3}, {"n": 4}]
    assert database.load("ann", api.LoadEntries(key=MAIN, after=3)).next is None
    assert loaded(database, after=99) == []


def test_nothing_is_created_by_reading(database: TranscriptDatabase, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        loaded(database)
    assert database.list("ann", api.ListTranscripts(project="project")).transcripts == ()
    assert database.delete("ann", api.DeleteTranscripts(key=MAIN)).deleted == 0
    database.forget("ann")
    assert list(tmp_path.iterdir()) == []


def test_a_user_sees_only_their_own(database: TranscriptDatabase) -> None:
    append(database, {"n": 1})
    append(database, {"n": 2}, user="bob")
    assert loaded(database, user="bob") == [{"n": 2}]
    database.delete("bob", api.DeleteTranscripts(key=MAIN))
    assert loaded(database) == [{"n": 1}]
    database.forget("ann")
    with pytest.raises(NotFound):
        loaded(database)


def test_a_main_transcript_is_deleted_with_the_others_of_its_session(
    database: TranscriptDatabase, tmp_path: Path
) -> None:
    append(database, {"n": 1})
    append(database, {"n": 2}, key=SUB)
    assert [state.subpath for state in database.list("ann", api.ListTranscripts(project="project")).transcripts] == [""]
    whole = database.list("ann", api.ListTranscripts(project="project", session="session")).transcripts
    assert [state.subpath for state in whole] == ["", SUB.subpath]
    assert database.delete("ann", api.DeleteTranscripts(key=SUB)).deleted == 1
    append(database, {"n": 2}, key=SUB)
    assert database.delete("ann", api.DeleteTranscripts(key=MAIN)).deleted == 2
    database.close()
    with sqlite3.connect(tmp_path / "transcripts.db") as db:
        assert db.execute("select count(*) from entries").fetchone() == (0,), "no entry is left behind"


def test_a_summary_is_stored_with_the_revision_that_it_was_made_for(database: TranscriptDatabase) -> None:
    assert append(database, {"n": 1}, summary={"count": 1}, revision=0).revision == 1
    with pytest.raises(Stale):
        append(database, {"n": 2}, summary={"count": 1}, revision=0)
    state = append(database, {"n": 2})
    assert (state.summary, state.revision) == ({"count": 1}, 2), "and stays without a new one"
    assert loaded(database) == [{"n": 1}, {"n": 2}], "what was refused left no trace"


def test_limits(database: TranscriptDatabase) -> None:
    append(database, {"n": "x" * 900})
    with pytest.raises(TooMany):
        append(database, {"n": "x" * 200})
    assert len(loaded(database)) == 1
    append(database, {"n": "x" * 900}, user="bob")
    for number in (1, 2):
        append(database, key=api.TranscriptKey("project", f"session {number}"))
    with pytest.raises(TooMany):
        append(database, key=api.TranscriptKey("project", "one more"))
    with pytest.raises(BadRequest):
        append(database, *({} for _ in range(api.BATCH_ENTRIES + 1)))
    with pytest.raises(TooLarge):
        append(database, summary={"n": "x" * api.SUMMARY_BYTES})


@pytest.mark.parametrize("value", [1, "text", [1], None])
def test_an_entry_is_an_object(database: TranscriptDatabase, value: Any) -> None:
    with pytest.raises(BadRequest):
        append(database, {"n": 1}, value)
    with pytest.raises(NotFound):
        loaded(database)


@pytest.mark.parametrize("key", [("", "s"), ("p", ""), ("p" * 501, "s"), ("p", "s", "s" * 501)])
def test_bad_keys(key: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        api.TranscriptKey(*key)


async def test_the_service_needs_a_user_and_survives_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "transcripts.db").write_bytes(b"not a database" * 100)
    service = StoredTranscripts(TranscriptDatabase(tmp_path / "transcripts.db"), SystemClock())
    handle = service.handlers()[api.ListTranscripts]
    with pytest.raises(NotAllowed):
        await handle(Identity("c", "", "nameless", frozenset()), api.ListTranscripts(project="p"))
    with pytest.raises(Unavailable):
        await handle(Identity("c", "ann", "ann", frozenset()), api.ListTranscripts(project="p"))
    await service.stop()
