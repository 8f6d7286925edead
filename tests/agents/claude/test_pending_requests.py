"""Requests in flight: each answer settles its own request, every request ends, and unexpected answers do no harm."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.stdio.pending import PendingRequests, default_timeout
from fairlead.agents.claude.wire.control import BadAnswer
from fairlead.agents.claude.wire.records import ControlAnswer
from fairlead.model.errors import AgentNotRunning, AgentRefused


def success(request_id: str, response: Any = None) -> ControlAnswer:
    return ControlAnswer(subtype="success", request_id=request_id, response=response)


@pytest.mark.rules("S004-127", "S004-298")
@given(st.integers(1, 30), st.integers())
async def test_answers_in_any_order_settle_exactly_their_own(count: int, seed: int) -> None:
    pending = PendingRequests()
    waiting = [pending.add(f"r{number}", "interrupt") for number in range(count)]
    order = list(range(count))
    random.Random(seed).shuffle(order)
    for place, number in enumerate(order):
        assert pending.settle(success(f"r{number}", {"n": number})) == []
        assert waiting[number].result() == {"n": number}
        assert sum(answer.done() for answer in waiting) == place + 1


@pytest.mark.rules("S004-132", "S004-300")
async def test_duplicate_late_and_unknown_answers_are_ignored() -> None:
    pending = PendingRequests()
    first, second, third = (pending.add(name, "interrupt") for name in ("r1", "r2", "r3"))
    pending.settle(success("r1", {"n": 1}))
    pending.drop("r2")
    pending.drop("r2")
    for name in ("r1", "r2", "echo"):
        assert pending.settle(success(name, {"n": 2})) == []
    assert first.result() == {"n": 1}
    assert not second.done() and not third.done()
    pending.settle(success("r3"))
    assert third.result() == {}


async def test_an_answer_to_a_cancelled_request_is_ignored() -> None:
    pending = PendingRequests()
    pending.add("r1", "interrupt").cancel()
    pending.add("r2", "interrupt").cancel()
    assert pending.settle(success("r1")) == []
    pending.close("over")


def test_mcp_and_initialize_requests_have_longer_deadlines() -> None:
    slow = [default_timeout(subtype) for subtype in ("initialize", "mcp_status", "mcp_message")]
    assert slow == [60, 60, 60]
    assert default_timeout("interrupt") == 15


@pytest.mark.rules("S004-299")
async def test_closing_fails_all_requests_and_accepts_no_more() -> None:
    pending = PendingRequests()
    waiting = pending.add("r1", "interrupt")
    pending.close("It exited with code 1.")
    with pytest.raises(AgentNotRunning, match=r"It exited with code 1\."):
        waiting.result()
    pending.close("again")
    with pytest.raises(AgentNotRunning):
        pending.add("r2", "interrupt")


@pytest.mark.rules("S004-129", "S004-130")
async def test_an_error_answer_fails_its_request_and_returns_pending_permissions() -> None:
    pending = PendingRequests()
    waiting = pending.add("r1", "initialize")
    request = {"type": "control_request", "request_id": "q", "request": {"subtype": "can_use_tool"}}
    answer = ControlAnswer(
        subtype="error",
        request_id="r1",
        error="Already initialized",
        pending_permission_requests=[request, "nonsense", {"request_id": 3}],
    )
    open_ones = pending.settle(answer)
    assert [(item.request_id, item.subtype) for item in open_ones] == [("q", "can_use_tool")]
    with pytest.raises(AgentRefused, match="Already initialized"):
        waiting.result()


async def test_an_error_without_a_message_still_fails_its_request() -> None:
    pending = PendingRequests()
    waiting = pending.add("r1", "interrupt")
    assert pending.settle(ControlAnswer(subtype="error", request_id="r1")) == []
    assert waiting.exception() is not None


@pytest.mark.rules("S004-302")
async def test_an_answer_of_the_wrong_shape_fails_only_its_request() -> None:
    pending = PendingRequests()
    wrong, good = pending.add("r1", "mcp_status"), pending.add("r2", "mcp_status")
    pending.settle(success("r1", {"mcpServers": "none"}))
    pending.settle(success("r2", {"mcpServers": []}))
    assert isinstance(wrong.exception(), BadAnswer)
    assert good.result() == {"mcpServers": []}
