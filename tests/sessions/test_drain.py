"""A gateway that drains: which work it waits for, what happens to messages meanwhile, and how it is taken back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.content import TextBlock
from fairlead.model.errors import Busy
from fairlead.model.ids import RequestId
from fairlead.sessions.api.operation import DrainGateway, GatewayState, ReadGatewayState, StopGateway
from fairlead.sessions.process.operation import CHECK_S, GatewayOperation
from patience import PATIENCE
from sessions.harness import ANN, CHILD, SESSION, CoreHarness

TERMINALS = ("user/ann/one", "user/ann/two", "desk/bob/three", f"session/{SESSION}")
"""Three terminals of people, and one of an agent."""
Call = ReadGatewayState | DrainGateway | StopGateway


class Operated:
    """A core with its operation; `stopped` is set when the operation stops the server."""

    def __init__(self, harness: CoreHarness, *, detaches: bool = True) -> None:
        self.harness = harness
        self.stopped = asyncio.Event()
        self.operation = GatewayOperation(
            harness.registry, stop=self.stopped.set, terminals=lambda: TERMINALS, detaches=detaches
        )

    async def do(self, call: Call, who: Identity = ANN) -> GatewayState:
        state: GatewayState = await self.operation.handlers()[type(call)](who, call)
        return state

    async def stops(self) -> None:
        """Wait until the server is stopped; the checks meanwhile see the clock go on."""
        async with asyncio.timeout(PATIENCE):
            while not self.stopped.is_set():
                await self.harness.clock.advance(CHECK_S)

    async def goes_on(self) -> None:
        """Let the gateway check several times: it does not stop."""
        for _ in range(5):
            await self.harness.clock.advance(CHECK_S)
        assert not self.stopped.is_set()


@pytest.fixture
async def operated(tmp_path: Path) -> AsyncIterator[Operated]:
    harness = await CoreHarness(tmp_path).start()
    yield Operated(harness)
    await harness.stop()


async def test_an_idle_gateway_stops_at_once_and_ends_its_agents(operated: Operated) -> None:
    agent = await operated.harness.working()
    await agent.result()
    assert (await operated.do(ReadGatewayState())).on_stop == "detach"
    assert (await operated.do(DrainGateway())).state == "draining"
    await operated.stops()
    assert (await operated.do(ReadGatewayState())).state == "stopping"
    assert operated.operation.detaches is False


async def test_a_running_turn_is_waited_for(operated: Operated) -> None:
    agent = await operated.harness.working("refactor the parser")
    state = await operated.do(DrainGateway())
    (working,) = state.working
    started = next(event for event in await operated.harness.log() if isinstance(event, ev.TurnStarted))
    assert (working.session, working.title, working.since) == (SESSION, "refactor the parser", started.at)
    assert working.work == ("a running turn",)
    assert (state.agents, state.kept, state.terminals, state.on_stop) == (1, 0, 3, "detach")
    agent.kept = True
    assert (await operated.do(ReadGatewayState())).kept == 1
    await operated.goes_on()
    await agent.result()
    await operated.stops()


async def test_a_request_that_waits_for_an_answer_is_waited_for(operated: Operated) -> None:
    agent = await operated.harness.working()
    await agent.call("call-1", command="ls")
    await agent.ask("request-1", "call-1", command="ls")
    await operated.harness.until(lambda: bool(operated.harness.state().pending))
    (working,) = (await operated.do(DrainGateway())).working
    assert "a request that waits for an answer (Bash)" in working.work
    await operated.harness.do(cmd.AnswerPermission(session=SESSION, request=RequestId("request-1"), behavior="allow"))
    await operated.goes_on()
    await agent.result()
    await operated.stops()


async def test_background_work_is_waited_for(operated: Operated) -> None:
    agent = await operated.harness.working()
    task = {"task_id": "b1", "task_type": "local_bash", "description": "npm run build"}
    changed = {"type": "system", "subtype": "background_tasks_changed", "session_id": SESSION}
    await agent.say({**changed, "uuid": "u1", "tasks": [task]})
    await agent.result()
    (working,) = (await operated.do(DrainGateway())).working
    assert working.work == ("background work (npm run build)",)
    await operated.goes_on()
    await agent.say({**changed, "uuid": "u2", "tasks": []})
    await operated.stops()


async def test_an_agent_that_is_being_started_for_a_message_is_waited_for(operated: Operated) -> None:
    harness = operated.harness
    harness.kind.launch_when.clear()
    await harness.open()
    await harness.send("hello")
    await harness.until(lambda: harness.loaded().supervisor.is_dispatching)
    (working,) = (await operated.do(DrainGateway())).working
    assert working.work == ("a message that is being sent",)
    await operated.goes_on()
    harness.kind.launch_when.set()
    agent = await harness.kind.launched()
    await agent.prompted()
    await operated.goes_on()
    await agent.result()
    await operated.stops()


async def test_a_process_that_a_shim_lends_is_not_waited_for(operated: Operated) -> None:
    agent = await operated.harness.working()
    agent.lent = True
    state = await operated.do(DrainGateway())
    assert (state.working, state.agents) == ((), 0)
    await operated.stops()


async def test_a_message_is_queued_and_its_sender_learns_why(operated: Operated) -> None:
    harness = operated.harness
    agent = await harness.working()
    await operated.do(DrainGateway())
    reply = await harness.send("and then this", key="k1")
    assert reply.data == {"draining": True}
    assert (await harness.send("and then this", key="k1")).data == {"draining": True}
    (notice,) = [event for event in await harness.log() if isinstance(event, ev.Notice)]
    assert (notice.kind, notice.turn) == ("draining", harness.state().turn)
    assert "the message is queued" in notice.text
    await agent.result()
    await operated.stops()
    assert [item.message for item in harness.state().queue] == [reply.message]
    assert (await operated.do(ReadGatewayState())).queued == 1
    assert len(agent.written) == 1


async def test_a_message_that_must_not_wait_is_refused(operated: Operated) -> None:
    await operated.harness.open()
    await operated.do(DrainGateway())
    with pytest.raises(Busy, match="draining"):
        await operated.harness.send("now or never", wait=False)


async def test_queued_messages_are_sent_after_the_next_start(operated: Operated, tmp_path: Path) -> None:
    await operated.harness.open()
    await operated.do(DrainGateway())
    await operated.harness.send("for later")
    await operated.stops()
    await operated.harness.stop()
    harness = await CoreHarness(tmp_path).start()
    agent = await harness.kind.launched()
    assert await agent.prompted() == "for later"
    await agent.result()
    await harness.stop()
    await operated.harness.start()


async def test_a_drain_that_is_taken_back_sends_what_is_queued(operated: Operated) -> None:
    harness = operated.harness
    agent = await harness.working()
    await operated.do(DrainGateway())
    await harness.send("two")
    assert (await operated.do(DrainGateway(cancel=True))).state == "running"
    await agent.result()
    assert await agent.prompted() == "two"
    await agent.result()
    await operated.goes_on()
    # It can be drained again.
    await operated.do(DrainGateway())
    await operated.stops()


async def test_an_idle_session_continues_when_a_drain_is_taken_back(operated: Operated) -> None:
    harness = operated.harness
    agent = await harness.working()
    await harness.open(CHILD)
    await operated.do(DrainGateway())
    await harness.send("other", CHILD)
    await operated.do(DrainGateway(cancel=True))
    other = await harness.kind.launched(2)
    assert await other.prompted() == "other"
    await other.result()
    await agent.result()


async def test_a_hand_over_waits_for_the_end_of_the_drain(operated: Operated) -> None:
    harness = operated.harness
    agent = await harness.working()
    await harness.open(CHILD)
    await operated.do(DrainGateway())
    reply = await harness.do(cmd.StartHandover(session=CHILD, link="terminal", when="now"))
    assert reply.data == {"state": "waiting", "link": "terminal", "waits_for": ["the gateway, which is draining"]}
    await operated.do(DrainGateway(cancel=True))
    await harness.until(lambda: harness.loaded(CHILD).core.state.settings.link == "terminal")
    await agent.result()


async def test_a_second_drain_changes_nothing(operated: Operated) -> None:
    agent = await operated.harness.working()
    await operated.do(DrainGateway())
    assert (await operated.do(DrainGateway())).state == "draining"
    await operated.do(DrainGateway(cancel=True))
    await agent.result()
    await operated.goes_on()
    assert (await operated.do(DrainGateway(cancel=True))).state == "running"


@pytest.mark.parametrize("agents", [False, True])
async def test_stop_on_request_ends_the_agents_only_if_asked(operated: Operated, agents: bool) -> None:
    await operated.harness.working()
    state = await operated.do(StopGateway(agents))
    assert (state.state, len(state.working)) == ("running", 1)
    assert operated.stopped.is_set()
    assert operated.operation.detaches is not agents


async def test_a_gateway_without_a_keeper_reports_that_it_ends_its_agents(operated: Operated) -> None:
    other = Operated(operated.harness, detaches=False)
    assert (await other.do(ReadGatewayState())).on_stop == "end"


async def test_a_steer_goes_into_the_running_turn(operated: Operated) -> None:
    agent = await operated.harness.working()
    await operated.do(DrainGateway())
    await operated.harness.do(cmd.Steer(session=SESSION, content=(TextBlock("hurry"),)))
    await operated.harness.until(lambda: len(agent.written) == 2)
    await agent.result()
    await operated.stops()


@pytest.mark.parametrize("detaches", [False, True])
async def test_agents_at_the_keeper_are_left_to_the_next_gateway(tmp_path: Path, detaches: bool) -> None:
    operated = Operated(await CoreHarness(tmp_path).start(), detaches=detaches)
    agent = await operated.harness.working()
    agent.kept = True
    await operated.operation.stop_agents()
    assert operated.operation.left == ((1, 3) if detaches else (0, 0))
    assert agent.released is detaches
    await operated.harness.store.close()
