"""Launches the interactive CLI on a terminal, with its hooks and its arguments.

We write nothing into the user's own configuration. A person answers the CLI's questions at its first start (trust in a
folder, a key, its setup) once, in the terminal; the CLI remembers the answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.agents.claude.launch import PreparedLaunch, in_terminal, terminal_environment
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.agents.claude.tui.hook_server import Handler, HookServer
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.model.agents import AgentSink, StoredOutput
from fairlead.system.clock import Clock
from fairlead.terminals.api import Program, Size, Terminal, Terminals, session_terminal

HOOKED_STARTS = "clear|resume"
"""2.1.37 writes an extra file for any other start that is hooked."""
SIZE = Size(120, 40)
"""Wide enough for its hints; a smaller screen of a person who types there makes it smaller."""


async def open_terminal(
    prepared: PreparedLaunch, terminals: Terminals, hooks: HookServer, sink: AgentSink, clock: Clock
) -> ClaudeTerminal:
    """Start the CLI. Its process is not recorded yet, and its driver has not started. Raises TooMany, Busy,
    BadAgentSetting."""
    made: asyncio.Future[ClaudeTerminal] = asyncio.get_running_loop().create_future()
    launch = prepared.launch
    post = hooks.open(launch.session, _handlers(made))
    try:
        words = in_terminal(launch, prepared.version, prepared.agent_session, post.settings(HOOKED_STARTS))
        env = {**terminal_environment(prepared.env, launch, prepared.version), **post.variables}
        program = Program(argv=[*prepared.command, *words], env=env, cwd=prepared.cwd, size=SIZE)
        terminal = await terminals.open(session_terminal(launch.session), program)
    except BaseException:
        await post.close("The agent could not be started.")
        raise
    agent = ClaudeTerminal(prepared, terminal, post, sink, clock, gateway=hooks.gateway)
    made.set_result(agent)
    return agent


def adopt_terminal(
    prepared: PreparedLaunch,
    terminal: Terminal,
    hooks: HookServer,
    sink: AgentSink,
    clock: Clock,
    stored: StoredOutput,
) -> ClaudeTerminal:
    """Continue with a CLI of an earlier gateway on its terminal. Its driver has not started."""
    made: asyncio.Future[ClaudeTerminal] = asyncio.get_running_loop().create_future()
    post = hooks.reopen(prepared.launch.session, _handlers(made))
    agent = ClaudeTerminal(prepared, terminal, post, sink, clock, gateway=hooks.gateway, stored=stored)
    made.set_result(agent)
    return agent


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
