"""REST for agents: prompts with a schedule and a budget, run on request or on schedule. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.clients.cognova.body_fields import BodyFields, item_json, without_none
from fairlead.clients.cognova.resource_calls import ResourceCalls
from fairlead.clients.cognova.rest import data, new_routes
from fairlead.model.errors import BadRequest
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Steps, json_response
from fairlead.notifications.api.cognova import AgentRun, CancelAgent, RunAgent, ScheduledAgent
from fairlead.notifications.api.resources import GetItem, ListItems

INCOMPLETE: Final = "Name, schedule, and prompt are required"
RUNS: Final = 50
RUNS_LIMIT: Final = 500
MOST: Final = 10_000
"""Maximum number of runs that are counted; the gateway stores no more."""
_DAY: Final = 24 * 60 * 60 * 1000
PERIODS: Final = {"24h": _DAY, "7d": 7 * _DAY, "30d": 30 * _DAY}

ROUTES: Final = new_routes()


def _agent(fields: BodyFields) -> dict[str, Any]:
    found = without_none(
        name=fields.given("name", INCOMPLETE),
        schedule=fields.given("schedule", INCOMPLETE),
        prompt=fields.given("prompt", INCOMPLETE, 100_000, strip=False),
        description=fields.text("description"),
        enabled=fields.flag("enabled"),
        max_turns=fields.whole("maxTurns", 1, 10_000),
        folder=fields.text("folder", 4096),
    )
    if fields.has("maxBudgetUsd"):
        found["max_budget_usd"] = fields.number("maxBudgetUsd", 0.0001, 100_000)
    return found


def _runs_of(agent: str, limit: int = RUNS, since: int = 0) -> ListItems:
    def accept(run: AgentRun) -> bool:
        return run.agent_id == agent and run.created_at >= since

    return ListItems(AgentRun, accept, limit)


def _run(run: AgentRun) -> dict[str, Any]:
    return item_json(run) | {"startedAt": iso_timestamp(run.created_at)}


def _since(request: Request, default: str) -> int:
    """The start of the requested period; 0 without one."""
    period = request.query.get("period", default)
    if not period:
        return 0
    if period not in PERIODS:
        raise BadRequest(f"period must be one of: {', '.join(PERIODS)}", field="period")
    return request.at - PERIODS[period]


AGENTS: Final = ResourceCalls(ScheduledAgent, _agent)
AGENTS.declare(ROUTES, "/api/agents", "list", "add", "remove")
ROUTES.patch("/api/agents/{id}", "chat", "agents.edit")(AGENTS.edit)


@ROUTES.get("/api/agents/{id}", "view", "agents.get")
def get_agent(request: Request) -> Steps:
    agent = yield from do(GetItem(ScheduledAgent, request.params["id"]))
    return data(item_json(agent) | {"runs": [_run(run) for run in (yield _runs_of(agent.id))]})


@ROUTES.get("/api/agents/{id}/runs", "view", "agents.runs")
def list_runs(request: Request) -> Steps:
    limit = request.query_int("limit", 100, 1, RUNS_LIMIT)
    since = _since(request, "")
    agent = yield from do(GetItem(ScheduledAgent, request.params["id"]))
    return data([_run(run) for run in (yield _runs_of(agent.id, limit, since))])


@ROUTES.get("/api/agents/{id}/stats", "view", "agents.agent-stats")
def agent_stats(request: Request) -> Steps:
    since = _since(request, "7d")
    agent = yield from do(GetItem(ScheduledAgent, request.params["id"]))
    runs: tuple[AgentRun, ...] = yield _runs_of(agent.id, MOST, since)
    done = [run.duration_ms for run in runs if run.completed_at is not None]
    last = max((run.created_at for run in runs), default=None)
    return data(
        {
            "totalRuns": len(runs),
            "successRate": _success_rate(runs),
            "avgDurationMs": round(sum(done) / len(done)) if done else 0,
            "totalCostUsd": sum(run.cost_usd for run in runs),
            "lastRunAt": None if last is None else iso_timestamp(last),
            "dailyRuns": _by_day(runs),
        }
    )


@ROUTES.get("/api/agents/stats", "view", "agents.stats")
def all_stats(request: Request) -> Steps:
    since = _since(request, "7d")
    agents = yield from do(ListItems(ScheduledAgent))
    runs = yield from do(ListItems(AgentRun, lambda run: run.created_at >= since, MOST))
    return data(
        {
            "totalAgents": len(agents),
            "activeAgents": sum(agent.enabled for agent in agents),
            "runsInPeriod": len(runs),
            "successRate": _success_rate(runs),
            "totalCostUsd": sum(run.cost_usd for run in runs),
            "runningAgentIds": list(dict.fromkeys(run.agent_id for run in runs if run.status == "running")),
            "dailyRuns": _by_day(runs),
        }
    )


def _success_rate(runs: Sequence[AgentRun]) -> int:
    """The share of successful runs, in percent."""
    return round(100 * sum(run.status == "success" for run in runs) / len(runs)) if runs else 0


def _by_day(runs: Sequence[AgentRun]) -> list[dict[str, Any]]:
    """The runs of each day in UTC, in order; a run that is still in progress counts only in `total`."""
    days: dict[str, dict[str, Any]] = {}
    for run in sorted(runs, key=lambda run: run.created_at):
        date = iso_timestamp(run.created_at)[:10]
        day = days.setdefault(date, {"date": date, "success": 0, "error": 0, "total": 0, "costUsd": 0.0})
        day["total"] += 1
        day["success"] += run.status == "success"
        day["error"] += run.status in ("error", "budget_exceeded", "cancelled")
        day["costUsd"] += run.cost_usd
    return list(days.values())


@ROUTES.post("/api/agents/{id}/run", "chat", "agents.run")
def run_agent(request: Request) -> Steps:
    run = yield from do(RunAgent(request.params["id"]))
    return json_response({"message": "Agent started", "runId": run.id, "sessionId": run.session_id})


@ROUTES.post("/api/agents/{id}/cancel", "chat", "agents.cancel")
def cancel_agent(request: Request) -> Steps:
    count = yield from do(CancelAgent(request.params["id"]))
    message = f"Cancelling {count} running execution{'' if count == 1 else 's'}"
    return json_response({"success": True, "message": message, "cancelledCount": count})
