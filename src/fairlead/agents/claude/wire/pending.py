"""Our control requests that wait for an answer. Pure: the time is passed in as numbers.

An answer settles exactly its own request; an answer without a request (late, duplicate, an echo of our own) is counted
and has no effect. Every request has a deadline, since 2.1.37 never answers a subtype that it does not know.
"""

from collections import deque
from typing import Any, Final, Generic, TypeVar

import msgspec

from fairlead.agents.claude.wire.control import check_answer
from fairlead.agents.claude.wire.records import ControlAnswer, ControlRequest
from fairlead.model.errors import AgentFailed, AgentNotRunning, AgentRefused, AgentTimeout

TIMEOUT: Final = 15.0
SLOW_TIMEOUT: Final = 60.0
"""For `initialize` and for requests that wait for an MCP server to start."""

_REMEMBERED: Final = 256
"""How many ids of settled requests are kept, to distinguish a late or duplicate answer from an unsolicited one."""

T = TypeVar("T")


def default_timeout(subtype: str) -> float:
    return SLOW_TIMEOUT if subtype == "initialize" or subtype.startswith("mcp_") else TIMEOUT


class PendingControl(msgspec.Struct, Generic[T], frozen=True):
    """A request in flight. `token` belongs to the caller, which gets it back when the request is settled."""

    request_id: str
    subtype: str
    deadline: float
    token: T


class Settled(msgspec.Struct, Generic[T], frozen=True):
    """Either `answer` or `error` is set; `permissions` are the CLI's requests that its error lists as still open."""

    pending: PendingControl[T]
    answer: dict[str, Any] | None = None
    error: AgentFailed | None = None
    permissions: tuple[ControlRequest, ...] = ()


class PendingRequests(Generic[T]):
    def __init__(self) -> None:
        self._waiting: dict[str, PendingControl[T]] = {}
        self._past: deque[str] = deque(maxlen=_REMEMBERED)
        self._closed = False
        self.repeated = 0
        """Answers to requests that were already settled: late or duplicate."""
        self.unknown = 0
        """Answers to requests that we never sent."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, request_id: str, subtype: str, token: T, now: float, timeout: float | None = None
    ) -> PendingControl[T]:
        """Register a request; call this before sending it. Raises AgentNotRunning after `close`."""
        if self._closed:
            raise AgentNotRunning(f"The agent is gone; {subtype} was not sent.", subtype=subtype)
        deadline = now + (default_timeout(subtype) if timeout is None else timeout)
        pending = PendingControl(request_id, subtype, deadline, token)
        self._waiting[request_id] = pending
        return pending

    def settle(self, answer: ControlAnswer) -> Settled[T] | None:
        """Settle the request of this answer. None if no such request is open, which is not an error."""
        pending = self._take(answer.request_id)
        if pending is None:
            if answer.request_id in self._past:
                self.repeated += 1
            else:
                self.unknown += 1
            return None
        if answer.subtype == "error":
            problem = answer.error or "no reason was given"
            error = AgentRefused(f"The agent refused {pending.subtype}: {problem}", subtype=pending.subtype)
            return Settled(pending, error=error, permissions=_requests(answer.pending_permission_requests))
        try:
            return Settled(pending, answer=check_answer(pending.subtype, answer.response))
        except AgentRefused as wrong:
            return Settled(pending, error=wrong)

    def drop(self, request_id: str) -> PendingControl[T] | None:
        """Drop a request that its caller has given up; a later answer counts as late."""
        return self._take(request_id)

    @property
    def deadline(self) -> float | None:
        """The time at which the next request expires."""
        return min((pending.deadline for pending in self._waiting.values()), default=None)

    def expire(self, now: float) -> list[Settled[T]]:
        """Fail every request whose deadline has passed with AgentTimeout, oldest deadline first."""
        over = sorted((p for p in self._waiting.values() if p.deadline <= now), key=lambda p: p.deadline)
        return [self._fail(p, AgentTimeout(f"The agent did not answer {p.subtype}.", subtype=p.subtype)) for p in over]

    def close(self, reason: str = "The agent is gone.") -> list[Settled[T]]:
        """Fail all requests with AgentNotRunning, since the agent has exited, and accept no more."""
        self._closed = True
        return [self._fail(p, AgentNotRunning(reason, subtype=p.subtype)) for p in list(self._waiting.values())]

    def _fail(self, pending: PendingControl[T], error: AgentFailed) -> Settled[T]:
        self._take(pending.request_id)
        return Settled(pending, error=error)

    def _take(self, request_id: str) -> PendingControl[T] | None:
        pending = self._waiting.pop(request_id, None)
        if pending is not None:
            self._past.append(request_id)
        return pending


def _requests(data: list[Any] | None) -> tuple[ControlRequest, ...]:
    """The valid control_requests in an error answer; invalid items are dropped."""
    found = []
    for item in data or ():
        try:
            found.append(msgspec.convert(item, ControlRequest))
        except msgspec.ValidationError:
            continue
    return tuple(found)
