"""Launches the interactive CLI on a terminal, with its hooks and its arguments, or continues with one of an earlier
gateway.

We write nothing into the user's own configuration. A person answers the CLI's questions at its first start (trust in a
folder, a key, its setup) once, in the terminal; the CLI remembers the answers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.agents.claude.launch import PreparedLaunch, in_terminal, terminal_environment
from fairlead.agents.claude.tui import stored_state
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.agents.claude.tui.hook_server import Handler, HookServer
from fairlead.agents.claude.versions import Abilities, Version
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.model.agents import AgentSink, Launch, ProcessInfo
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import StoredOutput
from fairlead.system.clock import Clock
from fairlead.system.spill import SpillFiles
from fairlead.terminals.api import Program, Size, Terminal, Terminals, session_terminal

logger = logging.getLogger("fairlead.agents.claude")

HOOKED_STARTS = "clear|resume"
"""2.1.37 writes an extra file for any other start that is hooked."""
SIZE = Size(120, 40)
"""Wide enough for its hints; a smaller screen of a person who types there makes it smaller."""


class TerminalAgents:
    """The CLIs of this gateway that run in terminals."""

    def __init__(self, terminals: Terminals, hooks: HookServer, clock: Clock) -> None:
        self._terminals = terminals
        self._hooks = hooks
        self._clock = clock
        self._running: dict[str, ClaudeTerminal] = {}

    def find(self, conversation: str) -> ClaudeTerminal | None:
        """The CLI into whose terminal the prompts of this conversation are typed."""
        agent = self._running.get(conversation)
        return agent if agent is not None and agent.running else None

    async def start(
        self, prepared: PreparedLaunch, sink: AgentSink, describe: Callable[[Terminal], ProcessInfo]
    ) -> ClaudeTerminal:
        """Start the CLI and wait until it takes prompts. `describe` makes the record of its process."""
        agent = await open_terminal(prepared, self._terminals, self._hooks, sink, self._clock)
        try:
            await sink.started(describe(agent.terminal))
        except BaseException:
            await agent.stop("its process could not be recorded")
            raise
        await agent.start()
        self._type_into(agent, agent.conversation)
        return agent

    async def adopt(
        self,
        child: ProcessInfo,
        launch: Launch,
        version: Version,
        spill: SpillFiles | None,
        sink: AgentSink,
        stored: StoredOutput,
    ) -> ClaudeTerminal:
        """Continue with a CLI of an earlier gateway. NotFound if its terminal is not at the keeper (any more)."""
        terminal = self._terminals.adopted(session_terminal(child.session))
        if terminal is not None and (terminal.pid, terminal.started) != (child.pid, child.started):
            await terminal.stop()  # a gateway was killed before it had recorded this one
            terminal = None
        if terminal is None:
            self._hooks.reject(child.session)
            raise NotFound("terminal of session", child.session)
        prepared = PreparedLaunch(
            launch=launch,
            version=version,
            command=(),
            env={},
            cwd=child.cwd,
            agent_session=child.agent_session,
            transcript=Path(child.transcript),
            spill=spill,
        )
        before = stored_state.decode(stored).ready
        if before is not None and before.gateway != self._hooks.gateway:
            words = "the gateway's address has changed: the hooks of an agent in a terminal do not find it"
            addresses = {"before": before.gateway, "now": self._hooks.gateway}
            logger.warning(words, extra={"session": child.session, **addresses})
        made: asyncio.Future[ClaudeTerminal] = asyncio.get_running_loop().create_future()
        post = self._hooks.reopen(child.session, _handlers(made))
        agent = ClaudeTerminal(prepared, terminal, post, sink, self._clock, gateway=self._hooks.gateway, stored=stored)
        made.set_result(agent)
        await agent.start()
        self._type_into(agent, agent.conversation)
        return agent

    def _type_into(self, agent: ClaudeTerminal, conversation: str) -> None:
        """Type this conversation's prompts into the terminal from now on, also after a person switches to another
        conversation there."""
        self._running = {name: other for name, other in self._running.items() if other.running}
        self._running[conversation] = agent
        agent.moved = lambda conversation: self._type_into(agent, conversation)


async def open_terminal(
    prepared: PreparedLaunch, terminals: Terminals, hooks: HookServer, sink: AgentSink, clock: Clock
) -> ClaudeTerminal:
    """Start the CLI. Its process is not recorded yet, and its driver has not started. Raises TooMany, Busy,
    BadAgentSetting."""
    made: asyncio.Future[ClaudeTerminal] = asyncio.get_running_loop().create_future()
    launch = prepared.launch
    post = hooks.open(launch.session, _handlers(made))
    try:
        status = waiting_text(launch.session) if Abilities(prepared.version).shows_hook_status else ""
        words = in_terminal(launch, prepared.version, prepared.agent_session, post.settings(HOOKED_STARTS, status))
        env = {**terminal_environment(prepared.env, launch, prepared.version), **post.variables}
        program = Program(argv=[*prepared.command, *words], env=env, cwd=prepared.cwd, size=SIZE)
        terminal = await terminals.open(session_terminal(launch.session), program)
    except BaseException:
        await post.close("The agent could not be started.")
        raise
    agent = ClaudeTerminal(prepared, terminal, post, sink, clock, gateway=hooks.gateway)
    made.set_result(agent)
    return agent


def waiting_text(session: SessionId) -> str:
    """What the terminal shows while Fairlead decides about a tool call: a person who sits there cannot answer in it."""
    return f"Fairlead decides. If it waits for you, answer in another client or with: fairlead permit {session[:8]}"


def _handlers(made: asyncio.Future[ClaudeTerminal]) -> dict[str, Handler]:
    """The handlers of its hooks. A hook that comes before the driver exists waits for it."""

    def handler(method: Callable[[ClaudeTerminal, Mapping[str, Any]], Awaitable[HookAnswer]]) -> Handler:
        async def handle(given: Mapping[str, Any]) -> HookAnswer:
            return await method(await made, given)

        return handle

    return {
        "pre-tool-use": handler(ClaudeTerminal.before_tool),
        "stop": handler(ClaudeTerminal.stopped),
        "session-start": handler(ClaudeTerminal.conversation_started),
    }
