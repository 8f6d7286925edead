"""The driver of one ACP agent: opens the conversation, delivers its messages, answers its requests.

It does not interpret messages. A message reaches the sink before the driver acts on it.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from fairlead.agents.acp import wire
from fairlead.agents.acp.interpreter.reports import option_value
from fairlead.agents.acp.requests import AcpRequests
from fairlead.agents.acp.wire import Message, as_dict, as_dicts, as_text
from fairlead.agents.line_driver import LineDriver
from fairlead.agents.links import Link
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.links.kept_output import prompt_key, reply_key
from fairlead.model.agents import AgentSink, Decision, Exit, Launch, Record, ToolCheck
from fairlead.model.errors import (
    AgentFailed,
    AgentRefused,
    HistoryMissing,
)
from fairlead.model.ids import RequestId
from fairlead.model.policy import PermissionMode
from fairlead.system.clock import Clock, within

logger = logging.getLogger("fairlead.agents.acp")

START_SECONDS: Final = 120.0
"""For `initialize` and for opening a conversation: some agents load for ten seconds on a busy machine."""
REQUEST_SECONDS: Final = 30.0
REPLAY_QUIET_SECONDS: Final = 1.0
"""Gemini CLI answers `session/load` before it has replayed the conversation. The replay has ended when it has been
silent for this long."""
REPLAY_AT_MOST_SECONDS: Final = 30.0
TITLES_ARE_COMMANDS: Final = frozenset({"gemini-cli"})
"""Agents that send no arguments, and the whole command as the title of a shell call (measured with 0.61.0)."""

CLIENT: Final = {
    "protocolVersion": wire.PROTOCOL_VERSION,
    # The agent reads and writes files itself, in its sandbox: nothing is offered to it.
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "elicitation": {"form": {}},
    },
    "clientInfo": {"name": "fairlead", "title": "Fairlead", "version": "1"},
}


class AcpAgent(LineDriver):
    """A running ACP agent. Implements `model.agents.Agent`."""

    def __init__(
        self, link: Link, sink: AgentSink, clock: Clock, name: str, spill: OversizeSpill | None, process: str
    ) -> None:
        """`process`: a name of the process that no other has."""
        super().__init__(link, sink, clock, name, spill)
        self.process = process
        self.agent_session = ""
        self._permissions = self._serving = AcpRequests(process, sink, link.send, self._forget)
        self._replaying = False
        self._heard = asyncio.Event()
        self._prompt: wire.RpcId | None = None
        self._answers: dict[str, Any] = {}
        """The agent's answer to `initialize`."""
        self._opened: dict[str, Any] = {}
        """Its answer to the request that opened the conversation."""

    # --- the start

    async def start(self, launch: Launch, cwd: str) -> None:
        """Open the conversation. Raises AgentNotRunning, HistoryMissing."""
        self._serving.cwd = cwd
        await self._begin(self._open_conversation(launch))

    async def _open_conversation(self, launch: Launch) -> None:
        self._answers = await self._ask(wire.INITIALIZE, CLIENT, START_SECONDS)
        if self._answers.get("protocolVersion") != wire.PROTOCOL_VERSION:
            spoken = self._answers.get("protocolVersion")
            raise AgentRefused(f"The agent {self._name} speaks version {spoken} of ACP; Fairlead speaks version 1.")
        self._serving.trusts_titles = self._trusts_titles
        where: dict[str, Any] = {"cwd": self._serving.cwd, "mcpServers": self._mcp_servers(launch)}
        if launch.settings.directories and "additionalDirectories" in self._session_capabilities:
            where["additionalDirectories"] = list(launch.settings.directories)
        if launch.resume and not launch.fork:
            await self._resume(launch.resume, where)
        else:
            self._opened = await self._ask_session(wire.NEW, where)
            self.agent_session = as_text(self._opened.get("sessionId"))
            if not self.agent_session:
                raise AgentRefused(f"The agent {self._name} opened a conversation without an id.")
        marker = wire.ReadyMarker(
            process=self.process,
            agent_session=self.agent_session,
            version=self.version,
            model=self._model(),
            cwd=self._serving.cwd,
            trusts_titles=self._trusts_titles,
        )
        if not self._started:
            await self._deliver([Record(wire.encode_marker(marker), "gateway")])
        if launch.settings.model:
            await self.set_model(launch.settings.model)
        if launch.settings.mode == PermissionMode.PLAN:
            await self.set_mode(launch.settings.mode)

    def _mcp_servers(self, launch: Launch) -> list[dict[str, Any]]:
        """The MCP servers of the session in ACP's form. Raises AgentRefused if the agent cannot connect to one."""
        if launch.mcp:
            raise AgentRefused(f"The agent {self._name} cannot use the gateway's own MCP server {launch.mcp[0]}.")
        able = as_dict(as_dict(self._answers.get("agentCapabilities")).get("mcpCapabilities"))
        servers: list[dict[str, Any]] = []
        for name, given in launch.mcp_servers.items():
            kind = given.get("type", "stdio")
            if kind == "stdio":
                env = [{"name": key, "value": value} for key, value in given.get("env", {}).items()]
                command = {"command": given.get("command", ""), "args": list(given.get("args", ())), "env": env}
                servers.append({"name": name, **command})
            elif able.get(kind):
                servers.append({"type": kind, "name": name, "url": given.get("url", ""), "headers": []})
            else:
                raise AgentRefused(
                    f"The agent {self._name} cannot use the MCP server {name}: it does not offer {kind}."
                )
        return servers

    async def _resume(self, conversation: str, where: dict[str, Any]) -> None:
        capabilities = as_dict(self._answers.get("agentCapabilities"))
        self.agent_session = conversation
        method = wire.RESUME if "resume" in self._session_capabilities else wire.LOAD
        if method == wire.LOAD and not capabilities.get("loadSession"):
            raise HistoryMissing(f"The agent {self._name} cannot continue an earlier conversation.")
        self._replaying = True
        try:
            self._opened = await self._ask_session(method, {"sessionId": conversation, **where})
            if method == wire.LOAD and not self._started:
                await self._until_replayed()
        except AgentRefused as refused:
            raise HistoryMissing(refused.message, **refused.data) from refused
        finally:
            self._replaying = False

    async def _until_replayed(self) -> None:
        """Wait for the end of the replay: our log has these messages already, so they are dropped."""
        deadline = self._clock.monotonic() + REPLAY_AT_MOST_SECONDS
        while self._clock.monotonic() < deadline:
            self._heard.clear()
            try:
                await within(self._clock, REPLAY_QUIET_SECONDS, self._heard.wait())
            except TimeoutError:
                return

    async def _ask_session(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._ask(method, params, START_SECONDS)
        except AgentRefused as refused:
            if refused.data.get("rpc") != wire.AUTH_REQUIRED:
                raise
            ways = ", ".join(as_text(way.get("name")) for way in as_dicts(self._answers.get("authMethods")))
            advice = f"The agent {self._name} is not signed in: run it once in a terminal and sign in there ({ways})."
            raise AgentFailed(advice) from refused

    @property
    def accepts_images(self) -> bool:
        capabilities = as_dict(self._answers.get("agentCapabilities"))
        return as_dict(capabilities.get("promptCapabilities")).get("image") is True

    @property
    def _session_capabilities(self) -> dict[str, Any]:
        return as_dict(as_dict(self._answers.get("agentCapabilities")).get("sessionCapabilities"))

    @property
    def _trusts_titles(self) -> bool:
        return as_text(as_dict(self._answers.get("agentInfo")).get("name")) in TITLES_ARE_COMMANDS

    def _model(self) -> str:
        listed = as_text(as_dict(self._opened.get("models")).get("currentModelId"))
        return option_value(self._opened.get("configOptions"), "model") or listed

    # --- facts

    @property
    def version(self) -> str:
        return as_text(as_dict(self._answers.get("agentInfo")).get("version"))

    @property
    def busy(self) -> bool:
        """Whether a prompt is unanswered: ACP has no messages into a running turn."""
        return self._prompt is not None

    # --- the agent's output

    async def _handle(self, lines: Sequence[bytes], end: int | None) -> None:
        batch: list[Record] = []
        todo: list[Message] = []
        for raw in lines:
            message = wire.decode(raw)
            self._heard.set()
            if message.is_answer and message.id in self._waiting:
                self._remember_answer(message.id, raw)
                self._settle(message.id, self._answer_of(message))
            elif not (self._replaying and message.method == wire.UPDATE):
                self._note(message, raw)
                batch.append(Record(raw))
                todo.append(message)
        if batch:
            await self._deliver(batch, end)
        for message in todo:
            self._act(message)

    def _note(self, message: Message, raw: bytes) -> None:
        """Store the requests that a restarted gateway must answer."""
        if message.is_request and message.id is not None:
            self._remember(str(message.id), self._serving.completed_request(message, raw))

    async def _recall(self, line: bytes) -> None:
        message = wire.decode(line)
        if message.is_answer and message.id is not None:
            self._answered[message.id] = self._answer_of(message)
            self._remember_answer(message.id, line)
        elif message.id is not None:
            self._remember(str(message.id), line)
            self._serving.note_request(message.params)
            if message.method in (wire.REQUEST_PERMISSION, wire.ELICIT):
                form = message.method == wire.ELICIT
                await self._serving.recall(message.id, message.params, form=form)
            else:
                self._act(message)

    def _answer_of(self, message: Message) -> dict[str, Any] | AgentRefused:
        if message.error is None:
            return as_dict(message.result)
        text = message.error.message or "no reason was given"
        return AgentRefused(f"The agent {self._name} refused: {text}", rpc=message.error.code)

    def _act(self, message: Message) -> None:
        if message.is_answer and message.id == self._prompt:
            self._prompt = None
            self._serving.forget_calls()
        elif message.method == wire.UPDATE:
            self._serving.note_call(message.update)
            unasked = self._serving.unasked_call(message.update) if self.busy else None
            if unasked is not None:
                self._tasks.spawn(self._check_unasked(unasked))
        elif message.method == wire.REQUEST_PERMISSION and message.id is not None:
            self._serving.note_request(message.params)
            self._tasks.spawn(self._serving.permission(message.id, message.params))
        elif message.method == wire.ELICIT and message.id is not None and message.params.get("mode") != "url":
            self._tasks.spawn(self._serving.question(message.id, message.params))
        elif message.method == wire.CANCEL_REQUEST:
            self._tasks.spawn(self._serving.withdraw(message.params.get("requestId", "")))
        elif message.is_request and message.id is not None:
            problem = f"{message.method} is not offered by this client."
            self._tasks.spawn(self._reject(message.id, problem))

    async def _reject(self, number: wire.RpcId, problem: str) -> None:
        await self._link.send(wire.error_line(number, wire.METHOD_NOT_FOUND, problem), reply_key(str(number)))
        self._forget(str(number))

    async def _check_unasked(self, check: ToolCheck) -> None:
        """Interrupt an agent that did without asking what a rule or the fence denies."""
        if (await self._sink.check(check)).forbids:
            await self.interrupt()

    async def answer(self, request: RequestId, decision: Decision) -> None:
        await super().answer(request, decision)
        if decision.interrupt:
            await self.interrupt()

    # --- the agent's input

    async def write(self, record: Record, *, again: bool = False) -> None:
        self._prompt = wire.decode(record.raw).id
        await self._link.send(record.raw + b"\n", prompt_key(record.raw))

    async def interrupt(self, key: str = "") -> None:
        """Cancel the turn, and with it every open request, as ACP requires."""
        await self._link.send(wire.notification_line(wire.CANCEL, {"sessionId": self.agent_session}), key)
        await self._serving.cancel_all()

    async def set_mode(self, mode: str) -> None:
        """Follow the session into and out of plan mode, if the agent has one; the policy implements the other modes."""
        await super().set_mode(mode)
        given = as_dict(self._opened.get("modes"))
        known = [as_text(item.get("id")) for item in as_dicts(given.get("availableModes"))]
        wanted = mode if mode == PermissionMode.PLAN else as_text(given.get("currentModeId"))
        if PermissionMode.PLAN in known and wanted in known:
            await self._ask(wire.SET_MODE, {"sessionId": self.agent_session, "modeId": wanted}, REQUEST_SECONDS)

    async def set_model(self, model: str) -> None:
        options = as_dicts(self._opened.get("configOptions"))
        option = next((item for item in options if item.get("category") == "model"), None)
        where = {"sessionId": self.agent_session}
        if option is not None:
            params = {**where, "configId": option.get("id"), "value": model}
            await self._ask(wire.SET_OPTION, params, REQUEST_SECONDS)
        elif "models" in self._opened:
            await self._ask(wire.SET_MODEL, {**where, "modelId": model}, REQUEST_SECONDS)
        else:
            await super().set_model(model)

    async def _ask(self, method: str, params: dict[str, Any], seconds: float) -> dict[str, Any]:
        number = self._next_request()
        line = wire.request_line(number, method, params)
        answer: dict[str, Any] = await self._await_answer(number, line, seconds, method)
        return answer

    # --- the end

    async def _finish(self, ended: Exit) -> Exit:
        self._serving.close()
        return await super()._finish(ended)
