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
    AgentNotRunning,
    BadMode,
    BadRequest,
    Busy,
    NotAllowed,
    NotFound,
    OutsideRoots,
    Stale,
    TooMany,
    Unavailable,
)
from fairlead.model.ids import MessageId, RequestId, SessionId
from sessions.harness import ANN, BOB, CHILD, SESSION, CoreHarness

MESSAGE = MessageId("aaaaaaaa-0000-0000-0000-000000000001")


async def test_a_prompt_becomes_a_turn_with_the_agents_answer(rig: CoreHarness) -> None:
    agent = await rig.working("hello")
    await agent.text("Hi there.")
    await agent.result()
    assert await rig.kinds() == [
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
    events = await rig.log()
    prompt = next(event for event in events if isinstance(event, ev.UserMessage))
    assert prompt.by == "ann"
    assert prompt.content == (TextBlock("hello"),)
    times = [event.at for event in events]
    assert times == sorted(set(times)), "times grow strictly"


async def test_every_record_keeps_its_bytes_with_its_first_event(rig: CoreHarness) -> None:
    agent = await rig.working()
    await agent.say({"type": "from_the_future", "uuid": "f-1", "z": 1, "a": [1, 2]})
    page = await rig.store.read(SESSION, 0, 100)
    kept = page.entries[-1]
    assert (kept.kind, kept.origin) == ("record", "agent")
    assert kept.raw == b'{"type":"from_the_future","uuid":"f-1","z":1,"a":[1,2]}'


async def test_messages_wait_in_the_queue_and_each_turn_takes_one(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await rig.send("two")
    await rig.send("three")
    assert [item.content[0].text for item in rig.state().queue] == ["two", "three"]
    assert len(agent.written) == 1
    await agent.result()
    assert await agent.prompted() == "two"
    await agent.ready()
    await agent.result()
    assert await agent.prompted() == "three"
    await agent.ready()
    await agent.result()
    ends = [event for event in await rig.log() if isinstance(event, ev.TurnEnded)]
    assert [end.status for end in ends] == ["completed"] * 3
    assert len({end.turn for end in ends}) == 3


async def test_queued_messages_can_be_moved_and_cancelled(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    two = await rig.send("two")
    three = await rig.send("three")
    assert two.message and three.message
    await rig.do(cmd.MoveMessage(session=SESSION, message=three.message, position=0))
    await rig.do(cmd.CancelMessage(session=SESSION, message=two.message))
    await agent.result()
    assert await agent.prompted() == "three"
    with pytest.raises(NotFound):
        await rig.do(cmd.CancelMessage(session=SESSION, message=two.message))
    await rig.send("four")
    with pytest.raises(BadRequest):
        await rig.do(cmd.MoveMessage(session=SESSION, message=rig.state().queue[0].message, position=5))


async def test_the_queue_is_bounded(rig: CoreHarness) -> None:
    await rig.working("one")
    for number in range(100):
        await rig.send(str(number))
    with pytest.raises(TooMany):
        await rig.send("one too many")


async def test_the_queue_is_bounded_in_bytes(rig: CoreHarness) -> None:
    await rig.working("one")
    await rig.send("x" * (3 << 20))
    with pytest.raises(TooMany):
        await rig.send("x" * (3 << 20))


async def test_a_repeated_message_id_is_answered_from_the_log(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    first = await rig.send("two", message=MESSAGE)
    again = await rig.send("two", message=MESSAGE)
    assert (again.seq, again.message, again.repeated) == (first.seq, MESSAGE, True)
    await agent.result()
    assert await agent.prompted() == "two"
    late = await rig.send("two", message=MESSAGE)
    assert late.repeated
    assert [event.message for event in await rig.log() if isinstance(event, ev.MessageQueued)].count(MESSAGE) == 1


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
async def test_a_repeated_key_does_nothing_again(rig: CoreHarness, command: cmd.Command) -> None:
    await rig.open()
    first = await rig.do(command)
    head = len(await rig.log())
    again = await rig.do(command)
    assert (again.seq, again.repeated) == (first.seq, True)
    assert [kind for kind in (await rig.kinds())[head:] if kind in ("session.changed", "message.queued")] == []


async def test_a_repeated_create_gives_the_session_that_was_made(rig: CoreHarness) -> None:
    first = await rig.open(key="k")
    again = await rig.open(CHILD, key="k")
    assert (first.session, again.session, again.repeated) == (SESSION, SESSION, True)


async def test_a_session_id_is_used_once(rig: CoreHarness) -> None:
    await rig.open()
    with pytest.raises(Stale):
        await rig.open()


async def test_steering_goes_into_the_running_turn(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    reply = await rig.do(cmd.Steer(session=SESSION, content=(TextBlock("also this"),), message=MESSAGE))
    assert reply.message == MESSAGE
    steered = [event for event in await rig.log() if isinstance(event, ev.UserMessage)][-1]
    assert (steered.via, steered.by, steered.turn) == ("steer", "ann", rig.state().turn)
    assert len(agent.written) == 2
    again = await rig.do(cmd.Steer(session=SESSION, content=(TextBlock("also this"),), message=MESSAGE))
    assert again.repeated
    assert len(agent.written) == 2


async def test_steering_needs_a_running_turn(rig: CoreHarness) -> None:
    await rig.open()
    with pytest.raises(Busy):
        await rig.do(cmd.Steer(session=SESSION, content=(TextBlock("x"),)))
    with pytest.raises(BadRequest):
        await rig.do(cmd.Steer(session=SESSION, content=()))
    with pytest.raises(BadRequest):
        await rig.do(cmd.Send(session=SESSION, content=()))


async def test_an_interrupted_turn_is_cancelled(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.call("c1", command="sleep 9")
    await rig.do(cmd.Interrupt(session=SESSION))
    assert agent.told == [("interrupt", None)]
    await agent.result(subtype="error_during_execution", is_error=True, errors=["[ede_diagnostic] x"])
    end = (await rig.log())[-1]
    assert isinstance(end, ev.TurnEnded)
    assert (end.status, end.errors, end.closed) == ("cancelled", (), ("c1",))
    assert "interrupt.asked" in await rig.kinds()


async def test_an_idle_interrupt_changes_nothing(rig: CoreHarness) -> None:
    await rig.open()
    reply = await rig.do(cmd.Interrupt(session=SESSION))
    assert reply.data == {"idle": True}
    assert await rig.kinds() == ["session.opened"]


async def test_a_crash_fails_the_turn_and_the_next_message_resumes(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.text("half")
    await agent.die(Exit(signal=9, stderr="last words"))
    events = await rig.log()
    assert isinstance(events[-2], ev.TurnEnded)
    assert events[-2].status == "failed"
    assert isinstance(events[-1], ev.AgentExited)
    assert (events[-1].signal, events[-1].expected, events[-1].stderr) == (9, False, "last words")
    await rig.send("two")
    second = await rig.kind.launched(2)
    assert second.launch.resume == SESSION
    assert await second.prompted() == "two"
    assert "session.resumed" in await rig.kinds()
    assert await rig.services.children() != []
    await second.die(Exit(code=1))
    assert await rig.services.children() == []


async def test_the_queue_continues_after_a_crash(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await rig.send("two")
    await agent.die(Exit(code=1, stderr="oops"))
    second = await rig.kind.launched(2)
    assert await second.prompted() == "two"


async def test_an_agent_that_cannot_start_fails_the_message_with_its_reason(rig: CoreHarness) -> None:
    rig.kind.failures.append(AgentMissing("Claude Code is not installed."))
    await rig.open()
    await rig.send("one")
    await rig.until(lambda: rig.state().phase == "idle" and rig.state().turns == 1)
    events = await rig.log()
    failure = next(event for event in events if isinstance(event, ev.ErrorRaised))
    assert (failure.code, failure.message) == ("agent_missing", "Claude Code is not installed.")
    assert isinstance(events[-1], ev.TurnEnded)
    assert events[-1].status == "failed"
    await rig.send("two")
    agent = await rig.kind.launched()
    assert await agent.prompted() == "two"


async def test_a_session_that_cannot_be_resumed_starts_over(rig: CoreHarness) -> None:
    await rig.open(resume="77777777-2222-3333-4444-555555555555")
    rig.kind.failures.append(AgentNotRunning("No conversation found with session ID: 7"))
    await rig.send("one")
    agent = await rig.kind.launched()
    assert agent.launch.resume == ""
    assert await agent.prompted() == "one"


async def test_settings_before_the_first_message_are_part_of_the_launch(rig: CoreHarness) -> None:
    await rig.open(settings=cmd.Settings(model="haiku", mode="plan"))
    await rig.do(cmd.SetThinking(session=SESSION, budget=1000))
    await rig.send("one")
    agent = await rig.kind.launched()
    assert agent.launch.settings == cmd.Settings(model="haiku", mode="plan", thinking=1000)


async def test_new_settings_are_sent_to_a_running_agent_and_logged_with_their_user(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await rig.do(cmd.SetMode(session=SESSION, mode="acceptEdits"), BOB)
    await rig.do(cmd.SetModel(session=SESSION, model="haiku"), BOB)
    await rig.do(cmd.SetThinking(session=SESSION, budget=None), BOB)
    assert agent.told == [("mode", "acceptEdits"), ("model", "haiku"), ("thinking", None)]
    changed = [event for event in await rig.log() if isinstance(event, ev.ModeChanged)]
    assert [(event.mode, event.by) for event in changed] == [("acceptEdits", "bob")]


async def test_a_mode_that_the_agent_reports_is_logged_once_with_its_user(
    rig: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await rig.working("one")
    set_mode = agent.set_mode

    async def reporting(mode: str) -> None:
        await agent.say({"type": "system", "subtype": "status", "status": None, "permissionMode": mode, "uuid": "s-1"})
        await set_mode(mode)

    monkeypatch.setattr(agent, "set_mode", reporting)
    await rig.do(cmd.SetMode(session=SESSION, mode="plan"), BOB)
    changed = [event for event in await rig.log() if isinstance(event, ev.ModeChanged)]
    assert [(event.mode, event.by) for event in changed] == [("plan", "bob")]


async def test_a_mode_that_the_agent_reports_after_its_answer_is_not_logged_again(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await rig.do(cmd.SetMode(session=SESSION, mode="plan"), BOB)
    status = {"type": "system", "subtype": "status", "status": None, "uuid": "s-1"}
    await agent.say(status | {"permissionMode": "plan"})
    changed = [event for event in await rig.log() if isinstance(event, ev.ModeChanged)]
    assert [(event.mode, event.by) for event in changed] == [("plan", "bob")]


@pytest.mark.rules("S004-169")
async def test_modes_are_checked_by_the_gateway(rig: CoreHarness) -> None:
    await rig.working("one")
    for mode in ("nonsense", "bypassPermissions", "delegate"):
        with pytest.raises(BadMode):
            await rig.do(cmd.SetMode(session=SESSION, mode=mode))
    await rig.open(CHILD)
    with pytest.raises(BadMode):
        await rig.do(cmd.SetMode(session=CHILD, mode="bypassPermissions"))


async def test_the_policy_does_not_follow_an_agent_into_bypass(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    status = {"type": "system", "subtype": "status", "status": None, "uuid": "s-1"}
    await agent.say(status | {"permissionMode": "bypassPermissions"})
    assert rig.state().settings.mode == "default"
    notice = (await rig.log())[-1]
    assert isinstance(notice, ev.Notice)
    assert notice.kind == "mode.ignored"


@pytest.mark.parametrize("model", ["--dangerous", "a b", "x\n--flag", "m" * 201, "$(touch x)"])
async def test_a_value_that_could_be_an_option_is_refused(rig: CoreHarness, model: str) -> None:
    await rig.open()
    with pytest.raises(BadRequest):
        await rig.do(cmd.SetModel(session=SESSION, model=model))
    with pytest.raises(BadRequest):
        await rig.open(CHILD, settings=cmd.Settings(model=model))


@pytest.mark.parametrize(
    "settings", [cmd.Settings(max_turns=0), cmd.Settings(max_budget_usd=-1.0), cmd.Settings(effort="-x")]
)
async def test_settings_out_of_bounds_are_refused(rig: CoreHarness, settings: cmd.Settings) -> None:
    with pytest.raises(BadRequest):
        await rig.open(settings=settings)


async def test_a_thinking_budget_has_bounds(rig: CoreHarness) -> None:
    await rig.open()
    with pytest.raises(BadRequest):
        await rig.do(cmd.SetThinking(session=SESSION, budget=-1))


async def test_settings_that_need_a_restart_take_effect_before_the_next_turn(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    extra = str(rig.cwd)
    await rig.do(cmd.Configure(session=SESSION, settings=cmd.Settings(directories=(extra,))))
    assert not agent.gone
    await agent.result()
    await rig.send("two")
    second = await rig.kind.launched(2)
    assert second.launch.settings.directories == (extra,)
    assert second.launch.resume == SESSION
    exited = next(event for event in await rig.log() if isinstance(event, ev.AgentExited))
    assert (exited.reason, exited.expected) == ("restarted for new settings", True)


async def test_a_folder_outside_the_roots_is_refused(rig: CoreHarness) -> None:
    for folder in ("/etc", "/", f"{rig.folder}/../..", "relative", "/x\0y"):
        with pytest.raises((OutsideRoots, BadRequest)):
            await rig.do(cmd.Create(session=SESSION, cwd=folder))
    with pytest.raises(NotFound):
        await rig.do(cmd.Create(session=SESSION, cwd=f"{rig.folder}/nowhere"))
    with pytest.raises(OutsideRoots):
        await rig.open(settings=cmd.Settings(directories=("/etc",)))


async def test_a_link_out_of_the_roots_is_refused(rig: CoreHarness) -> None:
    (rig.folder / "door").symlink_to("/etc")
    with pytest.raises(OutsideRoots):
        await rig.do(cmd.Create(session=SESSION, cwd=f"{rig.folder}/door"))


async def test_unknown_agents_and_servers_are_refused(rig: CoreHarness) -> None:
    with pytest.raises(NotFound):
        await rig.open(agent="nobody")
    with pytest.raises(NotFound):
        await rig.open(settings=cmd.Settings(mcp_servers=("shell",)))


async def test_a_title_is_printable_text_from_the_beginning(rig: CoreHarness) -> None:
    await rig.open(title="  a\x9b31m\u202e\x1b[2J\nb\x00 " + "x" * 300)
    assert rig.state().title == "a31m[2J b " + "x" * 190
    opened = next(event for event in await rig.log() if isinstance(event, ev.SessionOpened))
    assert opened.title == rig.state().title


async def test_a_title_is_printable_text(rig: CoreHarness) -> None:
    await rig.open()
    await rig.do(cmd.Rename(session=SESSION, title="a\x1b]52;c;x\x07b\n"))
    assert rig.state().title == "a]52;c;xb"
    for title in ("", "\n", "x" * 201):
        with pytest.raises(BadRequest):
            await rig.do(cmd.Rename(session=SESSION, title=title))


async def test_a_closed_session_has_no_process_and_can_continue(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.result()
    await rig.do(cmd.Close(session=SESSION))
    assert agent.gone
    assert rig.state().phase == "closed"
    await rig.send("two")
    second = await rig.kind.launched(2)
    assert await second.prompted() == "two"
    assert rig.state().phase == "working"


async def test_a_deleted_session_leaves_a_tombstone(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.result()
    await rig.do(cmd.Delete(session=SESSION, files=True))
    assert agent.gone
    assert rig.kind.forgotten == [SESSION]
    summary = await rig.store.summary(SESSION)
    assert summary is not None
    assert summary.deleted
    with pytest.raises(NotFound):
        await rig.send("two")
    with pytest.raises(Stale):
        await rig.open()


async def test_clients_may_not_send_the_gateways_own_control_requests(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    for subtype in ("initialize", "mcp_set_servers", "set_permission_mode", "hook_callback"):
        with pytest.raises(NotAllowed):
            await rig.do(cmd.Control(session=SESSION, subtype=subtype))
    agent.control_answer = {"mcpServers": []}
    reply = await rig.do(cmd.Control(session=SESSION, subtype="mcp_status"))
    assert reply.data == {"mcpServers": []}
    with pytest.raises(NotAllowed):
        await rig.do(cmd.Control(session=SESSION, subtype="mcp_status"), BOB)


async def test_a_rewind_is_logged_unless_it_was_a_dry_run(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.result()
    agent.control_answer = {"canRewind": True, "filesChanged": ["a"]}
    dry = await rig.do(cmd.Rewind(session=SESSION, message=MESSAGE, dry_run=True))
    assert dry.data == agent.control_answer
    assert "rewound" not in await rig.kinds()
    await rig.do(cmd.Rewind(session=SESSION, message=MESSAGE))
    assert agent.controls[-1] == ("rewind_files", {"user_message_id": MESSAGE, "dry_run": False})
    assert (await rig.kinds())[-1] == "rewound"


async def test_a_fork_shows_its_parents_history_and_resumes_it_under_a_new_id(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.text("first answer")
    await agent.result()
    await rig.do(cmd.Fork(session=SESSION, child=CHILD))
    past = await rig.kinds()
    assert await rig.kinds(CHILD) == [*past, "session.forked"]
    await rig.send("two", CHILD)
    second = await rig.kind.launched(2)
    assert (second.launch.resume, second.launch.fork, second.launch.session) == (SESSION, True, CHILD)
    assert await second.prompted() == "two"
    assert await rig.kinds() == past, "the parent is as it was"
    with pytest.raises(Stale):
        await rig.do(cmd.Fork(session=SESSION, child=CHILD))


async def test_a_fork_at_a_message_ends_with_its_turn(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.text("first answer")
    await agent.result()
    until = len(await rig.log())
    await rig.send("two")
    await agent.prompted()
    await agent.ready()
    prompts = [event.message for event in await rig.log() if isinstance(event, ev.UserMessage)]
    with pytest.raises(Busy):
        await rig.do(cmd.Fork(session=SESSION, child=CHILD))
    with pytest.raises(Busy):
        await rig.do(cmd.Fork(session=SESSION, child=CHILD, at=prompts[1]))
    with pytest.raises(NotFound):
        await rig.do(cmd.Fork(session=SESSION, child=CHILD, at=MESSAGE))
    await rig.do(cmd.Fork(session=SESSION, child=CHILD, at=prompts[0], title="Other way"))
    assert len(await rig.log(CHILD)) == until + 1
    answer = next(event for event in await rig.log() if isinstance(event, ev.Text))
    await rig.send("three", CHILD)
    second = await rig.kind.launched(2)
    assert second.launch.resume_at == answer.id.split("/")[0]


async def test_idle_processes_are_stopped_and_busy_ones_never(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    lived = []
    await rig.clock.advance(3600)
    lived.append(not agent.gone)
    await agent.result()
    await rig.registry.sweep()
    lived.append(not agent.gone)
    await rig.clock.advance(601)
    await rig.registry.sweep()
    lived.append(not agent.gone)
    assert lived == [True, True, False], "a turn was open; it was used just now; it has idled"
    # The gateway's own sweep may have come first and may still be running.
    await rig.until(lambda: rig.loaded().supervisor.agent is None)
    exited = (await rig.log())[-1]
    assert isinstance(exited, ev.AgentExited)
    assert (exited.reason, exited.expected) == ("idle", True)


async def test_a_process_with_a_person_at_its_terminal_is_not_stopped_when_idle(rig: CoreHarness) -> None:
    agent = await rig.working("one")
    await agent.result()
    agent.attended = True
    await rig.clock.advance(3600)
    await rig.registry.sweep()
    assert not agent.gone
    agent.attended = False
    await rig.registry.sweep()
    await rig.until(lambda: agent.gone)


async def test_the_least_recently_used_process_makes_room(rig: CoreHarness) -> None:
    sessions = [SessionId(f"0000000{n}-2222-3333-4444-555555555555") for n in range(3)]
    for number, session in enumerate(sessions[:2], 1):
        await rig.open(session)
        await rig.send("x", session)
        agent = await rig.kind.launched(number)
        await agent.prompted()
        await agent.ready()
        await rig.clock.advance(1)
    await rig.open(sessions[2])
    await rig.send("x", sessions[2])
    await rig.until(lambda: rig.state(sessions[2]).turns == 1)
    assert isinstance((await rig.log(sessions[2]))[-1], ev.TurnEnded), "two are at work and two may run"
    for agent in rig.kind.agents:
        await agent.result()
    await rig.send("y", sessions[2])
    await rig.kind.launched(3)
    assert [agent.gone for agent in rig.kind.agents] == [True, False, False]


async def test_every_command_needs_its_scope(rig: CoreHarness) -> None:
    await rig.open()
    viewer = Identity("v", "v", "v", frozenset({"view"}))
    for command in (
        cmd.Send(session=SESSION, content=(TextBlock("x"),)),
        cmd.Interrupt(session=SESSION),
        cmd.Delete(session=SESSION),
        cmd.Create(session=CHILD),
        cmd.AnswerPermission(session=SESSION, request=RequestId("r"), behavior="allow"),
    ):
        with pytest.raises(NotAllowed):
            await rig.do(command, viewer)


async def test_an_unavailable_store_slows_the_agent_and_loses_nothing(
    rig: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await rig.working("one")
    append = rig.store.append
    refused = 2

    async def failing(*args: Any) -> int:
        nonlocal refused
        if refused:
            refused -= 1
            raise Unavailable("The disk is full.")
        return await append(*args)

    monkeypatch.setattr(rig.store, "append", failing)
    emitting = asyncio.create_task(agent.text("slow"))
    for _ in range(3):
        await rig.until(lambda: rig.clock.waiting >= 2 or emitting.done())
        await rig.clock.advance(1)
    await emitting
    assert [event.text for event in await rig.log() if isinstance(event, ev.Text)] == ["slow"]


async def test_callers_get_the_store_error_while_the_agents_records_wait_for_the_store(
    rig: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await rig.working("one")
    append = rig.store.append
    tried, full = asyncio.Event(), asyncio.Event()

    async def failing(*args: Any) -> int:
        tried.set()
        await full.wait()
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(rig.store, "append", failing)
    emitting = asyncio.create_task(agent.text("slow"))
    await tried.wait()
    early = asyncio.create_task(rig.send("while it is tried"))
    await asyncio.sleep(0)
    full.set()
    with pytest.raises(Unavailable, match="The disk is full"):
        await early
    with pytest.raises(Unavailable, match="The disk is full"):
        await rig.send("while it waits")
    monkeypatch.setattr(rig.store, "append", append)
    await rig.clock.advance(1)
    await emitting
    await rig.send("later")
    queued = [event for event in await rig.log() if isinstance(event, ev.MessageQueued)]
    assert len(queued) == 2


async def test_a_stopping_gateway_does_not_wait_for_the_store(
    rig: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await rig.working("one")

    async def failing(*args: Any) -> int:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(rig.store, "append", failing)
    waiting = rig.clock.waiting
    emitting = asyncio.create_task(agent.text("never stored"))
    await rig.until(lambda: rig.clock.waiting > waiting)
    stopping = asyncio.create_task(rig.registry.stop())
    await rig.until(lambda: agent.gone)
    await rig.clock.advance(1)
    await stopping
    with pytest.raises(Unavailable):
        await emitting


async def test_events_carry_the_name_of_their_user(rig: CoreHarness) -> None:
    await rig.open()
    await rig.do(cmd.Rename(session=SESSION, title="By Bob"), BOB)
    changed = (await rig.log())[-1]
    assert isinstance(changed, ev.SessionChanged)
    assert changed.by == "bob"
    assert ANN.name == "ann"
