"""The search index of transcripts: texts and position together, removed without a trace, made again when damaged."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.model.errors import Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import FileMark, IndexedEvent
from fairlead.stores import transcript_texts
from fairlead.stores.transcript_texts import FILE, SqliteTranscriptTexts

ONE, TWO = SessionId("one"), SessionId("two")
MARK = FileMark("/f", 3, 5)


def text(words: str, at: int = 1) -> IndexedEvent:
    return IndexedEvent(at, "text", b'{"text":"%s"}' % words.encode())


def tool(words: str) -> IndexedEvent:
    return IndexedEvent(2, "tool.ended", b'{"content":"%s"}' % words.encode())


@pytest.fixture(params=[True, False], ids=["fts", "without fts"])
async def texts(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqliteTranscriptTexts]:
    monkeypatch.setattr(transcript_texts, "has_fts5", lambda: request.param)
    opened = await SqliteTranscriptTexts.open(tmp_path)
    yield opened
    await opened.close()


async def sessions(texts: SqliteTranscriptTexts, words: str) -> list[str]:
    return [hit.session for hit in await texts.search(words, 10)]


async def test_every_word_is_found_messages_before_tools(texts: SqliteTranscriptTexts) -> None:
    await texts.add(ONE, [tool("quagga quagga quagga"), text("one quagga here")], b"1")
    await texts.add(TWO, [text("a quagg"), text("quagga zebra")], b"2")
    found = await texts.search("quagga", 10)
    assert {hit.kind for hit in found[:2]} == {"text"}
    assert (found[-1].kind, found[-1].session) == ("tool.ended", ONE)
    assert await sessions(texts, "zebra quagg") == [TWO], "all words; the last one may be a beginning"
    assert "\x02" in found[0].snippet and "\x03" in found[0].snippet
    assert [hit.session for hit in await texts.search("quagga", 10, session=TWO)] == [TWO]
    assert len(await texts.search("quagga", 1)) == 1
    assert len(await texts.search("quagga", 10, skip=1)) == len(found) - 1
    assert await sessions(texts, "") == await sessions(texts, '" OR *') == []


async def test_the_position_and_the_mark_are_stored_with_the_texts(texts: SqliteTranscriptTexts) -> None:
    assert await texts.place(ONE) == b""
    await texts.add(ONE, [text("x")], b"here")
    assert (await texts.place(ONE), await texts.marks()) == (b"here", {ONE: None})
    await texts.add(ONE, [], b"end", MARK)
    assert (await texts.place(ONE), await texts.marks()) == (b"end", {ONE: MARK})


async def test_a_removed_session_leaves_nothing(texts: SqliteTranscriptTexts, tmp_path: Path) -> None:
    await texts.add(ONE, [text(f"quagga {number}") for number in range(2500)], b"1")
    await texts.add(TWO, [text("a zebra")], b"2")
    await texts.remove(ONE)
    await texts.remove(SessionId("unknown"))
    assert (await sessions(texts, "quagga"), await sessions(texts, "zebra")) == ([], [TWO])
    assert await texts.place(ONE) == b""
    db = sqlite3.connect(tmp_path / FILE)
    assert db.execute("select count(*) from texts").fetchone() == (1,)
    db.close()


async def test_long_texts_are_found_by_their_beginning(texts: SqliteTranscriptTexts) -> None:
    await texts.add(ONE, [tool("quagga " + "x " * 3000 + "zebra"), text("okapi " + "y " * 3000 + "tapir")], b"1")
    assert (await sessions(texts, "quagga"), await sessions(texts, "zebra")) == ([ONE], [])
    assert await sessions(texts, "okapi") == await sessions(texts, "tapir") == [ONE]


async def test_it_stays_and_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    texts = await SqliteTranscriptTexts.open(tmp_path)
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    await texts.add(ONE, [text("quagga")], b"1", MARK)
    grown = await texts.size()
    assert grown > 0
    await texts.close()
    await texts.close()
    with pytest.raises(Unavailable):
        await texts.add(ONE, [], b"2")
    texts = await SqliteTranscriptTexts.open(tmp_path)
    assert (await sessions(texts, "quagga"), await texts.marks()) == ([ONE], {ONE: MARK})
    await texts.close()
    (tmp_path / FILE).write_bytes(b"this is not a database, and longer than a header of one" * 100)
    texts = await SqliteTranscriptTexts.open(tmp_path)
    assert (await sessions(texts, "quagga"), await texts.marks()) == ([], {})
    await texts.close()
