"""An agent's runs and numbers over REST: the calls of Cognova's agent pages, without a server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.clients.cognova import PROTOCOL, scheduled
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import Head, Response
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.cognova import AgentRun, ScheduledAgent
from fairlead.notifications.api.resources import GetItem, ListItems

HOUR = 3600 * 1000
NOW = 1_700_000_000_000
"""2023-11-14T22:13:20Z"""
AGENT = ScheduledAgent(id="a", name="Tidy", schedule="0 9 * * 1", prompt="Tidy up.")
RUN_FIELDS = {"id", "agentId", "status", "error", "costUsd", "durationMs", "startedAt", "completedAt"}


def run(name: str, hours: int, status: Any = "success", cost: float = 0.5, agent: str = "a") -> AgentRun:
    at = NOW - hours * HOUR
    done = None if status == "running" else at + 2000
    return AgentRun(
        id=name,
        created_at=at,
        modified_at=at,
        agent_id=agent,
        session_id=SessionId("00000000-0000-4000-8000-000000000001"),
        status=status,
        cost_usd=cost,
        duration_ms=0 if done is None else 2000 * (1 + hours),
        completed_at=done,
    )


RUNS = (
    run("r1", 0, "running", 0.0),
    run("r2", 1),
    run("other", 1, agent="b"),
    run("r3", 23, "error"),
    run("r4", 48, "budget_exceeded", 1.0),
    run("r5", 24 * 10),
    run("r6", 24 * 40),
)


def called(
    handler: Callable[[Request], Steps],
    query: dict[str, str] | None = None,
    agent: str = "a",
    runs: tuple[AgentRun, ...] = RUNS,
) -> Response:
    """The answer of a handler for which the gateway has these runs and AGENT."""
    who = Identity("c", "u", "ann", frozenset({"view"}))
    head = Head(method="GET", path="/api/agents")
    steps = handler(Request(head=head, who=who, fresh="", at=NOW, params={"id": agent}, query=query or {}))
    step: Any = None
    while True:
        try:
            if step is None:
                step = next(steps)
            elif isinstance(step, GetItem) and step.id != AGENT.id:
                step = steps.throw(NotFound("agent", step.id))
            elif isinstance(step, GetItem):
                step = steps.send(AGENT)
            elif isinstance(step, ListItems) and step.kind is ScheduledAgent:
                step = steps.send((AGENT,))
            else:
                assert isinstance(step, ListItems) and step.kind is AgentRun
                step = steps.send(tuple(filter(step.accept, runs))[: step.limit])
        except StopIteration as stop:
            answer: Response = stop.value
            return answer


def data(handler: Callable[[Request], Steps], **query: str) -> Any:
    answer = called(handler, query)
    assert answer.status == 200
    return json.loads(answer.body)["data"]


def test_the_runs_of_an_agent_are_listed_newest_first_up_to_the_limit() -> None:
    assert [one["id"] for one in data(scheduled.list_runs)] == ["r1", "r2", "r3", "r4", "r5", "r6"]
    first, second = data(scheduled.list_runs, limit="2")
    assert first.keys() >= RUN_FIELDS
    assert (first["status"], first["completedAt"], first["startedAt"]) == ("running", None, "2023-11-14T22:13:20.000Z")
    assert (second["status"], second["completedAt"]) == ("success", "2023-11-14T21:13:22.000Z")
    assert [one["id"] for one in data(scheduled.list_runs, period="24h")] == ["r1", "r2", "r3"]


def test_the_stats_of_an_agent_cover_the_period() -> None:
    week = data(scheduled.agent_stats)
    assert (week["totalRuns"], week["successRate"], week["totalCostUsd"]) == (4, 25, 2.0)
    assert week["avgDurationMs"] == round((4000 + 48000 + 98000) / 3)
    assert week["lastRunAt"] == "2023-11-14T22:13:20.000Z"
    assert week["dailyRuns"] == [
        {"date": "2023-11-12", "success": 0, "error": 1, "total": 1, "costUsd": 1.0},
        {"date": "2023-11-13", "success": 0, "error": 1, "total": 1, "costUsd": 0.5},
        {"date": "2023-11-14", "success": 1, "error": 0, "total": 2, "costUsd": 0.5},
    ]
    assert data(scheduled.agent_stats, period="30d")["totalRuns"] == 5


def test_an_agent_that_never_ran_has_zero_stats_and_no_last_run() -> None:
    assert json.loads(called(scheduled.agent_stats, runs=()).body)["data"] == {
        "totalRuns": 0,
        "successRate": 0,
        "avgDurationMs": 0,
        "totalCostUsd": 0,
        "lastRunAt": None,
        "dailyRuns": [],
    }


def test_the_stats_of_all_agents_together() -> None:
    stats = data(scheduled.all_stats, period="24h")
    assert (stats["totalAgents"], stats["activeAgents"], stats["runsInPeriod"]) == (1, 1, 4)
    assert (stats["runningAgentIds"], stats["successRate"], stats["totalCostUsd"]) == (["a"], 50, 1.5)


@pytest.mark.parametrize("path", ["/api/agents/{id}/runs", "/api/agents/{id}/stats"])
def test_an_unknown_agent_and_an_invalid_period_are_errors(path: str) -> None:
    (handler,) = [route.handle for route in PROTOCOL.routes if route.path == path]
    gone = called(handler, agent="nobody")
    assert (gone.status, json.loads(gone.body)["message"]) == (404, "Agent not found")
    bad = called(handler, {"period": "1y"})
    assert (bad.status, json.loads(bad.body)["message"]) == (400, "period must be one of: 24h, 7d, 30d")
