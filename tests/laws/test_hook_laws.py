"""Laws of the hook server: whatever connections do, a call is handled once, and no call is allowed by accident."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.claude_driver.hook_harness import decided
from fairlead.agents.claude.tui.hook_server import GONE_SECONDS, HookEndpoint
from fairlead.agents.claude.wire.control import HookAnswer, HookOutput
from fairlead_testing.clock import ManualClock
from patience import settled

CALLS = ("a", "b", "c")
ALLOW = HookAnswer(hookSpecificOutput=HookOutput(hookEventName="PreToolUse", permissionDecision="allow"))

steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from(CALLS)),
        st.tuples(st.just("leave"), st.sampled_from(CALLS)),
        st.tuples(st.just("allow"), st.sampled_from(CALLS)),
        st.tuples(st.just("pass"), st.sampled_from((GONE_SECONDS / 2, GONE_SECONDS, 3600.0))),
    ),
    max_size=25,
)


class World:
    """The calls of one agent, a person who may allow them, and connections that come and go."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.endpoint = HookEndpoint({"pre-tool-use": self._handle}, {}, self.clock, lambda: None)
        self.asked: list[str] = []
        self.person: dict[str, asyncio.Future[HookAnswer]] = {}
        self.allowed: set[str] = set()
        self.connections: dict[str, list[asyncio.Task[bytes]]] = {call: [] for call in CALLS}
        self.received: dict[str, set[str]] = {call: set() for call in CALLS}

    async def _handle(self, given: Mapping[str, Any]) -> HookAnswer:
        self.asked.append(given["call"])
        self.person[given["call"]] = asyncio.get_running_loop().create_future()
        return await self.person[given["call"]]

    async def do(self, step: str, what: Any) -> None:
        match step:
            case "come":
                asking = self.endpoint.answer_hook("pre-tool-use", what, {"call": what})
                self.connections[what].append(asyncio.create_task(asking))
            case "leave" if self.connections[what]:
                self.connections[what].pop().cancel()
            case "allow" if what in self.person and not self.person[what].done():
                self.person[what].set_result(ALLOW)
                self.allowed.add(what)
            case "pass":
                await self.clock.advance(what)
        await settled()
        self._collect_answers()

    def _collect_answers(self) -> None:
        for call, connections in self.connections.items():
            for connection in [one for one in connections if one.done()]:
                connections.remove(connection)
                if not connection.cancelled():
                    self.received[call].add(decided(json.loads(connection.result()))[0])

    async def end(self) -> None:
        await self.endpoint.close("over")
        await settled()
        self._collect_answers()


@settings(max_examples=150, deadline=None)
@given(steps)
def test_a_call_is_handled_once_and_allowed_only_by_a_person(story: list[tuple[str, Any]]) -> None:
    async def live() -> None:
        world = World()
        for step, what in story:
            await world.do(step, what)
        waiting = [call for call, connections in world.connections.items() if connections]
        await world.end()
        assert len(world.asked) == len(set(world.asked)), "each question was put once"
        for call, received in world.received.items():
            assert len(received) <= 1, "everybody hears the same"
            assert "allow" not in received or call in world.allowed
        for call in waiting:
            assert world.received[call] == {"deny"}, "who still waits at the end is denied"
        assert not any(world.connections.values()), "and nobody waits for ever"
        assert world.clock.waiting == 0, "no timer is left behind"

    asyncio.run(live())
