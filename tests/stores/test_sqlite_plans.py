"""Work per call must not grow with the log: SQLite itself reports its plan for each statement of the live path."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.model.ids import SessionId
from fairlead.model.store import (
    Batch,
    Checkpoint,
    ForkPoint,
    Lease,
    ReplaceRow,
    SessionFilter,
    StoredReply,
    Summary,
)
from fairlead.stores.sqlite import erase, owners, projections, read, sessions, usage_stats
from fairlead.stores.sqlite.append import Append, Appender
from fairlead.stores.sqlite.open import Opened, open_folder
from fairlead.stores.sqlite.spill import Spill
from fairlead_testing.derived_conformance import derived, row, rows_to
from fairlead_testing.store_conformance import batch, new_session


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    opened = open_folder(tmp_path, "process", 0, alone=False, prepare=print)
    yield opened
    opened.index.close()
    for db in (opened.writer, opened.maintenance, *opened.readers):
        db.close()


class Plans:
    """The plan of every statement that `db` runs."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.statements: list[str] = []

    def __enter__(self) -> "Plans":
        self.db.set_trace_callback(self.statements.append)
        return self

    def __exit__(self, *_: object) -> None:
        self.db.set_trace_callback(None)

    def steps(self) -> list[str]:
        found = []
        for statement in self.statements:
            if statement.lstrip().lower().startswith(("select", "insert", "update", "delete")):
                rows = self.db.execute(f"explain query plan {statement}").fetchall()
                found += [f"{row[3]}: {statement.strip()[:60]}" for row in rows]
        return found


def fill(db: sqlite3.Connection, spill: Spill) -> tuple[Lease, Lease, Lease]:
    """A log of some length, a fork of it, and a fork of the fork."""
    appender = Appender(db)
    appender.begin()
    lease, _, _ = owners.claim(db, new_session(), "a", 0, None)
    appender.append(Append(lease, batch(*range(1, 301)), 0))
    appender.flush()
    fork, _, _ = owners.claim(db, new_session(), "a", 0, ForkPoint(lease.session, 200))
    appender.append(Append(fork, batch(*range(201, 301)), 200))
    appender.flush()
    nested, _, _ = owners.claim(db, new_session(), "a", 0, ForkPoint(fork.session, 250))
    return lease, fork, nested


def everything(session: SessionId) -> Batch:
    return batch(
        *range(301, 400),
        drop=range(280, 390),
        summary=Summary(session=session),
        checkpoints=(Checkpoint("c", 1, b""),),
        replies=(StoredReply("k", b""),),
    )


def test_no_call_of_the_live_path_scans_a_table(opened: Opened, tmp_path: Path) -> None:
    db, spill = opened.writer, Spill(tmp_path / "spill", sync=False)
    lease, fork, nested = fill(db, spill)
    with Plans(db) as plans:
        appender = Appender(db)
        appender.begin()
        appender.append(Append(lease, everything(lease.session), 300))
        appender.append(Append(lease, everything(lease.session), 300))
        appender.flush()
        for session in (lease.session, fork.session, nested.session):
            read.page_forward(db, spill, session, 100, 10, 1 << 20)
            read.page_backward(db, spill, session, None, 10, ())
            read.page_backward(db, spill, session, 220, 10, ("text", "user.message"))
            sessions.get_summary(db, session)
        owners.claim(db, nested.session, "a", 0, None)
        owners.set_present(db, "a", 1)
        owners.release(db, nested)
        sessions.list_sessions(db, SessionFilter(archived=None))
        rows = [row(n, f"k{n}") for n in range(1, 101)]
        projections.Derive(fork.session, "v", derived(*rows, ReplaceRow("k7", b""), seq=5, head=100), 0)(db)
        projections.read_state(db, fork.session, "v")
        projections.read_page(db, fork.session, "v", 50, 10, 1 << 20)
        projections.read_page(db, fork.session, "v", read.NO_END, 10, 1 << 20, newest=True)
        projections.row_of(db, fork.session, "v", "k9")
        erase.remove_slice(db, 1)
        erase.hidden(db)
    steps = plans.steps()
    assert len(steps) > 40
    walks = [step for step in steps if step.startswith("SCAN") and "sessions_by_updated" not in step]
    # A constant list of values, or the list of erased logs by its own small index.
    assert [step for step in walks if "CONSTANT ROW" not in step and "logs_erased" not in step] == []
    assert [step for step in steps if "TEMP B-TREE" in step] == []


def test_the_number_of_steps_does_not_depend_on_the_length_of_the_log(opened: Opened, tmp_path: Path) -> None:
    """Counted in SQLite's own instructions, which do not depend on the machine's load."""
    db, spill = opened.writer, Spill(tmp_path / "spill", sync=False)
    appender = Appender(db)
    counted = 0

    def tick() -> int:
        nonlocal counted
        counted += 1
        return 0

    def cost(lease: Lease, head: int) -> int:
        nonlocal counted
        counted = 0
        db.set_progress_handler(tick, 1)
        appender.begin()
        appender.append(Append(lease, batch(head + 1, head + 2, drop=(head - 1,)), head))
        appender.flush()
        read.page_forward(db, spill, lease.session, head - 5, 5, 1 << 20)
        read.page_backward(db, spill, lease.session, None, 5, ())
        db.set_progress_handler(None, 0)
        return counted

    costs = []
    for length in (100, 10_000):
        lease, _, head = owners.claim(db, new_session(), "a", 0, None)
        for first in range(1, length + 1, 100):
            head = appender.append(Append(lease, batch(*range(first, first + 100)), head))
        appender.flush()
        cost(lease, head)
        costs.append(cost(lease, head + 2))
    assert costs[0] == costs[1]


def test_a_row_costs_the_same_in_a_long_projection(opened: Opened) -> None:
    db = opened.writer
    counted = 0

    def tick() -> int:
        nonlocal counted
        counted += 1
        return 0

    def cost(session: SessionId, head: int) -> int:
        nonlocal counted
        counted = 0
        db.set_progress_handler(tick, 1)
        more = derived(row(head + 1, f"k{head + 1}"), ReplaceRow(f"k{head}", b""), seq=(head + 1) * 10, head=head + 1)
        projections.Derive(session, "v", more, head * 10)(db)
        projections.read_page(db, session, "v", head - 5, 5, 1 << 20)
        projections.read_page(db, session, "v", read.NO_END, 5, 1 << 20, newest=True)
        projections.row_of(db, session, "v", f"k{head + 1}")
        db.set_progress_handler(None, 0)
        return counted

    costs = []
    for length in (100, 10_000):
        lease, _, _ = owners.claim(db, new_session(), "a", 0, None)
        for first in range(1, length + 1, 100):
            projections.Derive(lease.session, "v", rows_to(first + 99, first), (first - 1) * 10)(db)
        cost(lease.session, length)
        costs.append(cost(lease.session, length + 1))
    assert costs[0] == costs[1]


def test_usage_stats_read_only_the_requested_span(opened: Opened) -> None:
    db = opened.readers[0]
    with Plans(db) as plans:
        usage_stats.read(db, 1_700_000_000_000, 1_700_086_400_000, 60)
    looks = [step for step in plans.steps() if step.startswith(("SCAN", "SEARCH"))]
    assert len(looks) == 4
    # There are only a few limits, one for each window of the agent's account.
    assert all("slot>? AND slot<?" in step for step in looks if "limits" not in step), looks
