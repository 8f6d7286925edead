"""The parts of a driver that are the same for every agent that sends one message per line on one link."""

import asyncio
import contextlib
import logging
import uuid
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from fairlead.agents.driver import AgentDriver, background_tasks, explain_start
from fairlead.agents.links import Link
from fairlead.agents.links.framing import LineSplitter, Oversize, OversizeSpill, oversize_placeholder
from fairlead.agents.links.kept_output import UNSTORED_BYTES
from fairlead.model.agents import AgentSink, Decision, Exit
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentFailed, AgentNotRunning, AgentRefused, AgentTimeout, BadMode, Stale
from fairlead.model.ids import MessageId, RequestId
from fairlead.model.policy import PermissionMode
from fairlead.system.clock import Clock, within

logger = logging.getLogger("fairlead.agents")


POLICY_MODES: Final = (
    PermissionMode.DEFAULT,
    PermissionMode.ACCEPT_EDITS,
    PermissionMode.PLAN,
    PermissionMode.DONT_ASK,
    PermissionMode.BYPASS_PERMISSIONS,
)
"""The modes that the gateway's policy implements, for an agent that always asks."""


STARTED: Final = b"started"
"""A line to recall: the start is done."""


class OpenRequests(set[str]):
    """The agent's requests that wait for a decision, for an agent that names them itself."""

    def __init__(self, decide: Callable[[RequestId, Decision], Awaitable[None]]) -> None:
        super().__init__()
        self._decide = decide

    async def answer(self, request: RequestId, decision: Decision) -> None:
        if request not in self:
            raise Stale("The agent does not wait for this answer any more.", request=request)
        self.discard(request)
        await self._decide(request, decision)


class LineDriver(AgentDriver):
    """A running agent. Its subclasses implement `model.agents.Agent`: they handle its lines, and replace the methods of
    what the agent can do; by default it refuses."""

    def __init__(self, link: Link, sink: AgentSink, clock: Clock, name: str, spill: OversizeSpill | None) -> None:
        super().__init__(link, sink, clock)
        self._link = link
        self._name = name
        self._output = link.output
        self._splitter = LineSplitter(spill=spill, offset=0 if self._output is None else self._output.offset)
        self._waiting: dict[int | str, asyncio.Future[Any]] = {}
        self._requests = 0
        self._prefix = "fairlead"
        self._started = False
        self._answered: dict[int | str, Any] = {}
        """Answers to the requests of the start that an earlier gateway received."""
        self._tasks = background_tasks("a request of the agent failed")

    @abstractmethod
    async def _handle(self, lines: Sequence[bytes], end: int | None) -> None:
        """Deliver the lines as records, then act on them. `end`: where the last line ends in the agent's output."""

    @abstractmethod
    async def _recall(self, line: bytes) -> None:
        """Handle a line again that an earlier gateway has handled and stored: an answer to a request of the start, or a
        request of the agent that may not be answered yet."""

    async def _begin(self, ready: Awaitable[None]) -> None:
        for line in () if self._output is None else self._output.recalled:
            if line == STARTED:
                self._started = True
            else:
                await self._recall(line)
        await super()._begin(ready)
        await self._note_started()

    async def _note_started(self) -> None:
        """Store that the start is done, so that it is not repeated; later requests get numbers of their own."""
        if self._output is not None:
            self._prefix = f"fairlead-{uuid.uuid4().hex[:8]}"
            self._output.remember("started", STARTED)
            if not self._started:
                await self._store_recalled()
        self._started = True

    # --- the agent's output

    async def _read_records(self) -> None:
        try:
            await self._link.receive(self._feed)
            await self._take(self._splitter.end(), None)
        except Exception:
            # The store failed: the agent's output cannot be stored, so the agent must not continue.
            logger.exception("the agent's records could not be stored", extra={"pid": self.pid})

    async def _feed(self, data: bytes) -> None:
        lines = self._splitter.feed(data)
        ends = self._splitter.ends
        if lines:
            await self._take(lines, ends[-1])
            if self._output is not None and ends[-1] - self._output.offset > UNSTORED_BYTES:
                await self._deliver((), ends[-1])
        if self._output is not None and self._splitter.spilling:
            self._output.skip_oversize(self._splitter.offset)

    async def _take(self, lines: Sequence[bytes | Oversize], end: int | None) -> None:
        whole = [oversize_placeholder(line) if isinstance(line, Oversize) else line for line in lines]
        await self._handle(whole, end)

    # --- requests to the agent

    def _next_request(self) -> str:
        self._requests += 1
        return f"{self._prefix}-{self._requests}"

    async def _await_answer(self, number: str, line: bytes, seconds: float, about: str) -> Any:
        """Send a request and return its answer, which `_settle` gets. AgentTimeout, AgentRefused, AgentNotRunning.

        A request of the start that an earlier gateway sent to the same process is not sent again."""
        if number in self._answered:
            known = self._answered[number]
            if isinstance(known, AgentFailed):
                raise known
            return known
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            await self._link.send(line, f"request:{number}")
            return await within(self._clock, seconds, answered)
        except TimeoutError:
            raise AgentTimeout(f"The agent {self._name} did not answer {about}.", subtype=about) from None
        finally:
            self._waiting.pop(number, None)

    def _remember(self, request: str, line: bytes) -> None:
        """Store a request of the agent, so that a restarted gateway answers it."""
        if self._output is not None:
            self._output.remember(f"request:{request}", line)

    def _forget(self, request: str) -> None:
        if self._output is not None:
            self._output.forget(f"request:{request}")

    def _remember_answer(self, number: int | str, line: bytes) -> None:
        """Store an answer to a request of the start."""
        if self._output is not None and not self._started:
            self._output.remember(f"start:{number}", line)

    def _settle(self, number: int | str, answer: Any) -> None:
        """Give an answer, or an AgentFailed, to the request that waits for it."""
        answered = self._waiting.pop(number)
        if answered.done():
            return
        if isinstance(answer, AgentFailed):
            answered.set_exception(answer)
        else:
            answered.set_result(answer)

    # --- facts, and what most agents do not have

    @property
    def modes(self) -> tuple[str, ...]:
        return POLICY_MODES

    @property
    def attended(self) -> bool:
        return False

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        fields = ("link", "directories", "mcp_servers")
        return any(getattr(old, name) != getattr(new, name) for name in fields)

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        raise AgentRefused(f"The agent {self._name} has no control request {subtype}.", subtype=subtype)

    async def set_mode(self, mode: str) -> None:
        if mode not in self.modes:
            raise BadMode(mode, self.modes)

    async def set_model(self, model: str) -> None:
        raise AgentRefused(f"The agent {self._name} does not offer a choice of models.")

    async def set_thinking(self, budget: int | None) -> None:
        raise AgentRefused(f"The agent {self._name} has no thinking budget.")

    async def rewind(self, message: MessageId, *, dry_run: bool) -> dict[str, Any]:
        raise AgentRefused(f"The agent {self._name} cannot restore files.")

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        raise AgentRefused(f"The agent {self._name} accepts no environment variables while it runs.")

    # --- the end

    def _explain_failure(self, error: AgentFailed, ended: Exit) -> str:
        return explain_start(error, ended)

    async def _end(self) -> Exit:
        return await self._link.stop()

    async def _finish(self, ended: Exit) -> Exit:
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(AgentNotRunning("The agent has exited."))
        with contextlib.suppress(AgentFailed):
            await self._tasks.wait()
        return ended
