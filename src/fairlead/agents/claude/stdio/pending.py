"""Our control requests that wait for an answer. The caller has the timers.

An answer settles exactly its own request; an answer without a request (late, duplicate, an echo of our own) has no
effect. Every request needs a time limit, since 2.1.37 never answers a subtype that it does not know.
"""

import asyncio
from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.control import check_answer
from fairlead.agents.claude.wire.records import ControlAnswer, ControlRequest
from fairlead.model.errors import AgentNotRunning, AgentRefused

TIMEOUT: Final = 15.0
SLOW_TIMEOUT: Final = 60.0
"""For `initialize` and for requests that wait for an MCP server to start."""


def default_timeout(subtype: str) -> float:
    return SLOW_TIMEOUT if subtype == "initialize" or subtype.startswith("mcp_") else TIMEOUT


class PendingRequests:
    """The requests in flight, each with the future of its answer."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._closed = False

    def add(self, request_id: str, subtype: str) -> asyncio.Future[dict[str, Any]]:
        """Register a request; call this before sending it. Raises AgentNotRunning after `close`."""
        if self._closed:
            raise AgentNotRunning(f"The agent is gone; {subtype} was not sent.", subtype=subtype)
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (subtype, answered)
        return answered

    def settle(self, answer: ControlAnswer) -> list[ControlRequest]:
        """Settle the request of this answer, if it is open. Return the CLI's own requests that an error lists as still
        open."""
        subtype, answered = self._waiting.pop(answer.request_id, ("", None))
        if answered is None or answered.done():
            return []
        if answer.subtype == "error":
            problem = answer.error or "no reason was given"
            answered.set_exception(AgentRefused(f"The agent refused {subtype}: {problem}", subtype=subtype))
            return _requests(answer.pending_permission_requests)
        try:
            answered.set_result(check_answer(subtype, answer.response))
        except AgentRefused as wrong:
            answered.set_exception(wrong)
        return []

    def drop(self, request_id: str) -> None:
        """Drop a request that its caller has given up; a later answer has no effect."""
        self._waiting.pop(request_id, None)

    def close(self, reason: str) -> None:
        """Fail all requests with AgentNotRunning, since the agent has exited, and accept no more."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for subtype, answered in waiting.values():
            if not answered.done():
                answered.set_exception(AgentNotRunning(reason, subtype=subtype))


def _requests(data: list[Any] | None) -> list[ControlRequest]:
    """The valid control_requests in an error answer; invalid items are dropped."""
    found = []
    for item in data or ():
        try:
            found.append(msgspec.convert(item, ControlRequest))
        except msgspec.ValidationError:
            continue
    return found
