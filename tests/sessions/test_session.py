"""One session in the core: prompts, the queue, turns, settings, crashes."""

import asyncio
from typing import Any

import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.content import TextBlock
from fairlead.model.errors import (
    AgentMissing,
    BadMode,
    BadRequest,
    Busy,
    HistoryMissing,
    NotAllowed,
    NotFound,
    OutsideRoots,
    Stale,
    TooMany,
    Unavailable,
)
from fairlead.model.ids import MessageId, RequestId, SessionId
from fairlead.model.queries import GetSession
from sessions.harness import ANN, BOB, CHILD, SESSION, CoreHarness

MESSAGE = MessageId("aaaaaaaa-0000-0000-0000-000000000001")


async def test_a_prompt_becomes_a_turn_with_the_agents_answer(harness: CoreHarness) -> None:
    agent = await harness.working("hello")
    await agent.text("Hi there.")
    await agent.result()
    assert await harness.kinds() == [
        "session.opened",
        "message.queued",
        "agent.started",
        "message.dequeued",
        "turn.started",
        "user.message",
        "agent.ready",
        "text",
        "turn.ended",
    ]
    events = await harness.log()
    prompt = next(event for event in events if isinstance(event, ev.UserMessage))
    assert prompt.by == "ann"
    assert prompt.content == (TextBlock("hello"),)
    times = [event.at for event in events]
    assert times == sorted(set(times)), "times grow strictly"


async def test_every_record_keeps_its_bytes_with_its_first_event(harness: CoreHarness) -> None:
    agent = await harness.working()
    await agent.say({"type": "from_the_future", "uuid": "f-1", "z": 1, "a": [1, 2]})
    page = await harness.store.read(SESSION, 0, 100)
    kept = page.entries[-1]
    assert (kept.kind, kept.origin) == ("record", "agent")
    assert kept.raw == b'{"type":"from_the_future","uuid":"f-1","z":1,"a":[1,2]}'


async def test_messages_wait_in_the_queue_and_each_turn_takes_one(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.send("two")
    await harness.send("three")
    assert [item.content[0].text for item in harness.state().queue] == ["two", "three"]
    assert len(agent.written) == 1
    await agent.result()
    assert await agent.prompted() == "two"
    await agent.ready()
    await agent.result()
    assert await agent.prompted() == "three"
    await agent.ready()
    await agent.result()
    ends = [event for event in await harness.log() if isinstance(event, ev.TurnEnded)]
    assert [end.status for end in ends] == ["completed"] * 3
    assert len({end.turn for end in ends}) == 3


async def test_queued_messages_can_be_moved_and_cancelled(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    two = await harness.send("two")
    three = await harness.send("three")
    assert two.message and three.message
    await harness.do(cmd.MoveMessage(session=SESSION, message=three.message, position=0))
    await harness.do(cmd.CancelMessage(session=SESSION, message=two.message))
    await agent.result()
    assert await agent.prompted() == "three"
    with pytest.raises(NotFound):
        await harness.do(cmd.CancelMessage(session=SESSION, message=two.message))
    await harness.send("four")
    with pytest.raises(BadRequest):
        await harness.do(cmd.MoveMessage(session=SESSION, message=harness.state().queue[0].message, position=5))


async def test_the_queue_is_bounded(harness: CoreHarness) -> None:
    await harness.working("one")
    for number in range(100):
        await harness.send(str(number))
    with pytest.raises(TooMany):
        await harness.send("one too many")


async def test_a_clients_own_name_of_its_request_is_kept_and_bounded(harness: CoreHarness) -> None:
    await harness.working("one")
    await harness.send("two", reference="mine")
    await harness.do(cmd.Interrupt(session=SESSION, reference="stop"))
    kept = [event for event in await harness.log() if isinstance(event, ev.MessageQueued | ev.InterruptRequested)]
    assert [event.reference for event in kept] == ["", "mine", "stop"]
    with pytest.raises(BadRequest):
        await harness.send("three", reference="x" * 1001)
    with pytest.raises(BadRequest):
        await harness.do(cmd.Interrupt(session=SESSION, reference="x" * 1001))


async def test_the_queue_is_bounded_in_bytes(harness: CoreHarness) -> None:
    await harness.working("one")
    await harness.send("x" * (3 << 20))
    with pytest.raises(TooMany):
        await harness.send("x" * (3 << 20))


async def test_a_repeated_message_id_is_answered_from_the_log(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    first = await harness.send("two", message=MESSAGE)
    again = await harness.send("two", message=MESSAGE)
    assert (again.seq, again.message, again.repeated) == (first.seq, MESSAGE, True)
    await agent.result()
    assert await agent.prompted() == "two"
    late = await harness.send("two", message=MESSAGE)
    assert late.repeated
    assert [event.message for event in await harness.log() if isinstance(event, ev.MessageQueued)].count(MESSAGE) == 1


@pytest.mark.parametrize(
    "command",
    [
        cmd.Rename(session=SESSION, title="A title", key="k"),
        cmd.ArchiveSession(session=SESSION, key="k"),
        cmd.SetModel(session=SESSION, model="opus", key="k"),
        cmd.Send(session=SESSION, content=(TextBlock("x"),), key="k"),
    ],
    ids=lambda command: type(command).__name__,
)
async def test_a_repeated_key_does_nothing_again(harness: CoreHarness, command: cmd.Command) -> None:
    await harness.open()
    first = await harness.do(command)
    head = len(await harness.log())
    again = await harness.do(command)
    assert (again.seq, again.repeated) == (first.seq, True)
    assert [kind for kind in (await harness.kinds())[head:] if kind in ("session.changed", "message.queued")] == []


async def test_a_repeated_create_gives_the_session_that_was_made(harness: CoreHarness) -> None:
    first = await harness.open(key="k")
    again = await harness.open(CHILD, key="k")
    assert (first.session, again.session, again.repeated) == (SESSION, SESSION, True)


async def test_a_repeated_create_is_answered_when_the_session_is_there(harness: CoreHarness) -> None:
    async def opened() -> bool:
        reply = await harness.open(key="k")
        await harness.gateway.ask(ANN, GetSession(reply.session))
        return reply.repeated

    assert sorted(await asyncio.gather(opened(), opened(), opened())) == [False, True, True]


async def test_a_session_id_is_used_once(harness: CoreHarness) -> None:
    await harness.open()
    with pytest.raises(Stale):
        await harness.open()


async def test_steering_goes_into_the_running_turn(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    reply = await harness.do(cmd.Steer(session=SESSION, content=(TextBlock("also this"),), message=MESSAGE))
    assert reply.message == MESSAGE
    steered = [event for event in await harness.log() if isinstance(event, ev.UserMessage)][-1]
    assert (steered.via, steered.by, steered.turn) == ("steer", "ann", harness.state().turn)
    assert len(agent.written) == 2
    again = await harness.do(cmd.Steer(session=SESSION, content=(TextBlock("also this"),), message=MESSAGE))
    assert again.repeated
    assert len(agent.written) == 2


async def test_steering_needs_a_running_turn(harness: CoreHarness) -> None:
    await harness.open()
    with pytest.raises(Busy):
        await harness.do(cmd.Steer(session=SESSION, content=(TextBlock("x"),)))
    with pytest.raises(BadRequest):
        await harness.do(cmd.Steer(session=SESSION, content=()))
    with pytest.raises(BadRequest):
        await harness.do(cmd.Send(session=SESSION, content=()))


async def test_an_interrupted_turn_is_cancelled(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.call("c1", command="sleep 9")
    await harness.do(cmd.Interrupt(session=SESSION))
    assert agent.requests == [("interrupt", None)]
    await agent.result(subtype="error_during_execution", is_error=True, errors=["[ede_diagnostic] x"])
    end = (await harness.log())[-1]
    assert isinstance(end, ev.TurnEnded)
    assert (end.status, end.errors, end.closed) == ("cancelled", (), ("c1",))
    assert "interrupt.asked" in await harness.kinds()


async def test_an_idle_interrupt_changes_nothing(harness: CoreHarness) -> None:
    await harness.open()
    reply = await harness.do(cmd.Interrupt(session=SESSION))
    assert reply.data == {"idle": True}
    assert await harness.kinds() == ["session.opened"]


async def test_a_crash_fails_the_turn_and_the_next_message_resumes(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.text("half")
    await agent.die(Exit(signal=9, stderr="last words"))
    events = await harness.log()
    assert isinstance(events[-2], ev.TurnEnded)
    assert events[-2].status == "failed"
    assert isinstance(events[-1], ev.AgentExited)
    assert (events[-1].signal, events[-1].expected, events[-1].stderr) == (9, False, "last words")
    await harness.send("two")
    second = await harness.kind.launched(2)
    assert second.launch.resume == SESSION
    assert await second.prompted() == "two"
    assert "session.resumed" in await harness.kinds()
    assert await harness.services.children() != []
    await second.die(Exit(code=1))
    assert await harness.services.children() == []


async def test_the_queue_continues_after_a_crash(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.send("two")
    await agent.die(Exit(code=1, stderr="oops"))
    second = await harness.kind.launched(2)
    assert await second.prompted() == "two"


async def test_an_agent_that_cannot_start_fails_the_message_with_its_reason(harness: CoreHarness) -> None:
    harness.kind.failures.append(AgentMissing("Claude Code is not installed."))
    await harness.open()
    await harness.send("one")
    await harness.until(lambda: harness.state().phase == "idle" and harness.state().turns == 1)
    events = await harness.log()
    failure = next(event for event in events if isinstance(event, ev.ErrorRaised))
    assert (failure.code, failure.message) == ("agent_missing", "Claude Code is not installed.")
    assert isinstance(events[-1], ev.TurnEnded)
    assert events[-1].status == "failed"
    await harness.send("two")
    agent = await harness.kind.launched()
    assert await agent.prompted() == "two"


async def test_a_session_that_cannot_be_resumed_starts_over(harness: CoreHarness) -> None:
    await harness.open(resume="77777777-2222-3333-4444-555555555555")
    harness.kind.failures.append(HistoryMissing("There is no such conversation."))
    await harness.send("one")
    agent = await harness.kind.launched()
    assert agent.launch.resume == ""
    assert await agent.prompted() == "one"


async def test_settings_before_the_first_message_are_part_of_the_launch(harness: CoreHarness) -> None:
    await harness.open(settings=cmd.Settings(model="haiku", mode="plan"))
    await harness.do(cmd.SetThinking(session=SESSION, budget=1000))
    await harness.send("one")
    agent = await harness.kind.launched()
    assert agent.launch.settings == cmd.Settings(model="haiku", mode="plan", thinking=1000)


async def test_new_settings_are_sent_to_a_running_agent_and_logged_with_their_user(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.do(cmd.SetMode(session=SESSION, mode="acceptEdits"), BOB)
    await harness.do(cmd.SetModel(session=SESSION, model="haiku"), BOB)
    await harness.do(cmd.SetThinking(session=SESSION, budget=None), BOB)
    assert agent.requests == [("mode", "acceptEdits"), ("model", "haiku"), ("thinking", None)]
    changed = [event for event in await harness.log() if isinstance(event, ev.ModeChanged)]
    assert [(event.mode, event.by) for event in changed] == [("acceptEdits", "bob")]


async def test_a_mode_that_the_agent_reports_is_logged_once_with_its_user(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.working("one")
    set_mode = agent.set_mode

    async def reporting(mode: str) -> None:
        await agent.say({"type": "system", "subtype": "status", "status": None, "permissionMode": mode, "uuid": "s-1"})
        await set_mode(mode)

    monkeypatch.setattr(agent, "set_mode", reporting)
    await harness.do(cmd.SetMode(session=SESSION, mode="plan"), BOB)
    changed = [event for event in await harness.log() if isinstance(event, ev.ModeChanged)]
    assert [(event.mode, event.by) for event in changed] == [("plan", "bob")]


async def test_a_mode_that_the_agent_reports_after_its_answer_is_not_logged_again(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.do(cmd.SetMode(session=SESSION, mode="plan"), BOB)
    status = {"type": "system", "subtype": "status", "status": None, "uuid": "s-1"}
    await agent.say(status | {"permissionMode": "plan"})
    changed = [event for event in await harness.log() if isinstance(event, ev.ModeChanged)]
    assert [(event.mode, event.by) for event in changed] == [("plan", "bob")]


@pytest.mark.rules("S004-169")
async def test_modes_are_checked_by_the_gateway(harness: CoreHarness) -> None:
    await harness.working("one")
    for mode in ("nonsense", "bypassPermissions", "delegate"):
        with pytest.raises(BadMode):
            await harness.do(cmd.SetMode(session=SESSION, mode=mode))
    await harness.open(CHILD)
    with pytest.raises(BadMode):
        await harness.do(cmd.SetMode(session=CHILD, mode="bypassPermissions"))


async def test_the_policy_does_not_follow_an_agent_into_bypass(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    status = {"type": "system", "subtype": "status", "status": None, "uuid": "s-1"}
    await agent.say(status | {"permissionMode": "bypassPermissions"})
    assert harness.state().settings.mode == "default"
    notice = (await harness.log())[-1]
    assert isinstance(notice, ev.Notice)
    assert notice.kind == "mode.ignored"


@pytest.mark.parametrize("model", ["--dangerous", "a b", "x\n--flag", "m" * 201, "$(touch x)"])
async def test_a_value_that_could_be_an_option_is_refused(harness: CoreHarness, model: str) -> None:
    await harness.open()
    with pytest.raises(BadRequest):
        await harness.do(cmd.SetModel(session=SESSION, model=model))
    with pytest.raises(BadRequest):
        await harness.open(CHILD, settings=cmd.Settings(model=model))


@pytest.mark.parametrize(
    "settings", [cmd.Settings(max_turns=0), cmd.Settings(max_budget_usd=-1.0), cmd.Settings(effort="-x")]
)
async def test_settings_out_of_bounds_are_refused(harness: CoreHarness, settings: cmd.Settings) -> None:
    with pytest.raises(BadRequest):
        await harness.open(settings=settings)


async def test_a_thinking_budget_has_bounds(harness: CoreHarness) -> None:
    await harness.open()
    with pytest.raises(BadRequest):
        await harness.do(cmd.SetThinking(session=SESSION, budget=-1))


async def test_settings_that_need_a_restart_take_effect_before_the_next_turn(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    extra = str(harness.cwd)
    await harness.do(cmd.Configure(session=SESSION, settings=cmd.Settings(directories=(extra,))))
    assert not agent.gone
    await agent.result()
    await harness.send("two")
    second = await harness.kind.launched(2)
    assert second.launch.settings.directories == (extra,)
    assert second.launch.resume == SESSION
    exited = next(event for event in await harness.log() if isinstance(event, ev.AgentExited))
    assert (exited.reason, exited.expected) == ("restarted for new settings", True)


async def test_a_folder_outside_the_roots_is_refused(harness: CoreHarness) -> None:
    for folder in ("/etc", "/", f"{harness.folder}/../..", "relative", "/x\0y"):
        with pytest.raises((OutsideRoots, BadRequest)):
            await harness.do(cmd.Create(session=SESSION, cwd=folder))
    with pytest.raises(NotFound):
        await harness.do(cmd.Create(session=SESSION, cwd=f"{harness.folder}/nowhere"))
    with pytest.raises(OutsideRoots):
        await harness.open(settings=cmd.Settings(directories=("/etc",)))


async def test_a_link_out_of_the_roots_is_refused(harness: CoreHarness) -> None:
    (harness.folder / "door").symlink_to("/etc")
    with pytest.raises(OutsideRoots):
        await harness.do(cmd.Create(session=SESSION, cwd=f"{harness.folder}/door"))


async def test_unknown_agents_and_servers_are_refused(harness: CoreHarness) -> None:
    with pytest.raises(NotFound):
        await harness.open(agent="nobody")
    with pytest.raises(NotFound):
        await harness.open(settings=cmd.Settings(mcp_servers=("shell",)))


async def test_a_title_is_printable_text_from_the_beginning(harness: CoreHarness) -> None:
    await harness.open(title="  a\x9b31m\u202e\x1b[2J\nb\x00 " + "x" * 300)
    assert harness.state().title == "a31m[2J b " + "x" * 190
    opened = next(event for event in await harness.log() if isinstance(event, ev.SessionOpened))
    assert opened.title == harness.state().title


async def test_a_title_is_printable_text(harness: CoreHarness) -> None:
    await harness.open()
    await harness.do(cmd.Rename(session=SESSION, title="a\x1b]52;c;x\x07b\n"))
    assert harness.state().title == "a]52;c;xb"
    for title in ("", "\n", "x" * 201):
        with pytest.raises(BadRequest):
            await harness.do(cmd.Rename(session=SESSION, title=title))


async def test_a_closed_session_has_no_process_and_can_continue(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.result()
    await harness.do(cmd.Close(session=SESSION))
    assert agent.gone
    assert harness.state().phase == "closed"
    await harness.send("two")
    second = await harness.kind.launched(2)
    assert await second.prompted() == "two"
    assert harness.state().phase == "working"


async def test_a_deleted_session_leaves_a_tombstone(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.result()
    await harness.do(cmd.Delete(session=SESSION, files=True))
    assert agent.gone
    assert harness.kind.forgotten == [SESSION]
    summary = await harness.store.summary(SESSION)
    assert summary is not None
    assert summary.deleted
    with pytest.raises(NotFound):
        await harness.send("two")
    with pytest.raises(Stale):
        await harness.open()


async def test_clients_may_not_send_the_gateways_own_control_requests(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    for subtype in ("initialize", "mcp_set_servers", "set_permission_mode", "hook_callback"):
        with pytest.raises(NotAllowed):
            await harness.do(cmd.Control(session=SESSION, subtype=subtype))
    agent.control_answer = {"mcpServers": []}
    reply = await harness.do(cmd.Control(session=SESSION, subtype="mcp_status"))
    assert reply.data == {"mcpServers": []}
    with pytest.raises(NotAllowed):
        await harness.do(cmd.Control(session=SESSION, subtype="mcp_status"), BOB)


async def test_a_rewind_is_logged_unless_it_was_a_dry_run(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.result()
    agent.control_answer = {"canRewind": True, "filesChanged": ["a"]}
    dry = await harness.do(cmd.Rewind(session=SESSION, message=MESSAGE, dry_run=True))
    assert dry.data == agent.control_answer
    assert "rewound" not in await harness.kinds()
    await harness.do(cmd.Rewind(session=SESSION, message=MESSAGE))
    assert agent.requests[-2:] == [("rewind", (MESSAGE, True)), ("rewind", (MESSAGE, False))]
    assert (await harness.kinds())[-1] == "rewound"


async def test_a_fork_shows_its_parents_history_and_resumes_it_under_a_new_id(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.text("first answer")
    await agent.result()
    await harness.do(cmd.Fork(session=SESSION, child=CHILD))
    past = await harness.kinds()
    assert await harness.kinds(CHILD) == [*past, "session.forked"]
    await harness.send("two", CHILD)
    second = await harness.kind.launched(2)
    assert (second.launch.resume, second.launch.fork, second.launch.session) == (SESSION, True, CHILD)
    assert await second.prompted() == "two"
    assert await harness.kinds() == past, "the parent is as it was"
    with pytest.raises(Stale):
        await harness.do(cmd.Fork(session=SESSION, child=CHILD))


async def test_a_fork_at_a_message_ends_with_its_turn(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.text("first answer")
    await agent.result()
    until = len(await harness.log())
    await harness.send("two")
    await agent.prompted()
    await agent.ready()
    prompts = [event.message for event in await harness.log() if isinstance(event, ev.UserMessage)]
    with pytest.raises(Busy):
        await harness.do(cmd.Fork(session=SESSION, child=CHILD))
    with pytest.raises(Busy):
        await harness.do(cmd.Fork(session=SESSION, child=CHILD, at=prompts[1]))
    with pytest.raises(NotFound):
        await harness.do(cmd.Fork(session=SESSION, child=CHILD, at=MESSAGE))
    await harness.do(cmd.Fork(session=SESSION, child=CHILD, at=prompts[0], title="Other way"))
    assert len(await harness.log(CHILD)) == until + 1
    answer = next(event for event in await harness.log() if isinstance(event, ev.Text))
    await harness.send("three", CHILD)
    second = await harness.kind.launched(2)
    assert second.launch.resume_at == answer.id.split("/")[0]


async def test_idle_processes_are_stopped_and_busy_ones_never(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    lived = []
    await harness.clock.advance(3600)
    lived.append(not agent.gone)
    await agent.result()
    await harness.registry.sweep()
    lived.append(not agent.gone)
    await harness.clock.advance(601)
    await harness.registry.sweep()
    lived.append(not agent.gone)
    assert lived == [True, True, False], "a turn was open; it was used just now; it has idled"
    # The gateway's own sweep may have come first and may still be running.
    await harness.until(lambda: harness.loaded().supervisor.agent is None)
    exited = (await harness.log())[-1]
    assert isinstance(exited, ev.AgentExited)
    assert (exited.reason, exited.expected) == ("idle", True)


async def test_a_process_with_a_person_at_its_terminal_is_not_stopped_when_idle(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await agent.result()
    agent.attended = True
    await harness.clock.advance(3600)
    await harness.registry.sweep()
    assert not agent.gone
    agent.attended = False
    await harness.registry.sweep()
    await harness.until(lambda: agent.gone)


async def test_the_least_recently_used_process_makes_room(harness: CoreHarness) -> None:
    sessions = [SessionId(f"0000000{n}-2222-3333-4444-555555555555") for n in range(3)]
    for number, session in enumerate(sessions[:2], 1):
        await harness.open(session)
        await harness.send("x", session)
        agent = await harness.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        await harness.clock.advance(1)
    await harness.open(sessions[2])
    await harness.send("x", sessions[2])
    await harness.until(lambda: harness.state(sessions[2]).turns == 1)
    assert isinstance((await harness.log(sessions[2]))[-1], ev.TurnEnded), "two are at work and two may run"
    for agent in harness.kind.agents:
        await agent.result()
    await harness.send("y", sessions[2])
    await harness.kind.launched(3)
    assert [agent.gone for agent in harness.kind.agents] == [True, False, False]


async def test_every_command_needs_its_scope(harness: CoreHarness) -> None:
    await harness.open()
    viewer = Identity("v", "v", "v", frozenset({"view"}))
    for command in (
        cmd.Send(session=SESSION, content=(TextBlock("x"),)),
        cmd.Interrupt(session=SESSION),
        cmd.Delete(session=SESSION),
        cmd.Create(session=CHILD),
        cmd.AnswerPermission(session=SESSION, request=RequestId("r"), behavior="allow"),
    ):
        with pytest.raises(NotAllowed):
            await harness.do(command, viewer)


async def test_an_unavailable_store_slows_the_agent_and_loses_nothing(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.working("one")
    append = harness.store.append
    refused = 2

    async def failing(*args: Any) -> int:
        nonlocal refused
        if refused:
            refused -= 1
            raise Unavailable("The disk is full.")
        return await append(*args)

    monkeypatch.setattr(harness.store, "append", failing)
    emitting = asyncio.create_task(agent.text("slow"))
    for _ in range(3):
        await harness.until(lambda: harness.clock.waiting >= 2 or emitting.done())
        await harness.clock.advance(1)
    await emitting
    assert [event.text for event in await harness.log() if isinstance(event, ev.Text)] == ["slow"]


async def test_callers_get_the_store_error_while_the_agents_records_wait_for_the_store(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.working("one")
    append = harness.store.append
    tried, full = asyncio.Event(), asyncio.Event()

    async def failing(*args: Any) -> int:
        tried.set()
        await full.wait()
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(harness.store, "append", failing)
    emitting = asyncio.create_task(agent.text("slow"))
    await tried.wait()
    early = asyncio.create_task(harness.send("while it is tried"))
    await asyncio.sleep(0)
    full.set()
    with pytest.raises(Unavailable, match="The disk is full"):
        await early
    with pytest.raises(Unavailable, match="The disk is full"):
        await harness.send("while it waits")
    monkeypatch.setattr(harness.store, "append", append)
    await harness.clock.advance(1)
    await emitting
    await harness.send("later")
    queued = [event for event in await harness.log() if isinstance(event, ev.MessageQueued)]
    assert len(queued) == 2


async def test_a_stopping_gateway_does_not_wait_for_the_store(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.working("one")

    async def failing(*args: Any) -> int:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(harness.store, "append", failing)
    waiting = harness.clock.waiting
    emitting = asyncio.create_task(agent.text("never stored"))
    await harness.until(lambda: harness.clock.waiting > waiting)
    stopping = asyncio.create_task(harness.registry.stop())
    await harness.until(lambda: agent.gone)
    await harness.clock.advance(1)
    await stopping
    with pytest.raises(Unavailable):
        await emitting


async def test_events_carry_the_name_of_their_user(harness: CoreHarness) -> None:
    await harness.open()
    await harness.do(cmd.Rename(session=SESSION, title="By Bob"), BOB)
    changed = (await harness.log())[-1]
    assert isinstance(changed, ev.SessionChanged)
    assert changed.by == "bob"
    assert ANN.name == "ann"
