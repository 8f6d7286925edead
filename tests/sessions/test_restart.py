"""A gateway after a restart: what its children did meanwhile, what is still queued, and no event twice."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Exit
from fairlead.model.content import TextBlock
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from sessions.harness import SESSION, CoreHarness, FakeAgent


def row(kind: str, uuid: str, content: Any, **message: Any) -> bytes:
    body = {"role": kind, "content": content} | message
    return msgspec.json.encode(
        {"type": kind, "uuid": uuid, "sessionId": SESSION, "isSidechain": False, "parentUuid": None, "message": body}
    )


async def restarted(old: CoreHarness, **options: Any) -> CoreHarness:
    await old.crash()
    new = CoreHarness(old.folder)
    new.kind = old.kind
    return await new.start(**options)


async def working(tmp_path: Path) -> tuple[CoreHarness, FakeAgent]:
    harness = await CoreHarness(tmp_path).start()
    return harness, await harness.working("one")


async def ended(harness: CoreHarness) -> ev.TurnEnded:
    await harness.until(lambda: harness.state().turn is None and not harness.loaded().supervisor.following)
    ends = [event for event in await harness.log() if isinstance(event, ev.TurnEnded)]
    assert len(ends) == 1
    return ends[0]


async def test_a_child_that_outlived_its_gateway_is_followed_to_its_answer(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    await agent.text("on the wire", "m1")
    harness.kind.transcript = [
        row("assistant", "u9", [{"type": "text", "text": "the answer"}], id="m2", stop_reason="end_turn", model="opus")
    ]
    harness = await restarted(harness)
    end = await ended(harness)
    assert end.status == "completed"
    texts = [event.text for event in await harness.log() if isinstance(event, ev.Text)]
    assert texts == ["on the wire", "the answer"]
    child, after = harness.kind.followed[0]
    assert child.pid == agent.pid
    prompt = next(event for event in await harness.log() if isinstance(event, ev.UserMessage))
    assert after == prompt.message
    assert await harness.services.children() == []
    await harness.stop()


async def test_a_conversation_continues_although_the_agent_never_sent_its_id(tmp_path: Path) -> None:
    """Killed after the prompt and before the agent's first record: the rows it then wrote are the session's history."""
    harness = await CoreHarness(tmp_path).start()
    await harness.open()
    await harness.send("one")
    await (await harness.kind.launched()).prompted()
    harness.kind.transcript = [
        row("assistant", "u9", [{"type": "text", "text": "hi"}], id="m1", stop_reason="end_turn")
    ]
    harness = await restarted(harness)
    assert (await ended(harness)).status == "completed"
    await harness.send("two")
    assert (await harness.kind.launched(2)).launch.resume == SESSION
    await harness.stop()


async def test_a_conversation_that_was_never_written_down_begins_anew(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    await harness.open()
    await harness.send("one")
    await (await harness.kind.launched()).prompted()
    harness = await restarted(harness)
    assert (await ended(harness)).status == "failed"
    await harness.send("two")
    assert (await harness.kind.launched(2)).launch.resume == ""
    await harness.stop()


async def test_wire_records_are_not_repeated_from_the_transcript(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    await agent.text("said once", "m1")
    page = await harness.store.read(SESSION, 0, 100)
    wire = msgspec.json.decode(page.entries[-1].raw or b"")
    harness.kind.transcript = [
        row("assistant", wire["uuid"], [{"type": "text", "text": "said once"}], id="m1", stop_reason="end_turn")
    ]
    harness = await restarted(harness)
    assert (await ended(harness)).status == "completed"
    assert [event.text for event in await harness.log() if isinstance(event, ev.Text)] == ["said once"]
    await harness.stop()


async def test_a_turn_without_a_final_answer_failed_because_the_gateway_was_lost(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    await agent.call("c1", command="sleep 9")
    harness = await restarted(harness)
    end = await ended(harness)
    assert (end.status, end.reason) == ("failed", "gateway lost")
    await harness.stop()


async def test_pending_permissions_are_cancelled_when_the_agent_lost_its_gateway(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    await agent.call("c1", command="touch x")
    await agent.ask("r1", "c1", command="touch x")
    harness = await restarted(harness)
    await ended(harness)
    cancelled = [event.reason for event in await harness.log() if isinstance(event, ev.PermissionCancelled)]
    assert cancelled == ["agent lost its gateway"]
    await harness.stop()


async def test_children_are_stopped_on_request(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    harness = await restarted(harness, kill_children=True)
    await ended(harness)
    assert [child.pid for child in harness.kind.ended] == [agent.pid]
    await harness.stop()


async def test_no_second_process_runs_while_a_child_is_followed(tmp_path: Path) -> None:
    harness, _ = await working(tmp_path)
    await harness.send("two")
    harness.kind.follow_until.clear()
    harness = await restarted(harness)
    await harness.send("three")
    await asyncio.sleep(0)
    assert len(harness.kind.agents) == 1
    harness.kind.follow_until.set()
    second = await harness.kind.launched(2)
    assert await second.prompted() == "two"
    assert second.launch.resume == SESSION
    await harness.stop()


async def test_queued_messages_are_not_lost(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    await harness.open()
    harness.loaded().supervisor._closing = True  # killed before the message was delivered
    reply = await harness.send("one")
    harness = await restarted(harness)
    agent = await harness.kind.launched()
    assert await agent.prompted() == "one"
    sent = [event.message for event in await harness.log() if isinstance(event, ev.UserMessage)]
    assert sent == [reply.message]
    await harness.stop()


async def test_a_turn_whose_process_was_never_recorded_is_closed(tmp_path: Path) -> None:
    harness, _ = await working(tmp_path)
    await harness.services.forget_child(SESSION)
    harness = await restarted(harness)
    end = await ended(harness)
    assert (end.status, end.reason) == ("failed", "gateway lost")
    await harness.stop()


async def test_a_repeated_send_after_the_restart_is_answered_from_the_log(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    reply = await harness.send("two", key="k")
    await agent.result()
    harness = await restarted(harness)
    again = await harness.do(cmd.Send(session=SESSION, content=(TextBlock("two"),), key="k"))
    assert (again.seq, again.repeated) == (reply.seq, True)
    await harness.stop()


async def test_settings_and_rules_survive_a_restart(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path).start()
    await harness.open(settings=cmd.Settings(model="haiku"))
    await harness.do(cmd.SetMode(session=SESSION, mode="plan"))
    harness = await restarted(harness)
    await harness.registry.get(SESSION)
    assert harness.state().settings == cmd.Settings(model="haiku", mode="plan")
    await harness.stop()


async def test_marks_survive_a_restart_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    """Deltas come from the wire and the block from the transcript: the block names its deltas, and they are dropped."""
    harness, agent = await working(tmp_path)

    def stream(number: int, **event: Any) -> dict[str, Any]:
        return {"type": "stream_event", "uuid": f"s{number}", "session_id": SESSION, "parent_tool_use_id": None} | {
            "event": event
        }

    message = {"id": "m1", "type": "message", "role": "assistant", "model": "opus", "content": [], "usage": {}}
    await agent.say(
        stream(1, type="message_start", message=message),
        stream(2, type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
        stream(3, type="content_block_delta", index=0, delta={"type": "text_delta", "text": "Hel"}),
    )
    await agent.say(stream(4, type="content_block_delta", index=0, delta={"type": "text_delta", "text": "lo"}))
    deltas = [seq for seq, kind in enumerate(await harness.kinds(), 1) if kind == "text.delta"]
    harness.kind.transcript = [
        row("assistant", "u9", [{"type": "text", "text": "Hello world"}], id="m1", stop_reason="end_turn")
    ]
    harness = await restarted(harness)
    await ended(harness)
    block = next(event for event in await harness.log() if isinstance(event, ev.Text))
    assert block.text == "Hello world"
    assert block.marks == ((deltas[0], 3), (deltas[1], 5))
    assert "text.delta" not in await harness.kinds()
    await harness.stop()


async def test_timestamps_grow_across_a_restart_in_the_middle_of_a_quick_stream(tmp_path: Path) -> None:
    """Many deltas in one moment run ahead of the clock, and the checkpoint is at the last of them."""
    harness, agent = await working(tmp_path)
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "opus", "content": [], "usage": {}}
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *([{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}] * 999),
    ]
    await agent.say(
        *(
            {"type": "stream_event", "uuid": f"s{n}", "session_id": SESSION, "parent_tool_use_id": None, "event": event}
            for n, event in enumerate(events)
        )
    )
    harness.kind.transcript = [row("assistant", "u9", [{"type": "text", "text": "x"}], id="m2", stop_reason="end_turn")]
    harness = await restarted(harness)
    await ended(harness)
    times = [entry.at for entry in (await harness.store.read(SESSION, 0, 10_000)).entries]
    assert len(times) > 999
    assert times == sorted(set(times))
    await harness.stop()


async def test_a_child_of_a_deleted_session_does_not_prevent_the_start(tmp_path: Path) -> None:
    harness, _ = await working(tmp_path)
    (child,) = await harness.services.children()
    stranger = SessionId("99999999-0000-0000-0000-000000000000")
    await harness.services.remember_child(msgspec.structs.replace(child, session=stranger))
    harness = await restarted(harness)
    with pytest.raises(NotFound):
        await harness.registry.get(stranger)
    await harness.stop()


async def test_an_exit_is_logged_once_although_the_gateway_died_right_after_it(tmp_path: Path) -> None:
    harness, agent = await working(tmp_path)
    children = await harness.services.children()
    await agent.die(Exit(code=0))
    for child in children:
        await harness.services.remember_child(child)
    harness = await restarted(harness)
    await harness.until(lambda: not harness.loaded().supervisor.following)
    assert await harness.services.children() == [] and harness.kind.followed == []
    assert (await harness.kinds()).count("agent.exited") == 1
    await harness.stop()
