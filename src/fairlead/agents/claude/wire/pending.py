"""Our control requests that wait for an answer. Pure: the caller has the timers.

An answer settles exactly its own request; an answer without a request (late, duplicate, an echo of our own) has no
effect. Every request needs a time limit, since 2.1.37 never answers a subtype that it does not know.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

from fairlead.agents.claude.wire.control import check_answer
from fairlead.agents.claude.wire.records import ControlAnswer, ControlRequest
from fairlead.model.errors import AgentFailed, AgentNotRunning, AgentRefused

TIMEOUT: Final = 15.0
SLOW_TIMEOUT: Final = 60.0
"""For `initialize` and for requests that wait for an MCP server to start."""

T = TypeVar("T")


def default_timeout(subtype: str) -> float:
    return SLOW_TIMEOUT if subtype == "initialize" or subtype.startswith("mcp_") else TIMEOUT


class Settled(msgspec.Struct, Generic[T], frozen=True):
    """A request that has ended, by the caller's `token`. Either `answer` or `error` is set; `permissions` are the CLI's
    requests that its error lists as still open."""

    token: T
    answer: dict[str, Any] | None = None
    error: AgentFailed | None = None
    permissions: tuple[ControlRequest, ...] = ()


class PendingRequests(Generic[T]):
    """The requests in flight. The methods that end requests return those that they have ended."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, T]] = {}
        self._closed = False

    def add(self, request_id: str, subtype: str, token: T) -> None:
        """Register a request; call this before sending it. Raises AgentNotRunning after `close`."""
        if self._closed:
            raise AgentNotRunning(f"The agent is gone; {subtype} was not sent.", subtype=subtype)
        self._waiting[request_id] = (subtype, token)

    def settle(self, answer: ControlAnswer) -> list[Settled[T]]:
        """Settle the request of this answer, if it is open."""
        if answer.request_id not in self._waiting:
            return []
        subtype, token = self._waiting.pop(answer.request_id)
        if answer.subtype == "error":
            problem = answer.error or "no reason was given"
            error = AgentRefused(f"The agent refused {subtype}: {problem}", subtype=subtype)
            return [Settled(token, error=error, permissions=_requests(answer.pending_permission_requests))]
        try:
            return [Settled(token, answer=check_answer(subtype, answer.response))]
        except AgentRefused as wrong:
            return [Settled(token, error=wrong)]

    def drop(self, request_id: str) -> None:
        """Drop a request that its caller has given up; a later answer has no effect."""
        self._waiting.pop(request_id, None)

    def close(self, reason: str) -> list[Settled[T]]:
        """Fail all requests with AgentNotRunning, since the agent has exited, and accept no more."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        return [Settled(token, error=AgentNotRunning(reason, subtype=subtype)) for subtype, token in waiting.values()]


def _requests(data: list[Any] | None) -> tuple[ControlRequest, ...]:
    """The valid control_requests in an error answer; invalid items are dropped."""
    found = []
    for item in data or ():
        try:
            found.append(msgspec.convert(item, ControlRequest))
        except msgspec.ValidationError:
            continue
    return tuple(found)
