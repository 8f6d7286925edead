"""Requests in flight: each answer settles its own request, every request ends, and unexpected answers do no harm."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.wire.control import BadAnswer
from fairlead.agents.claude.wire.pending import PendingRequests, default_timeout
from fairlead.agents.claude.wire.records import ControlAnswer
from fairlead.model.errors import AgentNotRunning, AgentRefused


def success(request_id: str, response: Any = None) -> ControlAnswer:
    return ControlAnswer(subtype="success", request_id=request_id, response=response)


@pytest.mark.rules("S004-127", "S004-298")
@given(st.integers(1, 30), st.integers())
def test_answers_in_any_order_settle_exactly_their_own(count: int, seed: int) -> None:
    pending: PendingRequests[int] = PendingRequests()
    for number in range(count):
        pending.add(f"r{number}", "interrupt", number)
    order = list(range(count))
    random.Random(seed).shuffle(order)
    for number in order:
        (settled,) = pending.settle(success(f"r{number}", {"n": number}))
        assert (settled.token, settled.answer, settled.error) == (number, {"n": number}, None)
    assert pending.close("over") == []


@pytest.mark.rules("S004-132", "S004-300")
def test_duplicate_late_and_unknown_answers_are_ignored() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add("r1", "set_permission_mode", "a")
    pending.add("r2", "interrupt", "b")
    pending.add("r3", "interrupt", "c")
    assert [settled.token for settled in pending.settle(success("r1", {"mode": "plan"}))] == ["a"]
    pending.drop("r2")
    assert [pending.settle(success(name)) for name in ("r1", "r2", "echo")] == [[], [], []]
    assert [settled.token for settled in pending.settle(success("r3"))] == ["c"]


def test_mcp_and_initialize_requests_have_longer_deadlines() -> None:
    slow = [default_timeout(subtype) for subtype in ("initialize", "mcp_status", "mcp_message")]
    assert slow == [60, 60, 60]
    assert default_timeout("interrupt") == 15


@pytest.mark.rules("S004-299")
def test_closing_fails_all_requests_and_accepts_no_more() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add("r1", "interrupt", "a")
    (over,) = pending.close("It exited with code 1.")
    assert isinstance(over.error, AgentNotRunning)
    assert over.error.message == "It exited with code 1."
    assert pending.close("again") == []
    with pytest.raises(AgentNotRunning):
        pending.add("r2", "interrupt", "b")


def test_a_request_can_be_abandoned() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add("r1", "interrupt", "a")
    pending.drop("r1")
    pending.drop("r1")
    assert pending.settle(success("r1")) == []


@pytest.mark.rules("S004-129", "S004-130")
def test_an_error_answer_fails_its_request_and_returns_pending_permissions() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add("r1", "initialize", "a")
    request = {"type": "control_request", "request_id": "q", "request": {"subtype": "can_use_tool"}}
    answer = ControlAnswer(
        subtype="error",
        request_id="r1",
        error="Already initialized",
        pending_permission_requests=[request, "nonsense", {"request_id": 3}],
    )
    (settled,) = pending.settle(answer)
    assert isinstance(settled.error, AgentRefused)
    assert "Already initialized" in settled.error.message
    assert [(item.request_id, item.subtype) for item in settled.permissions] == [("q", "can_use_tool")]


def test_an_error_without_a_message_still_fails_its_request() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add("r1", "interrupt", "a")
    (settled,) = pending.settle(ControlAnswer(subtype="error", request_id="r1"))
    assert settled.error is not None
    assert settled.permissions == ()


@pytest.mark.rules("S004-302")
def test_an_answer_of_the_wrong_shape_fails_only_its_request() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add("r1", "mcp_status", "a")
    pending.add("r2", "mcp_status", "b")
    (wrong,) = pending.settle(success("r1", {"mcpServers": "none"}))
    assert isinstance(wrong.error, BadAnswer)
    (good,) = pending.settle(success("r2", {"mcpServers": []}))
    assert good.answer == {"mcpServers": []}
