"""Takes over an agent that the keeper held while no gateway ran: connects to it, then sends it again what the log says
that it was sent. The keeper drops what the agent has got already."""

import logging
from typing import Final

from fairlead.model import events as ev
from fairlead.model.agents import Agent, ProcessInfo, Record
from fairlead.model.errors import AgentFailed, FairleadError, NotFound
from fairlead.model.ids import TurnId
from fairlead.model.store import Entry
from fairlead.sessions.commit import interrupt_key
from fairlead.sessions.process.connection import child_name, exit_key
from fairlead.sessions.process.recovery import follow
from fairlead.sessions.process.supervisor import AgentSupervisor

logger = logging.getLogger("fairlead.agent")

RECENT: Final = 50
"""Log entries that are looked at for input that the agent may not have got: a killed gateway had one or two on their
way."""


async def adopt(supervisor: AgentSupervisor, child: ProcessInfo) -> None:
    """Continue with a kept process of an earlier gateway. A process that the keeper does not have (any more) is
    followed like one that was not kept."""
    core = supervisor.core
    if await core.log.store.find(core.session, exit_key(child_name(child))) is not None:
        await core.services.forget_child(core.session)
        supervisor.following = False
        supervisor.recovered.set()
        return
    try:
        agent = await supervisor.adopt(child)
    except NotFound:
        await follow(supervisor, child, end=False)
        return
    except FairleadError as error:
        # Its exit is logged.
        logger.warning("an agent was not adopted", extra={"session": core.session, "error": error.message})
    else:
        logger.info("agent adopted", extra={"session": core.session, "pid": agent.pid})
        supervisor.recovered.set()
        await _repeat_input(supervisor, agent)
    finally:
        supervisor.following = False
        supervisor.recovered.set()
    supervisor.schedule_next()


async def _repeat_input(supervisor: AgentSupervisor, agent: Agent) -> None:
    core = supervisor.core
    kinds = ("agent.started", "turn.started", "user.message", "interrupt.asked", "turn.ended")
    page = await core.log.store.tail(core.session, None, RECENT, kinds)
    prompts: list[tuple[TurnId | None, Entry]] = []
    interrupt = ""
    for entry in page.entries:
        match ev.decode(entry.event):
            case ev.AgentStarted() | ev.TurnEnded():
                prompts, interrupt = [], ""
            case ev.TurnStarted(turn=turn) | ev.UserMessage(turn=turn) if entry.origin == "gateway" and entry.raw:
                # The prompt is stored with the first of its events.
                prompts.append((turn, entry))
            case ev.UserMessage(turn=turn, subagent=None) if entry.origin == "transcript":
                # The agent has written it to its transcript.
                prompts = [prompt for prompt in prompts if prompt[0] != turn]
            case ev.InterruptRequested():
                interrupt = interrupt_key(entry.seq)
            case _:
                pass
    try:
        for _, entry in prompts:
            await agent.write(Record(entry.raw or b"", "gateway"), again=True)
        if interrupt and core.interpreter.turn is not None:
            await agent.interrupt(interrupt)
    except AgentFailed as error:
        logger.warning("an agent did not get its input", extra={"session": core.session, "error": error.message})
