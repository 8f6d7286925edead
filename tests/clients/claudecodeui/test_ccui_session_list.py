"""Broadcasts to every chat socket, independent of its subscriptions: changed sessions, and progress of lists."""

import asyncio
from typing import Any

import pytest

from clients.claudecodeui.chat_harness import ChatHarness
from clients.cognova.chat_harness import stream
from fairlead.clients.claudecodeui.chat.session_list import CHANNEL, CODEC, loading
from fairlead.clients.claudecodeui.rest.project_fields import project_id
from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.ids import SessionId
from fairlead.model.store import Summary
from fairlead.model.web.broadcast import Broadcast, JoinChannel
from fairlead.sessions.fanout.broadcast import MAX_PENDING_SESSIONS, Broadcasts
from fairlead.sessions.fanout.session_changes import SessionChanges
from fairlead_testing.clock import ManualClock
from laws.test_ccui_law import KINDS
from patience import PATIENCE
from sessions.harness import ANN

GATEWAY = frozenset({"chat_subscribed", "session_upserted", "loading_progress", "protocol_error"})
"""Kinds of frames that the gateway sends outside a run."""


@pytest.mark.rules("S003-023", "S003-127", "S003-130", "S003-131", "S003-035", "S003-036")
async def test_a_changed_session_is_broadcast_to_every_socket_at_once(chats: ChatHarness) -> None:
    async with chats.peer() as one, chats.peer() as two:
        await one.settled()
        await two.settled()
        name = await chats.session(title="A plan")
        for peer in (one, two):
            update = await peer.until("session_upserted")
            cwd = str(chats.core.cwd)
            project = {"projectId": project_id(cwd), "path": cwd, "fullPath": cwd, "displayName": "work"}
            assert update == {
                "kind": "session_upserted",
                "sessionId": name,
                "provider": "claude",
                "session": {
                    "id": name,
                    "summary": "A plan",
                    "messageCount": 0,
                    "lastActivity": update["session"]["lastActivity"],
                },
                "project": {**project, "isStarred": False},
                "timestamp": update["timestamp"],
            }
        await one.send(name, "go")
        await chats.agent()
        await two.until(lambda frame: frame["kind"] == "session_upserted" and "providerSessionId" in frame)
        await chats.core.do(cmd.Rename(session=name, title="Another"))
        await two.until(lambda frame: frame["kind"] == "session_upserted" and frame["session"]["summary"] == "Another")
        assert set(two.kinds()) <= {"session_upserted", "protocol_error"}, "who watches nothing is told of changes only"


@pytest.mark.rules("S003-024", "S003-128", "S003-133")
async def test_a_closed_socket_receives_nothing_and_does_not_block_the_others(chats: ChatHarness) -> None:
    doer = chats.gateway.app.dispatcher
    async with chats.peer() as stays:
        await stays.settled()
        async with chats.peer() as goes:
            await goes.settled()
            assert await doer.dispatch(ANN, Broadcast(CHANNEL, loading(0, 2))) == 2, "both are open"
        # A broadcast returns the number of sockets that it reached: soon after the close it is one less.
        async with asyncio.timeout(PATIENCE):
            while await doer.dispatch(ANN, Broadcast(CHANNEL, b"")) > 1:
                await asyncio.sleep(0.01)
        assert await doer.dispatch(ANN, Broadcast(CHANNEL, loading(1, 2))) == 1
        await chats.session()
        update = await stays.until("session_upserted")
        assert update in stays.frames and not any(frame["kind"] == "session_upserted" for frame in goes.frames)
        assert sum(frame["kind"] == "loading_progress" for frame in stays.frames) == 2


@pytest.mark.rules("S003-126", "S003-127", "S003-129")
async def test_progress_of_a_list_is_broadcast(chats: ChatHarness) -> None:
    async with chats.peer() as one, chats.peer() as two:
        await one.settled()
        await two.settled()
        doer = chats.gateway.app.dispatcher
        for current in (1, 2):
            assert await doer.dispatch(ANN, Broadcast(CHANNEL, loading(current, 2, "work"))) == 2
        for peer in (one, two):
            first, last = await peer.until("loading_progress"), await peer.until("loading_progress")
            assert first == {
                "kind": "loading_progress",
                "phase": "loading",
                "current": 1,
                "total": 2,
                "currentProject": "work",
            }
            assert last["phase"] == "complete"
            assert len(peer.client.progress) == 2
        assert await doer.dispatch(ANN, Broadcast("nobody", b"")) == 0


@pytest.mark.rules("S003-051", "S003-052", "S003-053")
async def test_every_frame_has_a_known_kind_and_no_type(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.subscribe(name)
        await chats.gateway.app.dispatcher.dispatch(ANN, Broadcast(CHANNEL, loading(1, 1)))
        await peer.send(name, "go")
        agent = await chats.agent()
        await stream(agent, "Hel", "lo.")
        await agent.call("toolu_1", command="make")
        await agent.ask("req-1", "toolu_1", command="make")
        await peer.until("permission_request")
        for request in ("req-1", "nobody's"):
            await peer.say("chat.permission-response", requestId=request, allow=True)
            await peer.until("permission_cancelled")
        await agent.result_of("toolu_1")
        await agent.die(Exit(code=1))
        await peer.until("complete")
        await peer.say("chat.abort", sessionId=name)
        await peer.until("protocol_error")
        kinds = set(peer.kinds())
        assert kinds >= GATEWAY | {"stream_delta", "tool_use", "tool_result", "error", "complete"}
        assert kinds <= GATEWAY | KINDS
        assert not any("type" in frame for frame in peer.frames)
        assert all("seq" not in frame for frame in peer.frames if frame["kind"] in GATEWAY)


class Slow:
    """A sink that reports a full backlog until the test sets `waiting` to 0."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.waiting = 1 << 30

    def send(self, data: bytes) -> None:
        self.got.append(data)

    def backlog(self) -> int:
        return self.waiting

    def fail(self, error: Any) -> None:
        raise AssertionError(error)


async def sees_all(who: Identity, session: SessionId) -> bool:
    return True


async def test_a_slow_socket_gets_only_the_latest_state_of_each_session_and_its_queue_is_bounded() -> None:
    changes, summaries = SessionChanges(ManualClock(), sees_all), dict[str, Summary]()

    async def read(session: SessionId) -> Summary | None:
        return summaries.get(session)

    broadcasts = Broadcasts(changes, read)
    channel = await broadcasts.handlers()[JoinChannel](ANN, JoinChannel(CODEC))
    slow, quick = Slow(), Slow()
    quick.waiting = 0
    member, other = channel(slow), channel(quick)
    for title in ("first", "last"):
        for number in range(MAX_PENDING_SESSIONS + 10):
            name = SessionId(f"{number:032x}")
            summaries[name] = Summary(session=name, title=title)
            changes.notify(name, "updated")
        count = len(quick.got) + MAX_PENDING_SESSIONS + 10
        async with asyncio.timeout(PATIENCE):
            while len(quick.got) < count:
                await asyncio.sleep(0)
    assert slow.got == []
    assert await broadcasts.handlers()[Broadcast](ANN, Broadcast(CHANNEL, b"passes by")) == 2
    slow.waiting = 0
    member.drained()
    assert len(slow.got) == MAX_PENDING_SESSIONS
    assert all(b'"last"' in frame for frame in slow.got)
    member.leave()
    other.leave()
    await asyncio.sleep(0)
    assert not changes.listeners, "nobody listens where nobody is"


async def test_archived_and_deleted_sessions_are_not_broadcast(chats: ChatHarness) -> None:
    gone, kept = await chats.session(1), await chats.session(2)
    async with chats.peer() as peer:
        await peer.settled()
        await chats.core.do(cmd.Delete(session=gone))
        await chats.core.do(cmd.ArchiveSession(session=kept))
        last = await chats.session(3)
        assert (await peer.until("session_upserted"))["sessionId"] == last
