"""The tables of `fairlead.db` and their migrations. docs/reference/data-folder.md describes them.

Rule: a released step is never edited; a change is a new step at the end of `STEPS`. `pragma user_version` is the
number of steps applied to a file.
"""

import sqlite3
import uuid
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fairlead.model.errors import Damaged
from fairlead.stores.sqlite.connections import transaction
from fairlead.stores.sqlite.errors import damaged

APPLICATION_ID: Final = 0x4641524C
"""`FARL`: distinguishes our file from any other SQLite database that happens to have its name."""

FIRST: Final = """
create table meta (name text primary key, value text not null) without rowid;

create table logs (
    id integer primary key autoincrement,
    session text unique,
    erased text,
    log_id text not null,
    parent integer references logs (id),
    base integer not null default 0,
    forked_at integer not null default 0,
    node text not null default '',
    epoch integer not null default 0
);
create index logs_by_parent on logs (parent, base) where parent is not null;
create index logs_by_node on logs (node) where node <> '';
create index logs_erased on logs (id) where erased is not null;

create table nodes (node text primary key, until integer not null) without rowid;

create table entries (
    id integer primary key,
    log integer not null references logs (id),
    seq integer not null,
    prev integer not null,
    epoch integer not null,
    at integer not null,
    kind text not null,
    event text,
    origin text not null,
    raw text,
    event_file text,
    raw_file text
);
create unique index entries_by_seq on entries (log, seq);
create index entries_by_event_file on entries (event_file) where event_file is not null;
create index entries_by_raw_file on entries (raw_file) where raw_file is not null;

create table checkpoints (log integer not null, name text not null, seq integer not null, data blob not null,
    primary key (log, name));
create table replies (log integer not null, key text not null, reply text not null, primary key (log, key));

create table sessions (
    session text primary key,
    title text not null,
    cwd text not null,
    agent text not null,
    agent_session text not null,
    state text not null,
    model text not null,
    mode text not null,
    archived integer not null,
    deleted integer not null,
    created integer not null,
    updated integer not null,
    turns integer not null,
    pending integer not null,
    queued integer not null,
    cost_usd real not null,
    input_tokens integer not null,
    output_tokens integer not null,
    parent text,
    first_prompt text not null
);
create index sessions_by_updated on sessions (updated desc, session desc) where deleted = 0;

create table documents (space text not null, key text not null, value text not null, primary key (space, key))
    without rowid;
"""

SECOND: Final = """
alter table sessions add column branch text not null default '';
create index sessions_by_agent_session on sessions (agent_session) where agent_session <> '';
"""

THIRD: Final = """
create table folds (
    id integer primary key,
    log integer not null references logs (id),
    view text not null,
    seq integer not null default 0,
    head integer not null default 0,
    memory_seq integer not null default 0,
    memory_head integer not null default 0,
    memory blob
);
create unique index folds_by_log on folds (log, view);

create table derived (
    id integer primary key,
    fold integer not null references folds (id),
    ordinal integer not null,
    seq integer not null,
    at integer not null,
    key text not null,
    data text not null
);
create unique index derived_by_ordinal on derived (fold, ordinal);
create unique index derived_by_key on derived (fold, key) where key <> '';
"""

FOURTH: Final = """
create table shelf (
    place integer primary key autoincrement,
    kind text not null,
    id text not null,
    data text not null
);
create unique index shelf_by_id on shelf (kind, id);
create index shelf_by_place on shelf (kind, place);

create table feed (seq integer primary key autoincrement, at integer not null, told text not null);

insert into meta values ('feed_id', lower(hex(randomblob(8))));
"""

FIFTH: Final = """
alter table sessions add column owner text not null default '';
alter table sessions add column shared text not null default '';
update sessions set owner = 'owner', shared = '*';
insert into documents select 'notes', 'sessions-shared', count(*) from sessions where deleted = 0 having count(*) > 0;
"""

SIXTH: Final = """
alter table sessions add column node text not null default '';
alter table documents add column until integer;
alter table feed add column prev integer not null default 0;
update feed set prev = seq - 1;
create index documents_by_until on documents (until) where until is not null;

create table positions (stream text primary key, seq integer not null) without rowid;
create table chains (session text primary key, last integer not null, home text not null) without rowid;
"""

STEPS: Final[Sequence[str]] = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH)


def own_version() -> str:
    return version("fairlead")


def migrate(db: sqlite3.Connection, file: Path, steps: Sequence[str] = STEPS) -> None:
    """Migrate the file to the newest schema in one transaction: all steps apply or none."""
    found = _checked_version(db, file, len(steps))
    if found == 0:
        # Only possible while the file has no pages.
        db.execute("pragma auto_vacuum = incremental")
        db.execute(f"pragma application_id = {APPLICATION_ID}")
    with transaction(db):
        # Another process may have migrated the file while this one waited for the lock.
        found = _checked_version(db, file, len(steps))
        for step in steps[found:]:
            for statement in _statements(step):
                db.execute(statement)
        db.execute(f"pragma user_version = {len(steps)}")
        if found == 0:
            db.execute("insert into meta values ('store_id', ?), ('epoch', '0')", (uuid.uuid4().hex,))
        db.execute("insert or replace into meta values ('written_by', ?)", (own_version(),))


def schema_of(db: sqlite3.Connection, file: Path) -> int:
    """The schema of a file; 0 for a new one. Raises Damaged for a newer one."""
    return _checked_version(db, file, len(STEPS))


def _checked_version(db: sqlite3.Connection, file: Path, known: int) -> int:
    found = int(db.execute("pragma user_version").fetchone()[0])
    tables = int(db.execute("select count(*) from sqlite_master").fetchone()[0])
    if tables and db.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
        raise damaged(file, "it is a database of another program")
    if found > known:
        writer = _written_by(db)
        raise Damaged(
            f"{file} was written by Fairlead {writer} (schema {found}); this is Fairlead {own_version()}, which knows"
            f" schemas up to {known}. Install Fairlead {writer} or newer, or put back a backup from before the upgrade"
            " with: fairlead restore BACKUP",
            file=str(file),
            written_by=writer,
            schema=found,
            known=known,
        )
    return found


def _written_by(db: sqlite3.Connection) -> str:
    try:
        row = db.execute("select value from meta where name = 'written_by'").fetchone()
    except sqlite3.OperationalError:  # a schema so much newer that it has no such table
        row = None
    return str(row[0]) if row else "of a later version"


def _statements(script: str) -> list[str]:
    """Split a script into statements, since `executescript` would commit the surrounding transaction."""
    statements: list[str] = []
    waiting = ""
    for line in script.splitlines(keepends=True):
        waiting += line
        if sqlite3.complete_statement(waiting):
            statements.append(waiting)
            waiting = ""
    return statements
