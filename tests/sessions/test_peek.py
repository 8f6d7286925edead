"""Queries that only read: answered without owning the log, so that another gateway may own it meanwhile."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.commands import AnswerPermission, SetMode
from fairlead.model.errors import NotFound, OwnedElsewhere
from fairlead.model.gateway import Cursor
from fairlead.model.ids import RequestId
from fairlead.sessions import loading
from sessions.harness import ANN, CHILD, SESSION, CoreHarness
from sessions.test_queries import finished, watch


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[CoreHarness]:
    made = await CoreHarness(tmp_path, node="home").start()
    yield made
    await made.stop()


@pytest.fixture
async def other(home: CoreHarness) -> AsyncIterator[CoreHarness]:
    """A second gateway on the same store."""
    made = await CoreHarness(home.folder, node="other").start()
    yield made
    await made.stop()


async def asked(core: CoreHarness) -> list[Any]:
    """The answers of one core to the queries about a session that only read."""
    wanted = (q.GetSession(SESSION), q.ReadQueue(SESSION), q.ListPermissions(SESSION), q.ListPermissions())
    return [await core.gateway.ask(ANN, query) for query in wanted]


async def test_a_session_of_another_gateway_is_read_in_every_phase(home: CoreHarness, other: CoreHarness) -> None:
    agent = await home.working("list the files")
    await home.send("and then count them")
    await home.do(SetMode(session=SESSION, mode="acceptEdits"))
    await agent.call("call-1", command="ls -la /")
    assert await asked(other) == await asked(home)
    await agent.ask("req-1", "call-1", command="ls -la /")
    answers = await asked(other)
    assert answers == await asked(home)
    assert len(answers[2]) == 1
    await home.do(AnswerPermission(session=SESSION, request=RequestId("req-1"), behavior="allow"))
    await agent.result_of("call-1")
    await agent.result()
    await home.until(lambda: home.state().turns == 2)
    assert await asked(other) == await asked(home)
    assert other.registry.loaded(SESSION) is None
    assert home.loaded().core.log.lease.epoch == 1, "nobody else claimed the log"


async def test_only_a_command_claims_the_log(home: CoreHarness, other: CoreHarness) -> None:
    await home.open()
    await other.gateway.ask(ANN, q.GetSession(SESSION))
    with pytest.raises(OwnedElsewhere):
        await other.send("hello")


async def test_a_query_about_a_stored_session_does_not_load_it(harness: CoreHarness) -> None:
    await finished(harness, 2)
    await harness.stop()
    await harness.start()
    view = await harness.gateway.ask(ANN, q.GetSession(SESSION))
    assert view.summary.turns == 2
    assert harness.registry.loaded(SESSION) is None
    await harness.registry.get(SESSION)
    assert await harness.gateway.ask(ANN, q.GetSession(SESSION)) == view


async def test_peek_continues_from_a_checkpoint_and_reads_all_pages(harness: CoreHarness) -> None:
    agent = await harness.working()
    await agent.text("first")
    await agent.result()
    await harness.send("again")
    await agent.prompted()
    for number in range(30):
        await agent.text(f"word {number}")
    assert (await loading.peek(harness.store, SESSION)).state == harness.state()


async def test_an_unknown_or_deleted_session_is_not_found(harness: CoreHarness) -> None:
    with pytest.raises(NotFound):
        await harness.registry.peek(CHILD)


async def test_who_leaves_a_session_that_is_not_loaded_has_read_it(home: CoreHarness, other: CoreHarness) -> None:
    read: list[tuple[str, int]] = []
    agent = await home.working()
    await agent.result()

    def note(session: str, who: frozenset[Identity] | tuple[Identity, ...], turns: int) -> None:
        read.extend((one.name, turns) for one in who)

    other.registry.services = msgspec.structs.replace(other.services, on_read=note)
    subscription, _ = await watch(other, Cursor(0))
    await other.until(lambda: subscription.live)
    subscription.close()
    await other.until(lambda: bool(read))
    assert read == [("ann", 1)]
