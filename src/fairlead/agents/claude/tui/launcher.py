"""Launches the interactive CLI on a terminal: its hooks, its arguments, and the transcript that is read.

We write nothing into the user's own configuration. A person answers the CLI's questions at its first start (trust in a
folder, a key, its setup) once, in the terminal; the CLI remembers the answers.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.claude.launch import in_terminal, resumes_by_command, terminal_environment
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.agents.claude.tui.hook_server import Handler, HookEndpoint, HookServer
from fairlead.agents.claude.tui.transcript_tail import TranscriptTail
from fairlead.agents.claude.versions import Version, abilities
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.agents.claude.wire.framing import OversizeSpill
from fairlead.agents.claude.wire.markers import TerminalMarker
from fairlead.model.agents import AgentSink, Launch
from fairlead.system.clock import Clock
from fairlead.terminals.api import Program, Size, Terminal, Terminals, session_terminal

SIZE = Size(120, 40)
"""Wide enough for its hints; a smaller screen of a person who types there makes it smaller."""


class TuiLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is needed to start the CLI in a terminal."""

    launch: Launch
    version: Version
    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    agent_session: str
    transcript: Path
    spill: OversizeSpill | None

    async def open(self, terminals: Terminals, hooks: HookServer, sink: AgentSink, clock: Clock) -> "TuiProcess":
        """Start it. Raises TooMany, Busy, BadAgentSetting."""
        made: asyncio.Future[ClaudeTerminal] = asyncio.get_running_loop().create_future()
        post = hooks.open(self.launch.session, self._handlers(made))
        try:
            words = in_terminal(self.launch, self.version, self.agent_session, _settings(post))
            env = {**terminal_environment(self.env, self.launch, self.version), **post.variables}
            program = Program(argv=[*self.command, *words], env=env, cwd=self.cwd, size=SIZE)
            terminal = await terminals.open(session_terminal(self.launch.session), program)
        except BaseException:
            await post.close("The agent could not be started.")
            raise
        agent = ClaudeTerminal(terminal, sink, clock, self.version)
        made.set_result(agent)
        ordered = abilities(self.version).writes_in_order
        rows = TranscriptTail(
            self.launch.session, self.transcript, clock, agent.records, ordered=ordered, spill=self.spill
        )
        if self.launch.fork:
            rows.skip_copies(self.transcript.with_name(f"{self.launch.resume}.jsonl"))
        elif self.launch.resume:
            rows.skip_existing()
        return TuiProcess(terminal, agent, rows, post, self)

    @property
    def resume_by_command(self) -> str:
        """The conversation that must be resumed by a typed command; empty if none."""
        return self.launch.resume if resumes_by_command(self.version) else ""

    def marker(self) -> TerminalMarker:
        return TerminalMarker(
            what="ready",
            agent_session=self.agent_session,
            version=".".join(map(str, self.version)),
            mode=self.launch.settings.mode,
            cwd=self.cwd,
        )

    def _handlers(self, made: "asyncio.Future[ClaudeTerminal]") -> dict[str, Handler]:
        async def before_tool(given: Mapping[str, Any]) -> HookAnswer:
            return await (await made).before_tool(given)

        async def stopped(given: Mapping[str, Any]) -> HookAnswer:
            return await (await made).stopped(given)

        async def began(given: Mapping[str, Any]) -> HookAnswer:
            return await (await made).conversation_started(given)

        return {"pre-tool-use": before_tool, "stop": stopped, "session-start": began}


def _settings(post: HookEndpoint) -> str:
    """The settings, with SessionStart hooked for `clear` and `resume` only: 2.1.37 writes an extra file for any other
    start that is hooked."""
    given = msgspec.json.decode(post.settings())
    for hook in given["hooks"]["SessionStart"]:
        hook["matcher"] = "clear|resume"
    return msgspec.json.encode(given).decode()


class TuiProcess:
    """A running CLI whose process is not recorded yet, and whose driver has not started."""

    def __init__(
        self, terminal: Terminal, agent: ClaudeTerminal, rows: TranscriptTail, post: HookEndpoint, stage: TuiLaunch
    ) -> None:
        self.terminal = terminal
        self._agent = agent
        self._rows = rows
        self._post = post
        self._stage = stage

    async def start(self) -> ClaudeTerminal:
        """Return when it accepts prompts, or needs an answer from a person. Raises AgentNotRunning."""
        stage, launch = self._stage, self._stage.launch
        forked = launch.resume if launch.fork else ""
        await self._agent.start(self._rows, self._post, stage.marker(), resume=stage.resume_by_command, forked=forked)
        return self._agent

    async def give_up(self) -> None:
        await self._post.close("The agent is ended.")
        await self.terminal.stop()
