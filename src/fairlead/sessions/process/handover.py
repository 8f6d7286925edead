"""Hands a session over to another link: the old process is stopped, and a new one resumes its conversation.

Rule: the request is in the log before any action, and stays pending there until it is settled, so that a gateway that
is restarted in the middle continues it. There is one process at a time, and the session always has a link: if the new
process does not start, the old link is used again.
"""

import asyncio
import contextlib
import logging
from typing import Any

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Agent
from fairlead.model.errors import AgentFailed, Busy, FairleadError, NotFound, Stale, Unavailable
from fairlead.sessions import decide
from fairlead.sessions.commit import SessionCore, interrupt_key
from fairlead.sessions.process.supervisor import AgentSupervisor
from fairlead.sessions.state import PendingHandover
from fairlead.system.clock import within

logger = logging.getLogger("fairlead.handover")

CUT_OFF_S = 5.0
"""Time that an interrupted agent has to end its turn itself; then its process is stopped, and the turn with it."""


def describe_work(core: SessionCore) -> tuple[str, ...]:
    """Descriptions of what the session's agent works on or waits for; empty if it is idle."""
    state, interpreter = core.state, core.interpreter
    found: list[str] = []
    if interpreter.turn is not None:
        found.append("a running turn")
    if state.pending:
        found.append(f"a request that waits for an answer ({', '.join(item.tool for item in state.pending)})")
    if interpreter.background_work:
        found.append(f"background work ({', '.join(interpreter.background_work)})")
    return tuple(found)


class Handovers:
    """The hand-overs of one session. Implements the supervisor's `PendingTask`."""

    def __init__(self, core: SessionCore, supervisor: AgentSupervisor) -> None:
        self._core = core
        self._supervisor = supervisor
        self._moving = False
        self._asked: list[asyncio.Future[cmd.Reply | FairleadError]] = []
        self._turned = asyncio.Event()

    # --- client commands -----------------------------------------------------------------------------------

    async def ask(self, command: cmd.StartHandover, by: str) -> cmd.Reply:
        """Request a hand-over; return when it is done or has to wait. The error explains a failed hand-over."""
        core = self._core
        async with core.client_transaction() as transition:
            if self._moving:
                raise Busy("The session is being handed over: ask again when that is done.")
            waits_for = self.waits_for(command.when)
            event = self._decided(command, by, waits_for)
            if event is None:
                return self._reply("there", command.link)
            transition.add(event)
            stays = isinstance(event, ev.HandoverSettled)
            reply = self._reply("there" if stays else "waiting", command.link, transition.stage.seq, waits_for)
            transition.save_replies(command, reply)
            if waits_for or stays:
                return reply
        future: asyncio.Future[cmd.Reply | FairleadError] = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._supervisor.schedule_next()
        outcome = await future
        if isinstance(outcome, FairleadError):
            raise outcome
        return outcome

    def _decided(
        self, command: cmd.StartHandover, by: str, waits_for: tuple[str, ...]
    ) -> ev.HandoverRequested | ev.HandoverSettled | None:
        state, supervisor = self._core.state, self._supervisor
        cause = self._core.services.new_uuid()
        if supervisor.agent is None or not command.link == state.settings.link == supervisor.launched.link:
            return decide.hand_over(state, command, by, cause, waits_for)
        # The session already uses the requested link: a pending request for another one is withdrawn.
        return None if state.handover is None else decide.handover_settled(state, "withdrawn", by, cause)

    async def withdraw(self, command: cmd.WithdrawHandover, by: str) -> cmd.Reply:
        core = self._core
        async with core.client_transaction() as transition:
            if self._moving:
                raise Stale("The session is being handed over already: hand it back when that is done.")
            if core.state.handover is None:
                raise NotFound("hand-over that waits in session", core.session)
            entry = transition.add(decide.handover_settled(core.state, "withdrawn", by, core.services.new_uuid()))
            reply = self._reply("there", core.state.settings.link, entry.seq)
            transition.save_replies(command, reply)
        return reply

    async def drop(self, by: str, reason: str) -> None:
        """Withdraw a pending hand-over, which would start a process: the session is to have none."""
        core = self._core
        async with core.client_transaction() as transition:
            if core.state.handover is not None and not self._moving:
                transition.add(decide.handover_settled(core.state, "withdrawn", by, core.services.new_uuid(), reason))

    def waits_for(self, when: str) -> tuple[str, ...]:
        """Descriptions of the work that a hand-over waits for; empty if it can be done at once."""
        found: list[str] = []
        if self._core.services.drain.on:
            found.append("the gateway, which is draining")
        if self._supervisor.following:
            found.append("an agent of an earlier gateway, or a file, that is still read")
        return tuple(found) if when == "now" else (*found, *describe_work(self._core))

    def _reply(self, state: str, link: cmd.Link, seq: int = 0, waits_for: tuple[str, ...] = ()) -> cmd.Reply:
        data: dict[str, Any] = {"state": state, "link": link}
        if waits_for:
            data["waits_for"] = list(waits_for)
        return cmd.Reply(session=self._core.session, seq=seq or self._core.log.head, data=data)

    # --- the supervisor's pending task ---------------------------------------------------------------------

    @property
    def due(self) -> bool:
        wish = self._core.state.handover
        return wish is not None and not self.waits_for(wish.when)

    def noticed(self) -> None:
        """React to a commit. Callers do not wait for a hand-over that has to wait itself, or that was withdrawn."""
        self._turned.set()
        if self._asked and not self._moving and not self.due:
            self._resolve_callers(self._undone())

    async def run(self) -> None:
        """Do the hand-over. The waiting callers get its outcome in every case."""
        outcome: cmd.Reply | FairleadError = Unavailable("The gateway is stopped: it hands over when it is back.")
        try:
            outcome = await self._move()
        except FairleadError as error:
            outcome = error
            raise
        finally:
            self._moving = False
            self._resolve_callers(outcome)

    def _resolve_callers(self, outcome: cmd.Reply | FairleadError) -> None:
        asked, self._asked = self._asked, []
        for future in asked:
            if not future.done():
                future.set_result(outcome)

    def _undone(self) -> cmd.Reply:
        state = self._core.state
        if state.handover is None:
            return self._reply("there", state.settings.link)
        return self._reply("waiting", state.handover.link, waits_for=self.waits_for(state.handover.when))

    async def _move(self) -> cmd.Reply | FairleadError:
        core, supervisor = self._core, self._supervisor
        async with supervisor.starting:
            async with core.lock:
                wish = core.state.handover
                if wish is None or not self.due:
                    # A turn has begun, or the hand-over was withdrawn.
                    return self._undone()
                self._moving = True
            if wish.when == "now" and supervisor.agent is not None:
                await self._cut_off(supervisor.agent, wish.by)
            before = supervisor.launched.link if supervisor.agent is not None else core.state.settings.link
            ran = supervisor.agent is not None
            await supervisor.cancel_invitation()
            await supervisor.end_process(f"handed over to {wish.link}", cut_by=wish.by)
            try:
                async with core.transaction() as transition:
                    for changed in decide.link_changed(core.state, wish.link, wish.by, core.services.new_uuid()):
                        transition.add(changed)
                await supervisor.start_process()
            except FairleadError as error:
                await self._fall_back(wish, before, error)
                if ran and before != wish.link:
                    await self._start_again()
                return error
            async with core.transaction() as transition:
                transition.add(decide.handover_settled(core.state, "moved", wish.by, core.services.new_uuid()))
            return self._reply("moved", wish.link)

    async def _cut_off(self, agent: Agent, by: str) -> None:
        """Interrupt the agent and wait up to `CUT_OFF_S` for it to end its turn itself."""
        core = self._core
        async with core.transaction() as transition:
            if core.interpreter.turn is None and not core.interpreter.background_work:
                return
            key = interrupt_key(transition.interrupt(by).seq)

        async def interrupted() -> None:
            await agent.interrupt(key)
            while core.interpreter.turn is not None:
                self._turned.clear()
                await self._turned.wait()

        with contextlib.suppress(TimeoutError, AgentFailed):
            await within(core.services.clock, CUT_OFF_S, interrupted())

    async def _fall_back(self, wish: PendingHandover, before: cmd.Link, error: FairleadError) -> None:
        core = self._core
        logger.warning("hand-over failed", extra={"session": core.session, "link": wish.link, "error": error.message})
        async with core.transaction() as transition:
            cause = core.services.new_uuid()
            transition.fail(error, cause, f"It could not be handed over to {wish.link}: {error.message}")
            for changed in decide.link_changed(core.state, before, wish.by, cause):
                transition.add(changed)
            transition.add(decide.handover_settled(transition.state, "failed", wish.by, cause, error.message))

    async def _start_again(self) -> None:
        try:
            await self._supervisor.start_process()
        except FairleadError as error:
            # The next message tries again.
            async with self._core.transaction() as transition:
                transition.fail(error, self._core.services.new_uuid())
