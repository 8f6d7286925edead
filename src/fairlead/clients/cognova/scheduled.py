"""REST for agents: prompts with a schedule and a budget, run by hand or on time. Pure."""

from typing import Any, Final

from fairlead.clients.cognova.fields import Fields, given, missing_is, route, shown
from fairlead.clients.cognova.rest import data, problem, worded
from fairlead.model.errors import NotFound
from fairlead.model.notices import (
    AddItem,
    AgentRun,
    CancelAgent,
    EditItem,
    GetItem,
    ListItems,
    RemoveItem,
    RunAgent,
    ScheduledAgent,
)
from fairlead.model.routes import Request, Steps, json_response

NO_AGENT: Final = "Agent not found"
NOTHING_RUNS: Final = "No running executions found for this agent"
INCOMPLETE: Final = "Name, schedule, and prompt are required"
RUNS: Final = 50


def _rest(fields: Fields) -> dict[str, Any]:
    found = given(
        description=fields.text("description"),
        enabled=fields.flag("enabled"),
        max_turns=fields.whole("maxTurns", 1, 10_000),
        folder=fields.text("folder", 4096),
    )
    if fields.has("maxBudgetUsd"):
        found["max_budget_usd"] = fields.number("maxBudgetUsd", 0.0001, 100_000)
    return found


def _runs_of(agent: str) -> ListItems:
    def accept(run: AgentRun) -> bool:
        return run.agent_id == agent

    return ListItems(AgentRun, accept, RUNS)


@worded
def list_agents(request: Request) -> Steps:
    return data([shown(agent) for agent in (yield ListItems(ScheduledAgent))])


@missing_is(NO_AGENT)
def get_agent(request: Request) -> Steps:
    agent: ScheduledAgent = yield GetItem(ScheduledAgent, request.params["id"])
    return data(shown(agent) | {"runs": [shown(run) for run in (yield _runs_of(agent.id))]})


@worded
def add_agent(request: Request) -> Steps:
    fields = Fields(request)
    agent = ScheduledAgent(
        id=request.fresh,
        name=fields.required("name", INCOMPLETE),
        schedule=fields.required("schedule", INCOMPLETE),
        prompt=fields.required("prompt", INCOMPLETE, 100_000, strip=False),
        **_rest(fields),
    )
    return data(shown((yield AddItem(agent))))


@missing_is(NO_AGENT)
def edit_agent(request: Request) -> Steps:
    fields = Fields(request)
    changes = _rest(fields)
    for name in ("name", "schedule"):
        if fields.has(name):
            changes[name] = fields.required(name, INCOMPLETE)
    if fields.has("prompt"):
        changes["prompt"] = fields.required("prompt", INCOMPLETE, 100_000, strip=False)
    return data(shown((yield EditItem(ScheduledAgent, request.params["id"], changes))))


@missing_is(NO_AGENT)
def remove_agent(request: Request) -> Steps:
    yield RemoveItem(ScheduledAgent, request.params["id"])
    return data({"success": True})


@missing_is(NO_AGENT)
def run_agent(request: Request) -> Steps:
    run: AgentRun = yield RunAgent(request.params["id"])
    return json_response({"message": "Agent started", "runId": run.id, "sessionId": run.session_id})


@missing_is(NO_AGENT)
def cancel_agent(request: Request) -> Steps:
    agent: ScheduledAgent = yield GetItem(ScheduledAgent, request.params["id"])
    try:
        count: int = yield CancelAgent(agent.id)
    except NotFound:
        return problem(404, NOTHING_RUNS)
    words = f"Cancelling {count} running execution{'' if count == 1 else 's'}"
    return json_response({"success": True, "message": words, "cancelledCount": count})


ROUTES: Final = (
    route("GET", "/api/agents", "view", list_agents, "Agents, newest first."),
    route("POST", "/api/agents", "chat", add_agent, "A new agent; its schedule is cron, in UTC."),
    route("GET", "/api/agents/{id}", "view", get_agent, "One agent, with its last runs."),
    route("PATCH", "/api/agents/{id}", "chat", edit_agent, "Change an agent."),
    route("DELETE", "/api/agents/{id}", "chat", remove_agent, "Delete an agent; what runs is cancelled."),
    route("POST", "/api/agents/{id}/run", "chat", run_agent, "Run it now, as a session of its own."),
    route("POST", "/api/agents/{id}/cancel", "chat", cancel_agent, "End what runs of it."),
)
