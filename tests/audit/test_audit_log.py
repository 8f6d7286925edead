"""The audit log of a running gateway: order, failures of the disk, and bounds."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairlead.audit import facts
from fairlead.audit.api import ReadAudit
from fairlead.audit.facts import Fact
from fairlead.audit.files import FOLDER, verify
from fairlead.audit.gateway import audited
from fairlead.audit.log import FAILURES_PER_MINUTE, AuditLog
from fairlead.auth.api import credentials as auth
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound, Unavailable
from fairlead.model.web.requests import ServiceCall
from fairlead_testing.clock import ManualClock

ANN = Identity("c1", "ann", "ann (laptop)", frozenset({"admin"}))


async def opened(data: Path, clock: ManualClock | None = None, **options: Any) -> AuditLog:
    log = AuditLog(data, clock or ManualClock(), **{"file_bytes": 1 << 20, "sync": True, **options})
    await log.open()
    return log


async def read(log: AuditLog, **wanted: Any) -> list[tuple[int, str]]:
    page = await log.read(ANN, ReadAudit(**wanted))
    return [(entry.n, entry.action) for entry in page.entries]


async def test_entries_of_many_callers_are_chained_in_the_order_of_the_calls(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    numbers = await asyncio.gather(*(log.record(ANN, Fact(f"a{number}")) for number in range(200)))
    assert numbers == list(range(1, 201))
    await log.close()
    assert verify(tmp_path).problems == []


async def test_pages_go_back_to_the_first_entry_and_filters_choose(tmp_path: Path) -> None:
    log = await opened(tmp_path, file_bytes=4096)
    for number in range(40):
        await log.record(ANN, Fact("session.delete" if number % 10 == 0 else "prompt", session=f"s{number % 2}"))
    seen, before = [], None
    while True:
        page = await log.read(ANN, ReadAudit(before=before, limit=7))
        seen += [entry.n for entry in page.entries]
        if page.next is None:
            break
        before = page.next
    assert seen == list(range(40, 0, -1))
    assert await read(log, action="session.") == [(n, "session.delete") for n in (31, 21, 11, 1)]
    assert [n for n, _ in await read(log, session="s1", limit=3)] == [40, 38, 36]
    assert await read(log, user="bert") == []
    await log.close()


async def test_nothing_is_done_without_an_entry_but_stopping(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    await log.record(None, Fact("gateway.start"))
    shutil.rmtree(tmp_path / FOLDER)
    (tmp_path / FOLDER).touch()
    with pytest.raises(Unavailable, match="nothing was done"):
        await log.record(ANN, Fact("prompt"))
    assert await log.record(ANN, Fact("interrupt", stops=True)) == 0
    log.note(ANN, Fact("noted"))
    with pytest.raises(Unavailable):
        await log.record(ANN, Fact("prompt"))
    (tmp_path / FOLDER).unlink()
    assert await log.record(ANN, Fact("prompt")) == 3
    found = (await log.read(ANN, ReadAudit())).entries
    assert [(entry.action, entry.data) for entry in found] == [("prompt", {}), ("audit.lost", {"entries": 2})]
    await log.close()


async def test_failed_sign_ins_are_bounded_and_counted(tmp_path: Path) -> None:
    clock = ManualClock()
    log = await opened(tmp_path, clock)
    for _ in range(FAILURES_PER_MINUTE + 40):
        log.note_failed_sign_in({"code": "bad_credential"})
    await clock.advance(1.0)
    log.note_failed_sign_in({"code": "bad_credential"})
    await log.record(None, Fact("end"))
    entries = (await log.read(ANN, ReadAudit(limit=500))).entries
    assert len(entries) == FAILURES_PER_MINUTE + 2
    assert entries[1].data == {"code": "bad_credential", "unrecorded": 40}
    await log.close()


async def test_a_call_that_fails_has_a_second_entry(tmp_path: Path) -> None:
    log = await opened(tmp_path)

    async def fail(who: Identity, call: Any) -> Any:
        raise NotFound("user", call.name)

    with pytest.raises(NotFound):
        await audited({auth.RemoveUser: fail}, log)[auth.RemoveUser](ANN, auth.RemoveUser("bert"))
    await log.record(None, Fact("end"))
    _, failed, tried = (await log.read(ANN, ReadAudit())).entries
    assert (tried.action, tried.user, tried.credential, tried.data) == ("user.remove", "ann", "c1", {"name": "bert"})
    assert (failed.action, failed.of, failed.data) == ("failed", tried.n, {"code": "not_found"})
    await log.close()


async def test_the_call_of_another_package_is_recorded_by_its_name(tmp_path: Path) -> None:
    class PolishShoes(ServiceCall[None], frozen=True):
        session: str
        secret: str

    log = await opened(tmp_path)

    async def done(who: Identity, call: Any) -> None: ...

    await audited({PolishShoes: done}, log)[PolishShoes](ANN, PolishShoes("s1", "hush"))
    (entry,) = (await log.read(ANN, ReadAudit())).entries
    assert (entry.action, entry.session, entry.data) == ("call.PolishShoes", "s1", {})
    await log.close()


# --- the table


def all_calls() -> set[type[ServiceCall[Any]]]:
    from fairlead.server.discovery import discover, discover_services

    discover()
    discover_services()

    def below(kind: type[Any]) -> set[type[Any]]:
        return {kind, *(found for child in kind.__subclasses__() for found in below(child))}

    ours = {kind for kind in below(ServiceCall) if kind.__module__.startswith("fairlead.")}
    return ours - {ServiceCall}


ELSEWHERE = {"ItemCall", "ReadStatic", "ReadAsset", "RunHook", "AcceptPost"}
"""A base class; files of pages; and the traffic of agents, whose handlers are not wrapped."""


def test_it_is_decided_for_every_service_call_whether_it_is_recorded() -> None:
    undecided = {kind.__name__ for kind in all_calls() - facts.NOT_RECORDED - set(facts.CALLS)} - ELSEWHERE
    assert undecided == set(), "decide in src/fairlead/audit/facts.py"
    assert not facts.NOT_RECORDED & set(facts.CALLS)
    assert set(facts.CALLS) >= facts.STOPS | set(facts.RESULTS)


def test_no_entry_has_a_password_or_a_code() -> None:
    calls = (
        auth.AddUser("ann", "hush-hush"),
        auth.SetPassword("ann", "hush-hush"),
        auth.AcceptInvitation("hush-hush", "ann", "hush-hush"),
        auth.Login("hush-hush"),
    )
    for call in calls:
        assert "hush" not in str(facts.of_call(call))
