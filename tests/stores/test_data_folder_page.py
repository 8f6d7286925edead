"""docs/reference/data-folder.md against the real files: every table and column is described, every query runs."""

import re
import sqlite3
from pathlib import Path

from msgspec import structs

from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.ids import EventId, MessageId
from fairlead.model.store import Batch, Summary
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.search import INDEXED
from fairlead_testing.store_conformance import batch, new_session

PAGE = (Path(__file__).parents[2] / "docs/reference/data-folder.md").read_text()


def described() -> dict[str, set[str]]:
    """Tables and their columns as the page describes them."""
    tables: dict[str, set[str]] = {}
    for section in PAGE.split("\n### ")[1:]:
        name, _, text = section.partition("\n")
        cells = re.findall(r"^\| (`[^|]+) \|", text.partition("\n## ")[0], re.MULTILINE)
        tables[name] = {column for cell in cells for column in re.findall(r"`(\w+)`", cell)}
    return tables


def found(file: Path) -> dict[str, set[str]]:
    db = sqlite3.connect(file)
    names = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
    tables = {name: {row[1] for row in db.execute(f"pragma table_info({name})")} for name in names}
    db.close()
    return {name: columns for name, columns in tables.items() if not name.startswith(("sqlite_", "said"))}


async def test_every_table_and_column_is_described(tmp_path: Path) -> None:
    await (await SqliteStore.open(tmp_path)).close()
    assert found(tmp_path / "fairlead.db") | found(tmp_path / "search.db") == described()


async def test_every_file_is_described(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, spill_above=1)
    lease, _, head = await store.claim(new_session())
    await store.append(lease, batch(1), head)
    names = {re.sub(r"-(wal|shm)$", "", path.name) for path in store.folder.iterdir()}
    await store.close()
    assert names == {"fairlead.db", "fairlead.lock", "search.db", "spill"}
    assert all(f"`{name}" in PAGE for name in names)


async def test_the_queries_of_the_page_run(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    session = new_session()
    lease, _, head = await store.claim(session)
    await store.append(lease, batch(1, 2, summary=Summary(session=session, title="T", updated=1)), head)
    said = ev.UserMessage(id=EventId("e"), message=MessageId("m"), content=(TextBlock("a question"),))
    asked = structs.replace(batch(3).entries[0], kind="user.message", event=ev.encode(said))
    await store.append(lease, Batch(entries=(asked,)), 2)
    (queries,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    listed, texts, sizes = [query for query in queries.split(";") if query.strip()]
    db = sqlite3.connect(tmp_path / "fairlead.db")
    assert db.execute(listed).fetchall() == [(session, "T", "idle", "1970-01-01 00:00:00")]
    assert db.execute(texts.replace("...", session)).fetchall() == [
        (1, "text", "entry 1"),
        (2, "text", "entry 2"),
        (3, "user.message", "a question"),
    ]
    assert db.execute(sizes).fetchall()[0][:2] in (("text", 2), ("user.message", 1))
    db.close()
    await store.close()


def test_the_page_lists_the_indexed_events() -> None:
    (searched,) = re.findall(r"Indexed are (.*?)\.\s+Thinking", PAGE, re.DOTALL)
    assert set(re.findall(r"`([\w.]+)`", searched)) == set(INDEXED)
