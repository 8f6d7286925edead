"""A session whose gateway is killed again and again, at random moments of streaming turns: no event that was sent is
lost or duplicated.

With a keeper every turn goes on to its true end, as if nothing had happened: its events are those of an undisturbed
turn. Without one, a turn ends as the agent's own file says.
"""

import asyncio
import random
import uuid
from collections.abc import Callable
from typing import Any, Final

from faults.gateway_process import GatewayProcess
from faults.log_checks import ASKING, Line, SentEvents, check_log, check_truth, ends, is_prompt, read_history
from faults.native_client import Hangup, NativeClient, folded
from faults.turn_reference import turn_of
from patience import PATIENCE

SCRIPTS: Final = (
    "long 60",
    "long 200",
    "burst 3000",
    "think",
    "tool",
    "twice",
    "subagent tool",
    "subagent text",
    "write f",
)
"""`write` asks a person; everything else is allowed by rules."""
KEPT_SCRIPTS: Final = (*SCRIPTS, "question", "plan", "parallel", "slowtool 1", "todo")
RULES: Final = "Bash,Agent,Task"
PER_SESSION: Final = 25
"""Kills of one session's gateway."""
KILLED_STARTS: Final = 0.1
"""The part of the kills that come before the gateway accepts connections."""
START_SECONDS: Final = 0.3
"""About what a start takes."""
COLD_STARTS: Final = 0.1
"""The part of the starts that execute the program, where gateways are forked otherwise."""


class Trial:
    """One session whose gateway is killed again and again. `references`: with a keeper, the events of an undisturbed
    turn of each script."""

    def __init__(
        self,
        gateway: GatewayProcess,
        session: str,
        rng: random.Random,
        references: dict[str, list[Line]] | None = None,
    ) -> None:
        self.references = references
        self.interrupts = 0
        self.gateway = gateway
        self.rng = rng
        self.session = session
        self.stays = NativeClient(session)
        self.comes_and_goes = NativeClient(session)
        self.ledger = SentEvents()
        self.wanted: dict[str, str] = {}
        """Our messages by id; repeated until acknowledged."""
        self.acknowledged: set[str] = set()

    async def kills(self, count: int, killed: Callable[[], None] = lambda: None) -> None:
        """Kill the gateway so often, check the log after each kill, and everything at the end. `killed` is called after
        every kill."""
        done = 0
        while done < count:
            await self.round()
            done += 1
            killed()
            while done < count and self.references and self.rng.random() < KILLED_STARTS:
                self._spawn()
                await asyncio.sleep(self.rng.uniform(0, START_SECONDS))
                await self.gateway.kill()
                done += 1
                killed()
            self._spawn()
            await self.gateway.started()
            await self.look(idle=False)
        await self.settle()

    def _spawn(self) -> None:
        self.gateway.spawn(cold=self.rng.random() < COLD_STARTS)

    async def round(self, *, kill: bool = True) -> None:
        """Resume, send something, and kill the gateway at some moment afterwards."""
        verdict = await self.stays.come(self.gateway)
        assert verdict["verdict"] == "ok", verdict
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self.wanted[str(uuid.UUID(int=self.rng.getrandbits(128), version=4))] = self.rng.choice(
                tuple(self.references or SCRIPTS)
            )
        work = [asyncio.create_task(job) for job in (self._speak(), self._answer(), self._visit())]
        # Some moments are at the start, some deep in a stream, some after the last turn's end.
        moment = self.rng.choice((0, 1, 3, 10, 30, 60, 100, 300, 1000, 2500))
        try:
            if kill:
                await self._sees(moment)
                await self.gateway.kill()
                await self.stays.gone()
            else:
                await self.stays.holds(self._settled, f"the end of {self.wanted}")
        except Hangup:
            raise AssertionError(f"the gateway ended by itself: {self.gateway.log()}") from None
        except AssertionError as error:
            unanswered = self.wanted.keys() - self.acknowledged
            error.add_note(f"not acknowledged: {unanswered}; not over: {self.wanted.keys() - self.stays.over}")
            raise
        finally:
            for job in work:
                job.cancel()
            outcomes = await asyncio.gather(*work, return_exceptions=True)
            for outcome in outcomes:
                # It comes first: what we waited for may not have come because of it.
                if isinstance(outcome, Exception) and not isinstance(outcome, Hangup):
                    raise outcome
        await self.comes_and_goes.go()

    async def _sees(self, count: int) -> None:
        """Wait until that many events have arrived, or no more will."""
        goal = len(self.stays.lines) + count
        await self.stays.holds(lambda: len(self.stays.lines) >= goal or self._settled(), f"{count} events")

    def _settled(self) -> bool:
        """Whether all messages are acknowledged and their turns over."""
        return self.wanted.keys() <= self.acknowledged & self.stays.over

    async def _speak(self) -> None:
        """Send messages under our own ids: unacknowledged ones are sent again, and must not run twice."""
        for message, script in self.wanted.items():
            if message not in self.acknowledged:
                answer = await self.stays.send(f"SCRIPT:{script}", message=message)
                assert answer["type"] == "reply", answer
                self.acknowledged.add(message)
                await self.stays.news()

    async def _answer(self) -> None:
        """A person who allows most requests."""
        tried: set[str] = set()

        def pending(line: Line) -> bool:
            return line["type"] in ASKING and line["request"] not in self.stays.settled | tried

        while True:
            asked = await self.stays.until(pending, patience=None)
            tried.add(asked["request"])
            if self.rng.random() < 0.8:
                answer = await self.stays.ask("answer", **answer_to(asked))
                # Stale: the turn continued without us.
                assert answer["type"] == "reply" or answer["code"] in ("stale", "not_found"), answer
            else:
                self.interrupts += 1
                await self.stays.ask("interrupt")

    async def _visit(self) -> None:
        """The other client: connects, receives some events, disconnects, over and over."""
        while True:
            verdict = await self.comes_and_goes.come(self.gateway)
            assert verdict["verdict"] == "ok", verdict
            await self._visited(len(self.comes_and_goes.lines) + self.rng.randrange(200))
            await self.comes_and_goes.go()

    async def _visited(self, goal: int) -> None:
        await self.comes_and_goes.holds(lambda: len(self.comes_and_goes.lines) >= goal, patience=None)

    async def look(self, *, idle: bool) -> list[Line]:
        """Compare the log with the events that clients received, and check that it is consistent."""
        for client in (self.stays, self.comes_and_goes):
            self.ledger.note(client.lines)  # before the log is read: events that come later may not be in it yet
        stored = await self.gateway.stored(self.session)
        self.ledger.check(stored)
        check_log(stored, idle=idle)
        assert len(agents := self.gateway.agents(self.session)) <= 1, f"at work at once: {agents}"
        queued = {line["message"] for line in stored if line["type"] == "message.queued"}
        assert self.acknowledged <= queued, "an acknowledged message is in the log"
        return stored

    async def settle(self) -> None:
        """Wait until everything has ended, then check the whole log."""
        await self.round(kill=False)
        async with asyncio.timeout(PATIENCE):
            while len(ends(stored := await self.gateway.stored(self.session))) < len(self.wanted):
                await asyncio.sleep(0.02)
        stored = await self.look(idle=True)
        await self.stays.passed(stored[-1]["seq"])
        await self.comes_and_goes.come(self.gateway)
        await self.comes_and_goes.passed(stored[-1]["seq"])
        stored = await self.look(idle=True)
        whole = folded(stored)
        assert self.stays.folded() == whole, "who stayed"
        assert self.comes_and_goes.folded() == whole, "who came and went"
        assert {line["message"] for line in stored if is_prompt(line)} == self.wanted.keys()
        self._check_ends(stored)
        await self.stays.go()
        await self.comes_and_goes.go()

    def _check_ends(self, stored: list[Line]) -> None:
        over = ends(stored)
        cancelled = [message for message, end in over.items() if end["status"] == "cancelled"]
        if self.references is None:
            history = self._history()
            for message, end in over.items():
                if message not in cancelled:
                    check_truth(end, history, message)
            return
        assert len(cancelled) <= self.interrupts
        for message, script in self.wanted.items():
            if message not in cancelled:
                assert turn_of(stored, message) == self.references[script], f"SCRIPT:{script} ({message})"
        assert len([line for line in stored if line["type"] == "agent.started"]) == 1, "one process did all turns"

    def _history(self) -> list[Line]:
        file = self.gateway.data / "demo-home" / "sessions" / f"{self.session}.jsonl"
        return read_history(file.read_text())


def answer_to(asked: Line) -> dict[str, Any]:
    """Allow a request; a question gets the first option of each of its parts."""
    answers = {part["question"]: part["options"][0]["label"] for part in asked.get("input", {}).get("questions", ())}
    more = {"answers": answers} if asked["type"] == "question.asked" else {}
    return {"request": asked["request"], "behavior": "allow", **more}


async def undisturbed(gateway: GatewayProcess) -> dict[str, list[Line]]:
    """The events of a turn of each script."""
    (gateway.cwd / "f").write_text("hello\nworld\n")  # so that `write f` always changes a file
    client = NativeClient(await gateway.create())
    await client.come(gateway)
    sent: dict[str, str] = {}
    for script in KEPT_SCRIPTS:
        sent[script] = message = (await client.send(f"SCRIPT:{script}"))["message"]
        await _allow_all(client, message)
    stored = await gateway.stored(client.session)
    await client.go()
    return {script: turn_of(stored, message) for script, message in sent.items()}


async def _allow_all(client: NativeClient, message: str) -> None:
    """Allow every request until the end of the message's turn."""
    answered: set[str] = set()
    while message not in client.over:
        await client.holds(lambda: message in client.over or _open(client, answered) is not None, message)
        if message not in client.over and (asked := _open(client, answered)) is not None:
            answered.add(asked["request"])
            await client.ask("answer", **answer_to(asked))


def _open(client: NativeClient, settled: set[str]) -> Line | None:
    asked = (line for line in client.lines if line["type"] in ASKING)
    return next((line for line in asked if line["request"] not in settled | client.settled), None)
