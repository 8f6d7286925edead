"""Messages of agents: marked with their session, at most two sessions deep, never a decision for a person."""

import asyncio
from typing import Any, get_args

import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.content import MessageSource, TextBlock, plain_text
from fairlead.model.errors import BadRequest, FairleadError, NotAllowed, NotFound, TooDeep, TooMany
from fairlead.model.ids import MessageId, SessionId
from fairlead.sessions.session import MOST_STARTED
from fairlead.sessions.state import SessionState, evolve
from patience import PATIENCE
from sessions.harness import ANN, SESSION, CoreHarness

OUTSIDE = Identity("o", "owner", "owner (laptop]", frozenset({"view", "chat"}), agent=True)
SECOND, THIRD, FOURTH = (SessionId(f"{digit * 8}-2222-3333-4444-555555555555") for digit in "234")


def agent_of(session: SessionId, user: str = "owner") -> Identity:
    name = f"agent of session {session[:8]}"
    return Identity(f"session:{session}", user, name, frozenset({"view", "chat"}), agent=True, session=session)


def message(session: SessionId, text: str = "hello") -> cmd.Send:
    return cmd.Send(session=session, content=(TextBlock(text),))


async def opened(harness: CoreHarness, *sessions: SessionId) -> None:
    for session in sessions:
        await harness.open(session)


async def queued(harness: CoreHarness, session: SessionId) -> ev.MessageQueued:
    return [event for event in await harness.log(session) if isinstance(event, ev.MessageQueued)][-1]


async def test_the_log_the_sender_and_the_text_name_the_session_that_sent_it(harness: CoreHarness) -> None:
    await opened(harness, SESSION, SECOND)
    await harness.do(message(SECOND, "/clear please"), agent_of(SESSION))
    found = await queued(harness, SECOND)
    assert found.source == MessageSource(session=SESSION, depth=1) and found.by == "agent of session 11111111"
    line, text = plain_text(found.content).split("\n\n", 1)
    assert line.startswith(f"[From the agent of session {SESSION}, depth 1 of 2.") and line.endswith("]")
    assert text == "/clear please"
    agent = await harness.kind.launched()
    assert (await agent.prompted()).startswith(line)
    sent = [event for event in await harness.log(SECOND) if isinstance(event, ev.UserMessage)][-1]
    assert sent.by == "agent of session 11111111" and sent.content == found.content


async def test_an_agent_outside_is_unknown_and_says_so(harness: CoreHarness) -> None:
    await opened(harness, SESSION)
    harness.kind.launch_when.clear()
    await harness.do(message(SESSION), OUTSIDE)
    found = await queued(harness, SESSION)
    assert found.source == MessageSource() and found.by == "agent outside the gateway, owner (laptop]"
    line = plain_text(found.content).split("\n\n")[0]
    assert "whose session is unknown (credential: owner (laptop)" in line and line.count("]") == 1
    assert (await harness.gateway.ask(ANN, q.ReadQueue(SESSION)))[0].source == MessageSource()
    harness.kind.launch_when.set()


async def test_a_person_is_not_marked(harness: CoreHarness) -> None:
    await opened(harness, SESSION)
    await harness.send("hello")
    found = await queued(harness, SESSION)
    assert found.source is None and found.content == (TextBlock("hello"),) and found.by == "ann"


async def test_messages_go_two_sessions_deep_and_no_further(harness: CoreHarness) -> None:
    harness.limits = harness.limits.__class__(max_agents=8)
    await harness.stop()
    await harness.start()
    await opened(harness, SESSION, SECOND, THIRD, FOURTH)
    for number, (sender, target) in enumerate(((SESSION, SECOND), (SECOND, THIRD)), 1):
        await harness.do(message(target), agent_of(sender))
        assert (await queued(harness, target)).source == MessageSource(session=sender, depth=number)
        await (await harness.kind.launched(number)).prompted()
    assert [harness.state(session).depth for session in (SESSION, SECOND, THIRD)] == [0, 1, 2]
    for command in (message(FOURTH), message(SESSION), cmd.Create(session=SessionId("5" * 8 + FOURTH[8:]))):
        with pytest.raises(TooDeep, match="at most 2 sessions deep"):
            await harness.do(command, agent_of(THIRD))


async def test_a_session_that_an_agent_started_stays_as_deep_as_it_began(harness: CoreHarness) -> None:
    await opened(harness, SESSION)
    await harness.do(cmd.Create(session=SECOND, cwd=str(harness.cwd)), agent_of(SESSION))
    first = (await harness.log(SECOND))[0]
    assert isinstance(first, ev.SessionOpened) and first.owner == "owner" and first.by == "agent of session 11111111"
    assert first.source == MessageSource(session=SESSION, depth=1)
    await harness.send("from a person", SECOND)
    await (await harness.kind.launched()).prompted()
    assert harness.state(SECOND).depth == 1
    with pytest.raises(BadRequest):
        await harness.do(message(SESSION), agent_of(SESSION))


def event(number: int, kind: type[Any], **fields: Any) -> Any:
    return kind(id=f"e{number}", **fields)


def test_only_a_delivered_message_of_a_person_ends_the_depth_of_an_agents_message() -> None:
    def fold(*events: Any) -> SessionState:
        state = SessionState(session=SESSION)
        for seq, one in enumerate(events, 1):
            state = evolve(state, one, seq)
        return state

    def put(name: str, depth: int) -> Any:
        source = MessageSource(session=SECOND, depth=depth) if depth else None
        return event(1, ev.MessageQueued, message=MessageId(name), content=(TextBlock(name),), source=source)

    def take(name: str) -> Any:
        return event(2, ev.MessageDequeued, message=MessageId(name))

    assert fold(put("a", 2)).depth == 0
    assert fold(put("a", 2), take("a")).depth == 2
    assert fold(put("a", 2), take("a"), put("b", 0)).depth == 2
    assert fold(put("a", 2), take("a"), put("b", 0), take("b")).depth == 0
    assert fold(put("a", 2), take("a"), event(3, ev.SessionForked, parent=SECOND, seq=1)).depth == 2


async def test_a_fork_of_a_deep_session_is_as_deep(harness: CoreHarness) -> None:
    await opened(harness, SESSION)
    await harness.do(cmd.Create(session=SECOND, cwd=str(harness.cwd)), agent_of(SESSION))
    await harness.do(cmd.Fork(session=SECOND, child=THIRD))
    assert harness.state(THIRD).depth == harness.state(THIRD).started_depth == 1
    await harness.crash()
    await harness.start()
    assert (await harness.registry.get(THIRD)).core.state.depth == 1


@pytest.mark.parametrize("kind", get_args(cmd.Command), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("who", [OUTSIDE, agent_of(SECOND)], ids=["outside", "session"])
async def test_an_agent_only_starts_and_sends(harness: CoreHarness, kind: type[Any], who: Identity) -> None:
    if kind in (cmd.Create, cmd.Send):
        return
    await opened(harness, SESSION, SECOND)
    given = {"request": "r", "behavior": "allow", "message": "m", "mode": "plan", "model": "x", "budget": 1}
    given |= {"settings": cmd.Settings(), "child": THIRD, "position": 0, "title": "t", "subtype": "x", "link": "stdio"}
    given |= {"variables": {"TEAM": "x"}, "content": (TextBlock("hello"),), "session": SESSION}
    given |= {"version": "2.1.325", "agent_session": SESSION}
    fields = {name: given[name] for name in kind.__struct_fields__ if name in given}
    before = await harness.kinds()
    # Even with the scopes of an admin.
    everything = Identity(who.credential, who.user, who.name, frozenset({"admin"}), agent=True, session=who.session)
    for caller in (who, everything):
        with pytest.raises(NotAllowed):
            await harness.do(kind(**fields), caller)
    assert await harness.kinds() == before


async def test_an_agent_sees_the_sessions_of_its_user_alone(harness: CoreHarness) -> None:
    await opened(harness, SESSION, SECOND)
    other = Identity("c", "carl", "carl", frozenset({"view", "chat"}))
    await harness.do(cmd.Create(session=THIRD, cwd=str(harness.cwd)), other)
    with pytest.raises(NotFound):
        await harness.gateway.ask(agent_of(SESSION), q.GetSession(THIRD))
    with pytest.raises(NotFound):
        await harness.do(message(THIRD), agent_of(SESSION))
    assert await harness.gateway.ask(agent_of(SESSION), q.GetSession(SECOND))


async def test_the_agent_of_a_shared_session_has_no_access_so_that_no_one_looks_through_it(
    harness: CoreHarness,
) -> None:
    await opened(harness, SESSION, SECOND)
    await harness.do(cmd.ShareSession(session=SESSION, everybody=True))
    for who in (agent_of(SESSION), agent_of(SECOND, "carl"), agent_of(FOURTH)):
        with pytest.raises(NotAllowed, match="no access to other sessions"):
            await harness.gateway.ask(who, q.GetSession(SECOND))
        with pytest.raises(FairleadError, match="no access"):
            await harness.do(message(SECOND), who)
    await harness.do(cmd.ShareSession(session=SESSION, everybody=True, remove=True))
    assert await harness.gateway.ask(agent_of(SESSION), q.GetSession(SECOND))


async def test_an_agent_starts_a_bounded_number_of_sessions(harness: CoreHarness) -> None:
    await opened(harness, SESSION)
    for number in range(MOST_STARTED):
        new = SessionId(f"{number:08x}-9999-3333-4444-555555555555")
        await harness.do(cmd.Create(session=new, cwd=str(harness.cwd)), agent_of(SESSION))
    with pytest.raises(TooMany):
        await harness.do(cmd.Create(session=THIRD, cwd=str(harness.cwd)), agent_of(SESSION))


async def test_waiting_for_a_turn_ends_with_the_turn_a_request_or_the_time(harness: CoreHarness) -> None:
    def waiting() -> "asyncio.Task[str]":
        return asyncio.ensure_future(harness.gateway.ask(ANN, q.WaitTurn(SESSION, 5)))

    agent = await harness.working()
    late = waiting()
    await asyncio.sleep(0)
    await harness.until(lambda: bool(harness.loaded().turn_waiters._waiting))
    await harness.clock.advance(5)
    assert await asyncio.wait_for(late, PATIENCE) == "working"
    asks = waiting()
    await agent.call("c1", command="ls")
    await agent.ask("r1", "c1", command="ls")
    assert await asyncio.wait_for(asks, PATIENCE) == "waiting"
    await harness.do(cmd.AnswerPermission(session=SESSION, request="r1", behavior="allow"))  # type: ignore[arg-type]
    ends = waiting()
    await agent.result_of("c1")
    await agent.result()
    assert await asyncio.wait_for(ends, PATIENCE) == "idle"
    assert await asyncio.wait_for(waiting(), PATIENCE) == "idle"
    assert not harness.loaded().turn_waiters._waiting
