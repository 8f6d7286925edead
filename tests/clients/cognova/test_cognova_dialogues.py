"""Golden cases of whole dialogues on a real socket: tests/golden/cognova-dialogues/<case>.jsonl.

A line is a message of the client (`send`, or `raw`), an action of the agent (`agent`), or the next expected frame. `C`
is the conversation that was begun; `seq` and `logId` are left out.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from clients.cognova.chat_harness import ChatHarness, Peer, stream
from fairlead.model.agents import Exit
from sessions.harness import FakeAgent

CASES = Path(__file__).parents[2] / "golden" / "cognova-dialogues"


class Dialogue:
    def __init__(self, chats: ChatHarness, peer: Peer) -> None:
        self.chats = chats
        self.peer = peer
        self.name = "C"
        self.agents: list[FakeAgent] = []
        self._interrupts = 0

    async def play(self, line: dict[str, Any]) -> None:
        match line:
            case {"send": frame}:
                await self.peer.socket.send(json.dumps(self._named(frame)))
            case {"raw": text}:
                await self.peer.socket.send(text)
            case {"frame": frame}:
                await self._expect(frame)
            case {"agent": what, "args": args}:
                await self._agent(what, args, line.get("fields", {}))
            case _:
                raise AssertionError(line)

    def _named(self, frame: dict[str, Any]) -> dict[str, Any]:
        return {key: self.name if value == "C" else value for key, value in frame.items()}

    async def _expect(self, frame: dict[str, Any]) -> None:
        came = await self.peer.until(lambda one: True)
        if came["type"] == "chat:session_created":
            self.name = came["conversationId"]
        received = {key: value for key, value in came.items() if key not in ("seq", "logId")}
        assert received == self._named(frame)

    async def _agent(self, what: str, args: list[Any], fields: dict[str, Any]) -> None:
        match what:
            case "launched":
                self.agents.append(await self.chats.agent(len(self.agents) + 1))
            case "stream":
                await self.chats.core.all_live()
                await stream(self.agents[-1], *args)
            case "interrupted":
                self._interrupts += 1
                await self.chats.interrupted(self.agents[-1], self._interrupts)
            case "die":
                await self.agents[-1].die(Exit(code=1))
            case _:
                await getattr(self.agents[-1], what)(*args, **fields)


@pytest.mark.rules("S002-010", "S002-016", "S002-020", "S002-021", "S002-022", "S002-023", "S002-026", "S002-027")
@pytest.mark.rules("S002-028", "S002-029", "S002-030", "S002-033", "S002-034", "S002-037", "S002-045", "S002-049")
@pytest.mark.rules("S002-051", "S002-052", "S002-054")
@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.iterdir()))
async def test_a_dialogue_matches_its_case(chats: ChatHarness, case: str) -> None:
    async with chats.peer() as peer:
        dialogue = Dialogue(chats, peer)
        for line in (CASES / f"{case}.jsonl").read_text().splitlines():
            await dialogue.play(json.loads(line))
        await peer.settled()
        assert len(peer.frames) == peer.taken, "and nothing else comes"
